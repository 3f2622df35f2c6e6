"""A drafter without one of its parts is still a drafter: it exports, runs, and has the formats of a whole one."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch

from drafter.model import DraftModel, MemoryEncoder
from drafter.model.torch_step import TorchStep
from drafter.search import Pace
from drafter.step import StepGraph
from drafter.training.export import compare, export_graph, prompt
from models.config import GRAPH, read_config, write_config
from models.memory import quantise_row
from tests.drafter.conftest import Tiny, draft_model

pytestmark = pytest.mark.training


def without(tiny: Tiny, part: str):
    return msgspec.structs.replace(tiny.config, **{part: False})


def test_without_cross_attention_memory_makes_no_difference(tiny, tmp_path):
    config = msgspec.structs.replace(without(tiny, "cross_attention"), inference_layers=0)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model = DraftModel(config).eval().requires_grad_(False)
    export_graph(model, tmp_path / GRAPH)
    blind = Tiny(config, tmp_path / GRAPH, StepGraph(tmp_path / GRAPH, config))
    tokens = blind.tokens(0, 9)
    trees = [blind.context(tokens, memory).draft(Pace(3, 2, 6)) for memory in (None, blind.memory(0, 9))]
    np.testing.assert_array_equal(trees[0].tokens, trees[1].tokens)
    np.testing.assert_array_equal(trees[0].log_probs, trees[1].log_probs)


def test_without_layer_attention_memory_is_of_the_mean_layer(tiny):
    config = without(tiny, "layer_self_attention")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        encoder = MemoryEncoder(config).eval().requires_grad_(False)
    keys_values = torch.randn(5, config.target_layers, 2 * config.target_kv_heads * config.target_head_size)
    rows = encoder(keys_values, torch.arange(5))
    mixed = encoder(keys_values[:, torch.tensor([2, 0, 1])], torch.arange(5))
    torch.testing.assert_close(rows[0], mixed[0])  # A mean has no order.
    for (keys, values), (heads, size) in zip(rows, config.memory_layers, strict=True):
        assert quantise_row(keys.numpy(), values.numpy()).keys.shape == values.shape == (5, heads, size)


def test_a_config_from_before_is_of_a_whole_drafter(tiny, tmp_path):
    written = write_config(tmp_path, tiny.config)
    old = {
        key: value
        for key, value in msgspec.json.decode((tmp_path / "config.json").read_bytes()).items()
        if key not in ("layer_self_attention", "cross_attention")
    }
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(old))
    assert read_config(tmp_path) == written and written.layer_self_attention and written.cross_attention


@pytest.mark.parametrize("shape", [{"blocks": 2}, {"first_layers": 0, "inference_layers": 2}, {"first_layers": 2}])
def test_whatever_layers_it_has_the_graph_computes_what_the_model_does(tiny, tmp_path, shape):
    config = msgspec.structs.replace(tiny.config, **shape)
    model = draft_model(config)
    export_graph(model, tmp_path / GRAPH)
    graph, floats = StepGraph(tmp_path / GRAPH, config), TorchStep(model, torch.device("cpu"), None)
    parity = compare(graph, floats, [prompt(graph, tiny.tokens(seed, 12)) for seed in range(3)])
    assert parity.agreement == 1.0 and parity.largest_difference < 1e-3
