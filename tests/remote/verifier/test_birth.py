"""Drafters that are made without training: their size, and what they can say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from drafter.training.birth import Shape, born, graph_bytes, shapes_within
from drafter.training.export import export_graph
from drafter.training.target import UnsupportedTarget
from models.config import GRAPH
from models.engines.quantise import quantise_graph
from remote.verifier.making.birth import check_layers
from remote.verifier.making.maker import kept_drafter
from tests.remote.verifier.tiny import tiny_model


def test_the_budget_decides_what_runs_on_the_device() -> None:
    """A smaller one means fewer layers down to three, then fewer tokens."""
    target = tiny_model("qwen3")
    whole, coarse = shapes_within(target, "tiny", 1 << 30)
    assert (whole.first_layers, whole.inference_layers, whole.bits) == (0, 1, 8)
    assert (coarse.first_layers, coarse.inference_layers, coarse.bits) == (0, 1, 4)
    with pytest.raises(UnsupportedTarget, match=r"takes at least 1 MB, and 0 MB are allowed. Give more with --budget"):
        shapes_within(target, "tiny", 1000)
    with pytest.raises(UnsupportedTarget, match="needs layers like those of llama"):
        shapes_within(tiny_model("gemma"), "gemma", 1 << 30)
    config = Qwen3Config(
        vocab_size=40_000, hidden_size=64, intermediate_size=128, num_hidden_layers=24, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16,
    )  # fmt: skip
    with torch.device("meta"):
        target = AutoModelForCausalLM.from_config(config)
    budgets = (7_000_000, 6_200_000, 5_600_000, 5_000_000, 4_500_000)
    shapes = [shapes_within(target, "deep", budget)[0] for budget in budgets]
    layers = [shape.first_layers + shape.inference_layers for shape in shapes]
    assert layers == [6, 3, 6, 6, 2]
    assert [shape.vocabulary for shape in shapes] == [32_768, 32_768, 16_384, 8_192, 8_192]


@pytest.mark.parametrize("scheme", ["auto", "nbits4"])
def test_the_size_of_a_graph_is_known_before_it_is_made(scheme: str, tmp_path: Path) -> None:
    target = AutoModelForCausalLM.from_config(
        LlamaConfig(
            vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=2,
        )
    ).eval()  # fmt: skip
    shape = Shape(first_layers=1, inference_layers=1, vocabulary=4096, scheme=scheme)
    model = born(target, "middling", shape)
    export_graph(model.draft, tmp_path / "float.onnx")
    quantise_graph(tmp_path / "float.onnx", tmp_path / GRAPH, shape.scheme)
    size = (tmp_path / GRAPH).stat().st_size
    assert size <= graph_bytes(model.config, shape) < size * 1.1 + (1 << 20)


def test_it_is_kept_for_the_model_as_it_is(tiny_pair: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tiny_pair / "target", model)
    kept = kept_drafter(str(model), 300, tmp_path)
    assert kept_drafter(str(model), 300, tmp_path) == kept and kept.parent == tmp_path
    assert kept_drafter(str(model), 301, tmp_path) != kept
    (model / "config.json").write_text((model / "config.json").read_text() + " ")
    assert kept_drafter(str(model), 300, tmp_path) != kept


def test_layers_that_devices_cannot_run_are_told_before_any_work() -> None:
    with pytest.raises(UnsupportedTarget, match="devices cannot run those of gemma3"):
        check_layers("gemma3")
