"""Loads what a server serves: the model on its engine, and its drafter if there is one that is of use.

What is loaded, and how long it took, is said on stderr.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from drafter.floors import why_no_drafts
from models.config import read_config
from models.cores import usable_cores
from models.engines.choice import graph_of, llama_engine, onnx_engine
from models.engines.engine import Engine, UnverifiableTarget
from models.engines.graphs import is_gguf
from models.engines.llama_text import LlamaText
from models.engines.threads import Threads
from models.errors import MissingPackage
from models.extras import how_to_install
from models.gguf.file import gguf_licence, gguf_path, why_not_unpacked
from models.gguf.vocabulary_check import settled
from models.text.text_side import TextSide, licence_in, stored_size
from remote.verifier.maker import look_up
from remote.verifier.options import ServeOptions

if TYPE_CHECKING:
    from models.engines.target import Target


@dataclass(frozen=True)
class Opened:
    """What a server serves."""

    side: TextSide
    engine: Engine
    drafter: Path | None
    """The folder of the drafter that is of use; None: it is served without."""
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
    found = _opened(options, drafter)
    say(f"{found.side.name}: {found.engine.description}")
    if due and found.engine.takes_drafts and (why := _why_none_is_made(options.model, found.side)) is not None:
        say(f"no drafter: {why} Devices get plain text.")
        due = False
    return replace(found, due=due and found.engine.takes_drafts)


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


def _opened(options: ServeOptions, drafter: Path | None) -> Opened:
    model, kind = options.model, options.engine
    if is_gguf(model) and kind in ("auto", "llama"):
        return _llama(options, drafter)
    if (graph := graph_of(model, kind, options.quantize)) is not None:
        try:
            with timed_step(f"loading {graph} ({graph.stat().st_size / 1e6:.0f} MB)"):
                side, engine = onnx_engine(graph, drafter, options.threads or usable_cores(), options.template)
            return Opened(side, engine, drafter)
        except UnverifiableTarget as error:
            if kind == "onnx":
                raise
            say(f"PyTorch instead: {error}")
    return _torch(options, drafter)


def _llama(options: ServeOptions, drafter: Path | None) -> Opened:
    model, kept, template = options.model, options.texts, options.template
    with timed_step(f"loading {model}"):
        text, llama = llama_engine(model, drafter, options.threads, options.quantize, kept=kept, template=template)
        own = settled(text, gguf_path(model), llama.tokenize, say, kept=kept, template=template)
        text = own or llama.text_side(text.name, template) or text
    if drafter is not None and llama.why_no_drafter:
        say(f"without the drafter {drafter}, because the model takes none: {llama.why_no_drafter}")
        drafter = None
    return Opened(text, llama, drafter)


def _torch(options: ServeOptions, drafter: Path | None) -> Opened:
    model, threads = options.model, options.threads
    say("loading PyTorch ...")  # Takes seconds without any other output.
    try:
        import torch

        from models.engines.target import load_target
    except ImportError as error:
        raise MissingPackage(
            f"This model needs PyTorch and more ({error.name} is missing): {how_to_install('server')}"
        ) from error
    with timed_step(f"loading {model}{stored_size(Path(model))}"):
        target = load_target(model, quantize=options.quantize, kept=options.texts, template=options.template)
    with timed_step("testing whether it can check drafts"):
        engine, drafter = _torch_engine(target, drafter)
        torch.set_num_threads(threads or usable_cores())
        if threads is None and target.model.device.type == "cpu":
            engine.threads = Threads(usable_cores())
            engine.measure_threads()
    return Opened(target, engine, drafter)


def _torch_engine(target: Target, drafter: Path | None) -> tuple[Engine, Path | None]:
    """An engine of PyTorch, and the drafter's folder; None where the model takes no drafts.

    Raises what the engines raise.
    """
    from drafter.model import MemoryEncoder
    from models.engines.sequential_engine import SequentialEngine
    from models.engines.torch_engine import TorchEngine

    try:
        return TorchEngine(target.model, None if drafter is None else MemoryEncoder.load(drafter)), drafter
    except UnverifiableTarget as error:
        say(f"without drafts: {error}")
        return SequentialEngine(target.model), None


def licence(model: str) -> str:
    """The licence that the card of a model names, or a GGUF file; empty: none."""
    if is_gguf(model):
        return gguf_licence(gguf_path(model))
    if Path(model).is_dir():
        return licence_in(Path(model) / "README.md")
    from models.engines.target import licence_of  # A name on the hub: its files are where transformers keeps them.

    return licence_of(model)


def say(sentence: str) -> None:
    """Print on stderr, so that minutes of loading are not silent."""
    print(f"outrider: {sentence}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def timed_step(what: str) -> Iterator[None]:
    """Print what begins, and then how long it took."""
    begun = time.monotonic()
    say(f"{what} ...")
    yield
    say(f"{what}: done in {time.monotonic() - begun:.1f} s")
