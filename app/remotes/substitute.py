"""Decides which drafter may substitute for a model that is away: the model's own, if its text is readable.

Another one may only if the settings allow it (`offline = "drafter"`): the one that they name.
"""

from __future__ import annotations

from app.model_names import short_model
from app.sanitise import one_line
from drafter.floors import UNMEASURED, why_not_alone
from drafter.shelf import Drafters
from models.config import DrafterConfig

NOT_ITS_OWN = "No small model on this device was made for that server's model, and no other model answers in its place."


def why_nobody(drafters: Drafters, memory: bytes | None, *, own: bool, anyway: bool) -> str | None:
    """Why no drafter may substitute for a model, as a sentence, or None if the one that drafts for it may.

    `memory`: digest of the model's memory, if known. `own`: the drafter of the settings was chosen together with the
    model. `anyway`: that drafter may substitute for any model. Reads only configs.
    """
    first = drafters.first.config
    config = drafters.config(memory) or (first if own else None)
    if anyway and (config is first or not drafters.has(memory)):
        return None
    if config is None:
        return NOT_ITS_OWN
    why = why_not_alone(config)
    if why is None:
        return None
    if why == UNMEASURED:
        how = (
            "measure it: outrider drafter eval --record"
            if config is first
            else "fetch it again: outrider drafter fetch NAME"
        )
        return f"The {name_of(config)} was never measured, so it does not write alone. To {how}."
    return f"The {name_of(config)} is not good enough to write alone: {why}."


def name_of(config: DrafterConfig) -> str:
    """A drafter's name for people, by its model: drafters have none of their own."""
    return f"small model for {one_line(short_model(config.target))}"
