"""Opens a model on the engine that suits it: llama.cpp for a GGUF file, ONNX Runtime for a graph, else PyTorch.

A new engine is a subclass of `Engine` in its own module, a name in `EngineKind`, and a case in `open_model`
(CONTRIBUTING.md).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

from models.cores import usable_cores
from models.engines.engine import Engine, UnverifiableTarget
from models.engines.threads import Threads, spin_briefly
from models.errors import MissingPackage, MissingTokenizer, UnknownModel
from models.extras import how_to_install
from models.files import TARGET_GRAPH, EngineKind, graph_bytes, graph_in, is_gguf
from models.gguf.file import gguf_licence, gguf_name, gguf_path
from models.gguf.text import first_difference, has_own_text, text_source
from models.text.text_side import TextSide, licence_in, read_text_side, stored_size

if TYPE_CHECKING:
    from models.engines.llama_engine import LlamaEngine
    from models.engines.torch_engine import TorchEncoder


@dataclass(frozen=True)
class EngineOptions:
    """How to run a model."""

    kind: EngineKind = "auto"
    quantize: Literal["int8", "int4"] | None = None
    """Type of the weights, with PyTorch only. None keeps them as they are."""
    threads: int | None = None
    """Threads for products on a CPU. None: measure how many are fastest."""
    template: str | None = None
    """Chat template to use instead of the model's own."""
    kept: Path | None = None
    """Folder that keeps the tokenizers of GGUF files, so that each is translated once."""
    batch_invariant: bool = True
    """With llama.cpp only: a token's logits do not depend, to the last bit, on what draft it was checked with."""


@dataclass(frozen=True)
class Opened:
    """A model that is ready to run."""

    side: TextSide
    engine: Engine
    drafter: Path | None
    """Folder of the drafter that the engine makes memory for, or None if the model takes none."""


