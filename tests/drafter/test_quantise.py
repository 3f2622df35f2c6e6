from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from drafter.config import DrafterCorrupt
from drafter.memory import dequantise
from drafter.quantise import compare, prompt, quantise_graph
from drafter.search import Pace
from drafter.step import StepGraph


@pytest.fixture(scope="module")
def int8(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("int8") / "drafter.onnx"
    quantise_graph(tiny.path, path)
    return path


def test_every_weight_is_int8_and_the_graph_keeps_its_interface(tiny, int8):
    weights = [tensor for tensor in onnx.load(int8).graph.initializer if len(tensor.dims) == 2]
    floats = [tensor.name for tensor in weights if tensor.data_type == onnx.TensorProto.FLOAT and tensor.dims[1] > 1]
    assert not floats
    linear_layers = 13 + 7 * tiny.config.inference_layers  # q, k, v, o and three of the MLP; q, o, three; the head.
    assert sum(tensor.data_type == onnx.TensorProto.INT8 for tensor in weights) == linear_layers + 1
    assert StepGraph(int8, tiny.config).cache_shapes == tiny.step.cache_shapes


def test_int8_is_close_to_float(tiny, int8):
    row = tiny.memory(0, 20)[0]
    memory = tuple(
        np.ascontiguousarray(dequantise(*pair).swapaxes(0, 1)) for pair in zip(row[::2], row[1::2], strict=True)
    )
    inputs = [prompt(tiny.step, tiny.tokens(seed, 30), memory if seed % 2 else None) for seed in range(10)]
    parity = compare(tiny.step, StepGraph(int8, tiny.config), inputs)
    print(parity)
    assert parity.rows == 300
    assert parity.agreement > 0.85
    assert parity.mean_difference < 0.1
    assert f"{parity.agreement:.1%}" in str(parity)


def test_a_graph_agrees_with_itself(tiny):
    parity = compare(tiny.step, tiny.step, [prompt(tiny.step, tiny.tokens(0, 9))])
    assert (parity.agreement, parity.largest_difference) == (1.0, 0.0)
    with pytest.raises(ValueError, match="no inputs"):
        compare(tiny.step, tiny.step, [])


def test_int8_drafts_are_deterministic(tiny, int8):
    quantised = replace(tiny, step=StepGraph(int8, tiny.config))
    trees = [quantised.context(tiny.tokens(0, 12), tiny.memory(0, 9)).draft(Pace(4, 4, 20)) for _ in range(2)]
    for name in ("tokens", "parents", "log_probs"):
        np.testing.assert_array_equal(getattr(trees[0], name), getattr(trees[1], name))


def test_what_is_no_step_graph_is_refused(tiny, tmp_path):
    (tmp_path / "junk.onnx").write_bytes(b"junk" * 100)
    with pytest.raises(DrafterCorrupt, match="no ONNX graph"):
        quantise_graph(tmp_path / "junk.onnx", tmp_path / "out.onnx")
