"""The draft step's benchmark: what it counts as read, and that its figures fit one another."""

from __future__ import annotations

import json

import onnx
import pytest
import torch

from benchmarks import draft_step
from drafter.model import DraftModel


def test_a_step_of_the_8b_shapes_reads_559_million_weights():
    with torch.device("meta"):
        model = DraftModel(draft_step.LLAMA_8B)
    sizes = {name: weight.numel() for name, weight in model.named_parameters()}
    embedding = sizes.pop("embedding.weight")
    assert embedding == 32_000 * 4096
    attention, mlp, head = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14_336, 32_000 * 4096
    matrices = attention + mlp + 2 * 4096 * 4096 + mlp + head
    assert matrices == 558_891_008
    assert sum(sizes.values()) == pytest.approx(matrices, rel=1e-4)


def test_every_scheme_is_timed_against_float_and_the_floor(tiny_pair, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(draft_step, "STREAMED", 1 << 16)
    monkeypatch.setattr(draft_step, "REPEATS", 3)
    out = tmp_path / "out.json"
    threads = torch.get_num_threads()
    try:
        draft_step.main(["--drafter", str(tiny_pair / "drafter"), "--scheme", "int8", "nbits4", "--json", str(out)])
    finally:
        torch.set_num_threads(threads)
    rows = json.loads(out.read_text())["rows"]
    assert [(row["rows"], row["scheme"]) for row in rows] == [(1, "int8"), (1, "nbits4"), (8, "int8"), (8, "nbits4")]
    for row in rows:
        assert row["ms"] > 0 and row["float_ms"] > 0 and row["read_gb_s"] > 0
        assert row["times_floor"] == pytest.approx(row["ms"] / row["floor_ms"], rel=0.05)
    assert rows[0]["weight_bytes"] > rows[1]["weight_bytes"]
    assert len(capsys.readouterr().out.splitlines()) == len(rows)


def test_the_embedding_is_not_counted(tmp_path):
    node, tensor = onnx.helper.make_node, onnx.helper.make_tensor
    graph = onnx.helper.make_graph(
        [node("Gather", ["table", "tokens"], ["x"]), node("MatMul", ["x", "weight"], ["y"])],
        "step",
        [onnx.helper.make_tensor_value_info("tokens", onnx.TensorProto.INT64, ["M"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["M", 3])],
        [
            tensor("table", onnx.TensorProto.FLOAT, [100, 4], bytes(1600), raw=True),
            tensor("weight", onnx.TensorProto.FLOAT, [4, 3], bytes(48), raw=True),
        ],
    )
    onnx.save(onnx.helper.make_model(graph), tmp_path / "step.onnx")
    assert draft_step.weight_bytes(tmp_path / "step.onnx") == 48
