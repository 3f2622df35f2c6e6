"""Which engine serves a model: ONNX Runtime where the model's folder has a graph for it, else PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from remote.verifier.engine import Engine
from remote.verifier.engines.graphs import GRAPHS, graph_in
from remote.verifier.start_errors import UnknownModel
from remote.verifier.text_side import TextSide, read_text_side

EngineKind = Literal["auto", "onnx", "torch"]


def graph_of(model: str, kind: EngineKind, quantize: str | None) -> Path | None:
    """The graph that serves `model`; None: PyTorch does.

    `auto` takes a graph that is there, unless `quantize` asks for weights that only PyTorch has. Raises `UnknownModel`
    if ONNX Runtime was asked for and there is no graph.
    """
    if kind == "torch" or (kind == "auto" and quantize is not None):
        return None
    found = graph_in(model)
    if kind == "onnx" and (found is None or quantize is not None):
        why = f"there is no {' or '.join(GRAPHS)} in {model}" if found is None else "--quantize is for PyTorch"
        raise UnknownModel(f"ONNX Runtime cannot serve this: {why}. Use --engine torch.")
    return found


def onnx_engine(graph: Path, drafter: Path | None) -> tuple[TextSide, Engine]:
    """The text side and the engine of a graph. `drafter`: the folder of the drafter that its memory is for.

    Raises `UnknownModel`, `MissingTokenizer`, `CorruptWeights`, and what `OnnxEngine` raises.
    """
    from remote.verifier.engines.memory_encoder import ArrayEncoder
    from remote.verifier.engines.onnx_engine import OnnxEngine

    side = read_text_side(graph.parent)
    return side, OnnxEngine(graph, None if drafter is None else ArrayEncoder.load(drafter))
