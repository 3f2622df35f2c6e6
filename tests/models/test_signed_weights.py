"""Signed weights are made unsigned on processors that would cut their sums off: the same numbers, exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from models.engines.quantise import quantise_graph
from models.ort import onnxruntime
from models.signed_weights import SIGNED, adds_exactly, exact_here, unsigned

ROWS, WIDTH, OUT = 12, 64, 32


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    """An embedding and a product, quantised so that it adds up exactly. Row 3 of the embedding is zero."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    table[3] = 0
    matrix = rng.standard_normal((WIDTH, OUT)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["x"]), helper.make_node("MatMul", ["x", "matrix"], ["y"])]
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", OUT])
    weights = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(matrix, "matrix")]
    graph = helper.make_graph(nodes, "one product", [tokens], [y], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "float.onnx")
    quantise_graph(tmp_path / "float.onnx", tmp_path / "int8.onnx", "int8", exact=True)
    return (tmp_path / "int8.onnx").read_bytes()


def outputs(model: bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"tokens": np.arange(ROWS)})[0]


def stored(model: bytes) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in onnx.load_from_string(model).graph.initializer}


def test_all_signed_weights_and_nothing_else_become_unsigned_and_products_are_the_same(model: bytes) -> None:
    before, after = stored(model), stored(unsigned(model))
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name in before if name.endswith(SIGNED)} and len(changed) == 2
    for name in changed:
        numbers = numpy_helper.to_array(before[name]).astype(int) + 128
        assert after[name].data_type == TensorProto.UINT8
        assert (numpy_helper.to_array(after[name]) == numbers).all()
    found = outputs(unsigned(model))
    assert np.abs(found).max() > 1
    if adds_exactly():
        assert (outputs(model) == found).all()


def test_a_graph_with_weights_beside_it_loads(model: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.signed_weights.adds_exactly", lambda: False)
    monkeypatch.setattr("models.engines.quantise.INLINE", 0)
    beside = tmp_path / "beside.onnx"
    quantise_graph(tmp_path / "float.onnx", beside, "int8", exact=True)
    assert beside.with_name("beside.onnx.data").exists() and exact_here(beside) == beside
    session = onnxruntime.InferenceSession(beside, providers=["CPUExecutionProvider"])
    assert (session.run(None, {"tokens": np.arange(ROWS)})[0] == outputs(unsigned(model))).all()
    inline = tmp_path / "int8.onnx"
    assert exact_here(inline) == unsigned(model)
    monkeypatch.undo()
    if adds_exactly():
        assert exact_here(inline) == inline


def test_what_is_no_model_is_told(model: bytes) -> None:
    for damaged in (model[:-7], b"no model at all"):
        with pytest.raises(ValueError, match="ONNX model"):
            unsigned(damaged)


@pytest.mark.parametrize(
    ("machine", "flags", "exact"), [("x86_64", "fpu sse", False), ("AMD64", "avx512_vnni", True), ("arm64", "", True)]
)
def test_which_processors_add_up_exactly(
    machine: str, flags: str, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("models.signed_weights.CPU", tmp_path / "cpuinfo")
    assert adds_exactly() == (machine == "arm64"), "nothing is known of this processor"
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    assert adds_exactly() == exact