def open_model(
    model: str,
    options: EngineOptions = EngineOptions(),
    drafter: Path | None = None,
    *,
    torch_encoder: Callable[[Path], TorchEncoder] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Opened:
    """Open the model in a folder or a GGUF file, or the model of that name on the hub.

    `drafter`: folder of the drafter to make memory for. `torch_encoder` loads its memory encoder for PyTorch, which
    runs on any device. `say` receives progress messages for a person.

    Raises `ModelError` and `EngineError`, and `DrafterError` for a damaged drafter.
    """
    kind = options.kind
    if kind == "auto":
        kind = suited(model, options)
    match kind:
        case "llama":
            return _with_llama(model, options, drafter, say)
        case "onnx":
            try:
                return _with_onnx(model, options, drafter, say)
            except UnverifiableTarget as error:
                if options.kind == "onnx":
                    raise
                say(f"PyTorch instead: {error}")
        case "torch":
            pass
        case _:
            assert_never(kind)
    return _with_torch(model, options, drafter, torch_encoder, say)


def suited(model: str, options: EngineOptions) -> Literal["onnx", "llama", "torch"]:
    """What `auto` runs a model on: by its files, unless `quantize` asks for weights that only PyTorch has."""
    if is_gguf(model):
        return "llama"
    return "torch" if options.quantize is not None or graph_in(model) is None else "onnx"


def _with_onnx(model: str, options: EngineOptions, drafter: Path | None, say: Callable[[str], None]) -> Opened:
    graph = graph_in(model)
    if graph is None or options.quantize is not None:
        why = f"there is no {TARGET_GRAPH} in {model}" if graph is None else "--quantize is for PyTorch"
        raise UnknownModel(f"ONNX Runtime cannot serve this: {why}. Use --engine torch.")
    with timed(f"loading {graph} ({graph_bytes(graph) / 1e6:.0f} MB)", say):
        from models.engines.memory_encoder import ArrayEncoder
        from models.engines.onnx_engine import OnnxEngine

        side = read_text_side(graph.parent, options.template)
        encoder = None if drafter is None else ArrayEncoder.load(drafter)
        return Opened(side, OnnxEngine(graph, encoder, threads=options.threads or usable_cores()), drafter)


def _with_llama(model: str, options: EngineOptions, drafter: Path | None, say: Callable[[str], None]) -> Opened:
    if not is_gguf(model):
        raise UnknownModel(f"llama.cpp cannot serve {model}: it needs a file whose name ends in .gguf.")
    with timed(f"loading {model}", say):
        side, llama = llama_engine(model, drafter, options)
        side = _as_llama_reads(side, gguf_path(model), llama, options, say)
    if drafter is not None and llama.why_no_drafter:
        say(f"without the drafter {drafter}, because the model takes none: {llama.why_no_drafter}")
        drafter = None
    return Opened(side, llama, drafter)


def llama_engine(
    model: str, drafter: Path | None = None, options: EngineOptions = EngineOptions()
) -> tuple[TextSide, LlamaEngine]:
    """Open a GGUF file. If its tokenizer cannot be translated, llama.cpp's own text side is used.

    Raises `UnknownModel`, `MissingPackage`, `MissingTokenizer`, `CorruptWeights`, and what `LlamaEngine` raises.
    """
    path = gguf_path(model)
    if options.quantize is not None:
        raise UnknownModel(f"--quantize is for PyTorch, and {path.name} is served as it is. Leave --quantize out.")
    spin_briefly()
    try:
        import llama_cpp  # noqa: F401
    except ImportError as error:
        raise MissingPackage(
            f"A GGUF file needs llama.cpp ({error.name} is missing): {how_to_install('gguf')}, "
            "or let PyTorch read it with --engine torch."
        ) from error
    from models.engines.llama_engine import LlamaEngine
    from models.engines.memory_encoder import ArrayEncoder

    # Not in parallel with the engine, whose threads spin while they wait for each other, so that this would take
    # longer.
    side, unread = None, ""
    try:
        with text_source(model, options.kept) as folder:
            side = replace(read_text_side(Path(folder), options.template), name=gguf_name(path))
    except (MissingPackage, MissingTokenizer, UnknownModel) as error:
        unread = str(error)
    encoder = None if drafter is None else ArrayEncoder.load(drafter)
    engine = LlamaEngine(
        path, encoder, threads=options.threads, kept=options.kept, batch_invariant=options.batch_invariant
    )
    if side is None and (side := engine.text_side(gguf_name(path), options.template)) is None:
        engine.close()
        raise MissingTokenizer(unread)
    return side, engine


def _as_llama_reads(
    side: TextSide, path: Path, llama: LlamaEngine, options: EngineOptions, say: Callable[[str], None]
) -> TextSide:
    """The text side that tokenizes like llama.cpp, which runs the model: `side`, or else llama.cpp's own.

    A tokenizer.json in the file's folder is the model's own. It is used in any case, with a warning if it differs.
    """
    if side.text is None or (difference := first_difference(side.text, llama.tokenize)) is None:
        return side
    if not has_own_text(path):
        return llama.text_side(side.name, options.template) or side
    say(
        f"warning: llama.cpp tokenizes {difference} differently from the tokenizer.json next to {path.name}. "
        "Answers may be worse. Check that the two belong together."
    )
    return side


def _with_torch(
    model: str,
    options: EngineOptions,
    drafter: Path | None,
    encoder: Callable[[Path], TorchEncoder] | None,
    say: Callable[[str], None],
) -> Opened:
    say("loading PyTorch ...")  # This takes seconds without any other output.
    try:
        import torch

        from models.engines.sequential_engine import SequentialEngine
        from models.engines.target import load_target
        from models.engines.torch_engine import TorchEngine
    except ImportError as error:
        raise MissingPackage(
            f"This model needs PyTorch and more ({error.name} is missing): {how_to_install('server')}"
        ) from error
    with timed(f"loading {model}{stored_size(Path(model))}", say):
        target = load_target(model, quantize=options.quantize, kept=options.kept, template=options.template)
    engine: Engine
    with timed("testing whether it can check drafts", say):
        try:
            engine = TorchEngine(target.model, encoder(drafter) if encoder and drafter else None)
        except UnverifiableTarget as error:
            say(f"without drafts: {error}")
            engine, drafter = SequentialEngine(target.model), None
        torch.set_num_threads(options.threads or usable_cores())
        if options.threads is None and target.model.device.type == "cpu":
            engine.threads = Threads(usable_cores())
            engine.measure_threads()
    return Opened(target, engine, drafter)


@contextlib.contextmanager
def timed(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Report that a step begins, and how long it took."""
    begun = time.monotonic()
    say(f"{what} ...")
    yield
    say(f"{what}: done in {time.monotonic() - begun:.1f} s")


def licence(model: str) -> str:
    """The licence that a model's card or GGUF file names, or an empty string."""
    if is_gguf(model):
        return gguf_licence(gguf_path(model))
    if Path(model).is_dir():
        return licence_in(Path(model) / "README.md")
    from models.engines.target import licence_of  # A name on the hub: its files are where transformers keeps them.

    return licence_of(model)
