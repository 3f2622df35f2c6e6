"""Signed weights are made unsigned on processors that would cut their sums off: the same numbers, exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import save

from models.engines.onnx_engine import OnnxEngine
from models.files import PACKED
from models.graph_file import SIGNED, adds_exactly, loadable, unsigned
from models.packed import array_of, flat, read_packed
from models.tree import DraftTree
from recipes.shell_guide.graph import write_graph
from tests.models.engines.conftest import holding
from tests.remote.verifier.tiny import tiny_model


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    tiny_model("llama").save_pretrained(tmp_path / "target")
    write_graph(tmp_path / "target", tmp_path / "target.onnx", int8=True)
    return tmp_path / "target.onnx"


def zero_point(model: bytes) -> np.ndarray:
    (stored,) = (
        tensor for tensor in onnx.load_from_string(model).graph.initializer if tensor.name == f"weight.zero{SIGNED}"
    )
    return numpy_helper.to_array(stored)


def test_all_signed_weights_and_nothing_else_become_unsigned_and_logits_are_the_same(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(exact: bool) -> tuple[bytes, dict[str, np.ndarray], np.ndarray]:
        monkeypatch.setattr("models.graph_file.adds_exactly", lambda: exact)
        model, weights = loadable(graph)
        assert isinstance(model, bytes)
        engine = OnnxEngine(graph)
        return model, weights, engine.verify(holding(engine, range(20)), DraftTree.empty())

    monkeypatch.setattr("models.engines.onnx_engine.tree_difference", lambda engine: 0.0)  # Here the sums are cut off.
    (signed, before, logits), (model, after, same) = loaded(True), loaded(False)
    assert before.keys() == after.keys() and any(name.endswith(SIGNED) for name in before)
    for name, numbers in before.items():
        wanted = (numbers.astype(int) + 128).astype(np.uint8) if name.endswith(SIGNED) else numbers
        assert after[name].dtype == wanted.dtype and (after[name] == wanted).all()
    assert zero_point(signed) == 0 and zero_point(model) == 128
    monkeypatch.undo()
    if adds_exactly():
        assert (same == logits).all()


def test_weights_in_the_graph_itself_become_unsigned_too(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, weights = onnx.load(graph, load_external_data=False), read_packed(graph.with_name(PACKED))
    for tensor in model.graph.initializer:
        if tensor.external_data:
            tensor.CopyFrom(numpy_helper.from_array(array_of(weights, tensor.name), tensor.name))
    whole = graph.with_name("whole.onnx")
    whole.write_bytes(model.SerializeToString())
    monkeypatch.setattr("models.graph_file.adds_exactly", lambda: True)
    assert loadable(whole) == (whole, {})
    monkeypatch.setattr("models.graph_file.adds_exactly", lambda: False)
    inside, none = loadable(whole)
    _, beside = loadable(graph)
    assert isinstance(inside, bytes) and zero_point(inside) == 128 and not none
    stored = {tensor.name: tensor for tensor in onnx.load_from_string(inside).graph.initializer}
    assert all((numpy_helper.to_array(stored[name]) == numbers).all() for name, numbers in beside.items())


def test_what_is_no_model_and_what_lacks_a_weight_is_told(graph: Path) -> None:
    model = graph.read_bytes()
    for damaged in (model[:-7], b"no model at all"):
        with pytest.raises(ValueError, match="ONNX model"):
            unsigned(damaged)
    tensors = flat(read_packed(graph.with_name(PACKED)))
    tensors.pop("model.norm.weight")
    graph.with_name(PACKED).write_bytes(save(tensors))
    with pytest.raises(ValueError, match=r"lack model\.norm\.weight"):
        loadable(graph)


@pytest.mark.parametrize(
    ("machine", "flags", "exact"), [("x86_64", "fpu sse", False), ("AMD64", "avx512_vnni", True), ("arm64", "", True)]
)
def test_which_processors_add_up_exactly(
    machine: str, flags: str, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("models.graph_file.CPU", tmp_path / "cpuinfo")
    assert adds_exactly() == (machine == "arm64"), "nothing is known of this processor"
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    assert adds_exactly() == exact
