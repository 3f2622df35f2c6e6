"""Loads what a server serves: the model on its engine, and its drafter if there is one that is of use.

What is loaded, and how long it took, is said on stderr.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from drafter.floors import why_no_drafts
from models.config import read_config
from models.engines import choice
from models.engines.choice import EngineOptions, open_model, timed
from models.engines.graphs import is_gguf
from models.engines.llama_text import LlamaText
from models.gguf.file import gguf_path, why_not_unpacked
from models.text.text_side import TextSide
from remote.verifier.maker import look_up
from remote.verifier.options import ServeOptions

if TYPE_CHECKING:
    from drafter.model import MemoryEncoder


@dataclass(frozen=True)
class Opened(choice.Opened):
    """What a server serves."""

    due: bool = False
    """A drafter is to be made."""


def opened(options: ServeOptions) -> Opened:
    """Load the text side, the engine, and the drafter: the one that was given, or one that was made before.

    Raises what `START_ERRORS` names.
    """
    due = False
    if options.drafter is not None:
        drafter = of_use(options.drafter)
    else:
        drafter, said, due = look_up(options)
        if said is not None:
            say(said)
    engine = EngineOptions(options.engine, options.quantize, options.threads, options.template, options.texts)
    found = open_model(options.model, engine, drafter, torch_encoder=_torch_encoder, say=say)
    say(f"{found.side.name}: {found.engine.description}")
    if due and found.engine.takes_drafts and (why := _why_none_is_made(options.model, found.side)) is not None:
        say(f"no drafter: {why} Devices get plain text.")
        due = False
    return Opened(found.side, found.engine, found.drafter, due and found.engine.takes_drafts)


def _torch_encoder(drafter: Path) -> MemoryEncoder:
    from drafter.model import MemoryEncoder  # Needs PyTorch.

    return MemoryEncoder.load(drafter)


def _why_none_is_made(model: str, side: TextSide) -> str | None:
    """Why no drafter can be made for a GGUF file, in a sentence; None: one may be."""
    if not is_gguf(model):
        return None
    if isinstance(side.text, LlamaText):
        return f"Only llama.cpp reads the tokenizer of {side.name}, and devices could not."
    return why_not_unpacked(gguf_path(model))


def of_use(drafter: Path) -> Path | None:
    """The folder of a drafter that a person has named; None: its figures say that it is of none, and so it is said.

    Raises `DrafterError`.
    """
    config = read_config(drafter)
    if (why := why_no_drafts(config)) is None:
        return drafter
    if isinstance(config.measured, msgspec.UnsetType):
        say(f"devices are not offered the drafter {drafter}: {why}")
        return drafter
    say(f"without the drafter {drafter}: {why}")
    return None


def say(sentence: str) -> None:
    """Print on stderr, so that minutes of loading are not silent."""
    print(f"outrider: {sentence}", file=sys.stderr, flush=True)


def timed_step(what: str) -> contextlib.AbstractContextManager[None]:
    """Print what begins, and then how long it took."""
    return timed(what, say)
