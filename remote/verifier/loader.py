"""Loads what a server serves: the model on its engine, and the drafter, which may have to be made first.

What is loaded, and how long it took, is said on stderr.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drafter.config import ENCODER, GRAPH, TEMPLATE, TOKENIZER, DrafterError, read_config
from drafter.cores import usable_cores
from drafter.extras import how_to_install
from remote.verifier.engine import Engine, UnverifiableTarget
from remote.verifier.engines.choice import EngineKind, graph_of, llama_engine, onnx_engine
from remote.verifier.engines.graphs import is_gguf
from remote.verifier.gguf_file import gguf_licence, gguf_path, text_source
from remote.verifier.start_errors import MissingPackage
from remote.verifier.text_side import TextSide, licence_in, stored_size, tokenizer_digest
from remote.verifier.vocabulary_check import settled

if TYPE_CHECKING:
    from remote.verifier.target import Target


@dataclass(frozen=True)
class Making:
    """How a drafter is made for a target that has none."""

    folder: Path
    """The folder that holds all drafters that were made here."""
    budget: int
    """Bytes that one may take on a device."""
    questions: Sequence[str]
    """What people ask. The target's answers choose what the drafter can say, and tell how well it guesses."""


def opened(
    model: str,
    drafter: Path | None,
    making: Making | None,
    kind: EngineKind,
    quantize: Literal["int8", "int4"] | None,
    threads: int | None,
    *,
    kept: Path | None = None,
    template: str | None = None,
) -> tuple[TextSide, Engine, Path | None]:
    """The text side, the engine, and the drafter's folder: the one that was given, or one that is made.

    `threads`: for the products of the model; None: one for each core. `kept`: see `text_source`. `template`: a chat
    template in the place of the model's own. Raises what `START_ERRORS` names.
    """
    by_llama = is_gguf(model) and kind in ("auto", "llama")
    graph = None if by_llama else graph_of(model, kind, quantize)
    target: Target | None = None
    if drafter is None and making is not None:
        drafter, target = made_drafter(model, making, kept, template)
    if by_llama:
        target = None  # Its weights were unpacked to make the drafter.
        with timed_step(f"loading {model}"):
            side, engine = llama_engine(
                model, drafter, threads or usable_cores(), quantize, kept=kept, template=template
            )
            if (tokenize := getattr(engine, "tokenize", None)) is not None:
                side = settled(side, gguf_path(model), tokenize, say, kept=kept, template=template)
        say(f"{side.name}: {engine.description}")
        return side, engine, drafter
    if graph is not None:
        try:
            with timed_step(f"loading {graph} ({graph.stat().st_size / 1e6:.0f} MB)"):
                side, engine = onnx_engine(graph, drafter, threads or usable_cores(), template)
            say(f"{side.name}: {engine.description}")
            return side, engine, drafter
        except UnverifiableTarget as error:
            if kind == "onnx":
                raise
            say(f"PyTorch instead: {error}")
    say("loading PyTorch ...")  # Takes seconds without any other output.
    try:
        import torch

        from remote.verifier.target import load_target
    except ImportError as error:
        raise MissingPackage(
            f"This model needs PyTorch and more ({error.name} is missing): {how_to_install('server')}"
        ) from error
    if target is None or quantize is not None:
        target = None  # Two copies of the weights may be too much.
        with timed_step(f"loading {model}{stored_size(Path(model))}"):
            target = load_target(model, quantize=quantize, kept=kept, template=template)
    with timed_step("testing whether it can check drafts"):
        engine, drafter = _torch_engine(target, drafter)
    torch.set_num_threads(threads or usable_cores())
    say(f"{target.name}: {engine.description}")
    return target, engine, drafter


def _torch_engine(target: Target, drafter: Path | None) -> tuple[Engine, Path | None]:
    """An engine of PyTorch, and the drafter's folder; None where the model takes no drafts.

    Raises what the engines raise.
    """
    from drafter.model import MemoryEncoder
    from remote.verifier.engines.sequential_engine import SequentialEngine
    from remote.verifier.engines.torch_engine import TorchEngine

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
    from remote.verifier.target import licence_of  # A name on the hub: its files are where transformers keeps them.

    return licence_of(model)


def made_drafter(
    model: str, making: Making, kept: Path | None = None, template: str | None = None
) -> tuple[Path | None, Target | None]:
    """The drafter that is kept for `model`, or a new one; None if there can be none. And the target, if it was loaded.

    `kept`, `template`: see `opened`. Raises what `load_target` raises.
    """
    try:
        from remote.verifier.birth import UnsupportedTarget, kept_drafter, make_drafter
        from remote.verifier.target import load_target
    except ImportError as error:
        advice = f"{how_to_install('server')}, or ask for none with --no-drafter"
        say(f"no drafter: {error.name} is missing, so none can be made: {advice}")
        return None, None
    folder = kept_drafter(model, making.budget, making.folder, template)
    if folder is not None and folder.is_dir():
        try:
            config = read_config(folder, verify=(GRAPH, TOKENIZER, TEMPLATE, ENCODER))
            if not is_gguf(model) or config.tokenizer == _tokenizer(model, kept):
                return folder, None
            say("it is made again: the tokenizer is read in another way now")
        except DrafterError as error:
            say(f"it is made again: {error}")
    with timed_step(f"loading {model}{stored_size(Path(model))}"):
        target = load_target(model, kept=kept, template=template)
    folder = kept_drafter(model, making.budget, making.folder, template)
    assert folder is not None  # The model is here now.
    try:
        with (
            timed_step(f"making a drafter for {target.name}, which takes a minute or two, once"),
            text_source(model, kept) as source,
        ):
            made = make_drafter(target, source, folder, making.questions, making.budget, template=template)
    except UnsupportedTarget as error:
        say(f"no drafter: {error} Devices get plain text, and cannot go on alone.")
        return None, target
    say(f"the drafter: {made}")
    return folder, target


def _tokenizer(model: str, kept: Path | None) -> str:
    """The digest of the tokenizer of a GGUF file."""
    with text_source(model, kept) as source:
        return tokenizer_digest((Path(source) / TOKENIZER).read_bytes()).hex()


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
