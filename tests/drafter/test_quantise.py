from __future__ import annotations

import platform
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest

from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.step import StepGraph
from drafter.training.export import compare, prompt
from models.config import FLOAT, GRAPH, GRAPH_WEIGHTS, DrafterCorrupt, Scheme, read_config
from models.engines.quantise import quantise_graph
from models.memory import dequantise
from models.ort import onnxruntime
from tests.drafter.trees import same_tree

CPU = Path("/proc/cpuinfo")
VNNI = platform.machine() not in ("x86_64", "AMD64") or not CPU.exists() or "vnni" in CPU.read_text()
"""Whether this processor adds up products of 8 bits exactly. x86 without it cuts sums off beyond 16 bits,
and its kernels for 4 bits give a row other last bits beside others (`independent_rows`)."""


def skip_without_vnni(scheme, *inexact):
    if scheme in inexact and not VNNI:
        pytest.skip("this processor has no VNNI")


@pytest.fixture(scope="module", params=get_args(Scheme))
def quantised(request, tiny, tmp_path_factory):
    """A scheme and the tiny drafter's graph quantised by it."""
    path = tmp_path_factory.mktemp(request.param) / "drafter.onnx"
    quantise_graph(tiny.path, path, request.param)
    return request.param, path


def test_quantised_is_close_to_float(tiny, quantised):
    scheme, path = quantised
    skip_without_vnni(scheme, "int8")
    row = tiny.memory(0, 20)[0]
    memory = tuple(np.ascontiguousarray(dequantise(*pair).swapaxes(0, 1)) for pair in zip(row[::2], row[1::2]))
    inputs = [prompt(tiny.step, tiny.tokens(seed, 30), memory if seed % 2 else None) for seed in range(10)]
    parity = compare(tiny.step, StepGraph(path, tiny.config), inputs)
    assert parity.agreement > (0.4 if scheme == "nbits4" else 0.85)
    assert parity.mean_difference < (1.0 if scheme == "nbits4" else 0.1)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these kernels add up in their own order")
def test_a_row_is_the_same_to_the_last_bit_whatever_runs_beside_it(tiny, quantised):
    skip_without_vnni(quantised[0], "nbits4")
    assert StepGraph(quantised[1], tiny.config).independent_rows


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_a_layer_with_a_bias_is_close_to_float_at_any_width(tmp_path, scheme):
    """70 is no whole number of blocks; one block is all zeros."""
    skip_without_vnni(scheme, "int8")
    random, node = np.random.default_rng(0), onnx.helper.make_node
    table, weight, bias = (random.normal(size=size).astype(np.float32) for size in ((9, 70), (5, 70), 5))
    weight[0, :64] = 0
    plain = np.ascontiguousarray(weight.T)
    nodes = [
        node("Gather", ["table", "tokens"], ["x"]),
        node("Gemm", ["x", "weight", "bias"], ["y"], transB=1),
        node("MatMul", ["x", "plain"], ["z"]),
    ]
    made = {"table": table, "weight": weight, "bias": bias, "plain": plain}
    information = onnx.helper.make_tensor_value_info
    tokens = information("tokens", onnx.TensorProto.INT64, ["M"])
    results = [information(name, onnx.TensorProto.FLOAT, ["M", 5]) for name in "yz"]
    weights = [onnx.numpy_helper.from_array(value, name) for name, value in made.items()]
    graph = onnx.helper.make_graph(nodes, "layer", [tokens], results, weights)
    opsets = [onnx.helper.make_opsetid("", 20)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "float.onnx")
    quantise_graph(tmp_path / "float.onnx", tmp_path / "quantised.onnx", scheme)
    y, z = onnxruntime.InferenceSession(tmp_path / "quantised.onnx").run(None, {"tokens": np.arange(9)})
    exact = table @ plain
    assert np.abs(z - exact).max() < (0.25 if scheme == "nbits4" else 0.02) * np.abs(exact).max()
    np.testing.assert_allclose(y, z + bias, atol=1e-5)  # The runtime may add the bias before the last sum.


def test_an_artefact_in_pieces_is_checked_as_one(folder, monkeypatch):
    from drafter.training.pipeline import requantise  # Seconds, for PyTorch.

    def drafted():
        context = Drafter.load(folder).context()
        context.commit([5, 9, 2])
        return context.draft(Pace(2, 2, 6))

    requantise(folder, "nbits8")
    whole = drafted()
    # Weights lie beside the graph, as those of a large drafter do.
    monkeypatch.setattr("models.engines.onnx_nodes.INLINE", 0)
    for _ in ("made", "replaced"):
        requantise(folder, "nbits8")
    config = read_config(folder)
    assert config.scheme == "nbits8" and {GRAPH, GRAPH_WEIGHTS, FLOAT} <= set(config.files)
    same_tree(drafted(), whole, atol=0.0)
    weights = bytearray((folder / GRAPH_WEIGHTS).read_bytes())
    weights[len(weights) // 2] ^= 1
    (folder / GRAPH_WEIGHTS).write_bytes(weights)
    with pytest.raises(DrafterCorrupt, match="does not match its checksum"):
        Drafter.load(folder)
    monkeypatch.undo()
    requantise(folder)
    config = read_config(folder)
    assert config.scheme == "nbits8" and GRAPH_WEIGHTS not in config.files and not (folder / GRAPH_WEIGHTS).exists()
    assert Drafter.load(folder).config == config


def test_what_is_no_step_graph_is_refused(tmp_path):
    (tmp_path / "junk.onnx").write_bytes(b"junk" * 100)
    with pytest.raises(DrafterCorrupt, match="not an ONNX graph"):
        quantise_graph(tmp_path / "junk.onnx", tmp_path / "out.onnx")
    graph = onnx.helper.make_graph([], "empty", [], [])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "empty.onnx")
    with pytest.raises(DrafterCorrupt, match="no embedding"):
        quantise_graph(tmp_path / "empty.onnx", tmp_path / "out.onnx")
