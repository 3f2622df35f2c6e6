"""Loads what a server serves: the model on its engine, and its drafter if there is a useful one.

Progress and durations are printed on stderr.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from drafter.floors import why_no_drafts
from models.config import read_config
from models.engines import choice
from models.engines.choice import EngineOptions, open_model
from models.engines.engine import Engine
from models.engines.llama_text import LlamaText
from models.files import is_gguf
from models.gguf.file import gguf_path, why_not_unpacked
from remote.verifier.making.maker import look_up
from remote.verifier.options import ServeOptions
from remote.verifier.start_errors import say

if TYPE_CHECKING:
    from drafter.model import MemoryEncoder


@dataclass(frozen=True)
class Opened(choice.Opened):
    """What a server serves."""

    due: bool = False
    """Whether a drafter is to be made."""


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
    engine = EngineOptions(
        options.engine,
        options.quantize,
        options.threads,
        options.template,
        options.texts,
        batch_invariant=not options.no_batch_invariance,
    )
    found = open_model(options.model, engine, drafter, torch_encoder=_torch_encoder, say=say)
    say(f"{found.side.name}: {found.engine.description}")
    if due and found.engine.takes_drafts and (why := _why_none_is_made(options.model, found)) is not None:
        say(f"no drafter: {why} Devices get plain text.")
        due = False
    return Opened(found.side, found.engine, found.drafter, due and found.engine.takes_drafts)


def remember_for(drafter: Path, engine: Engine) -> None:
    """Have the engine make memory for the drafter in a folder. Needs PyTorch. Raises `DrafterError`, `UnfitDrafter`."""
    from models.engines.memory_encoder import ArrayEncoder
    from models.engines.torch_engine import TorchEngine

    engine.remember_with(_torch_encoder(drafter) if isinstance(engine, TorchEngine) else ArrayEncoder.load(drafter))


def _torch_encoder(drafter: Path) -> MemoryEncoder:
    from drafter.model import MemoryEncoder  # Needs PyTorch.

    return MemoryEncoder.load(drafter)


def _why_none_is_made(model: str, found: choice.Opened) -> str | None:
    """Why no drafter can be made for a GGUF file, in a sentence, or None if one can."""
    if not is_gguf(model):
        return None
    if isinstance(found.side.text, LlamaText):
        return f"Only llama.cpp reads the tokenizer of {found.side.name}, and devices could not."
    if found.engine.why_no_drafter:
        return f"For {found.side.name}, {found.engine.why_no_drafter}."
    return why_not_unpacked(gguf_path(model))


def of_use(drafter: Path) -> Path | None:
    """The folder of the named drafter, or None, with a line that says why, if its figures show that it is useless.

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
