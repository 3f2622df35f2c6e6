"""Which engine serves a model: llama.cpp a GGUF file, ONNX Runtime a folder with a graph, PyTorch all others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from models.engines.engine import Engine
from models.engines.graphs import GRAPHS, graph_in
from models.engines.threads import spin_briefly
from models.errors import MissingPackage, MissingTokenizer, UnknownModel
from models.extras import how_to_install
from models.gguf.file import gguf_name, gguf_path, text_source
from models.text.text_side import TextSide, read_text_side

if TYPE_CHECKING:
    from models.engines.llama_engine import LlamaEngine

EngineKind = Literal["auto", "onnx", "llama", "torch"]


def graph_of(model: str, kind: EngineKind, quantize: str | None) -> Path | None:
    """The graph that serves `model`; None: PyTorch does.

    `auto` takes a graph that is there, unless `quantize` asks for weights that only PyTorch has. Raises `UnknownModel`
    if ONNX Runtime was asked for and there is no graph, or llama.cpp, which needs a GGUF file.
    """
    if kind == "llama":
        raise UnknownModel(f"llama.cpp cannot serve {model}: it needs a file whose name ends in .gguf.")
    if kind == "torch" or (kind == "auto" and quantize is not None):
        return None
    found = graph_in(model)
    if kind == "onnx" and (found is None or quantize is not None):
        why = f"there is no {' or '.join(GRAPHS)} in {model}" if found is None else "--quantize is for PyTorch"
        raise UnknownModel(f"ONNX Runtime cannot serve this: {why}. Use --engine torch.")
    return found


def onnx_engine(
    graph: Path, drafter: Path | None, threads: int, template: str | None = None
) -> tuple[TextSide, Engine]:
    """The text side and the engine of a graph.

    `drafter`: the folder of the drafter that its memory is for. `threads`: for its products. `template`: see
    `read_text_side`.

    Raises `UnknownModel`, `MissingTokenizer`, `CorruptWeights`, and what `OnnxEngine` raises.
    """
    from models.engines.memory_encoder import ArrayEncoder
    from models.engines.onnx_engine import OnnxEngine

    side = read_text_side(graph.parent, template)
    return side, OnnxEngine(graph, None if drafter is None else ArrayEncoder.load(drafter), threads=threads)


def llama_engine(
    model: str,
    drafter: Path | None,
    threads: int | None,
    quantize: str | None,
    *,
    kept: Path | None = None,
    template: str | None = None,
) -> tuple[TextSide, LlamaEngine]:
    """The text side and the engine of a GGUF file. For the others see `onnx_engine`.

    A tokenizer that cannot be had in another way is llama.cpp's own. `kept`: see `text_source`. `threads` None: as many
    as are fastest.

    Raises `UnknownModel`, `MissingPackage`, `MissingTokenizer`, `CorruptWeights`, and what `LlamaEngine` raises.
    """
    path = gguf_path(model)
    if quantize is not None:
        raise UnknownModel(f"--quantize is for PyTorch, and {path.name} is as it was made. Leave --quantize out.")
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

    # Not beside the engine: its threads wait for each other so busily that this would cost more than it saves.
    side, unread = None, ""
    try:
        with text_source(model, kept) as folder:
            side = replace(read_text_side(Path(folder), template), name=gguf_name(path))
    except (MissingPackage, MissingTokenizer, UnknownModel) as error:
        unread = str(error)
    encoder = None if drafter is None else ArrayEncoder.load(drafter)
    engine = LlamaEngine(path, encoder, threads=threads)
    if side is None and (side := engine.text_side(gguf_name(path), template)) is None:
        engine.close()
        raise MissingTokenizer(unread)
    return side, engine
