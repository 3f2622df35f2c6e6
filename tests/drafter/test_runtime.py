"""A drafter that is opened: on ONNX Runtime, or in PyTorch, where it proposes what its float graph does."""

from __future__ import annotations

import sys
from dataclasses import replace

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter.cache import CHUNK
from drafter.model.torch_step import TorchStep
from drafter.runtime import Drafter
from drafter.step import StepGraph
from drafter.training.export import compare, export_graph, prompt
from models.config import CONFIG, FLOAT, GRAPH, DrafterCorrupt, DrafterError, DrafterMissing, read_config, write_config
from tests.drafter.conftest import draft_model
from tests.drafter.trees import BUSH, same_tree, seeds


def test_a_missing_folder_or_file_is_named_and_a_damaged_graph_refused_by_its_checksum_or_its_form(folder, tmp_path):
    with pytest.raises(DrafterMissing, match="nowhere"):
        Drafter.load(tmp_path / "nowhere")
    (folder / GRAPH).write_bytes((folder / GRAPH).read_bytes()[:500])
    with pytest.raises(DrafterCorrupt, match=r"drafter\.onnx does not match its checksum"):
        Drafter.load(folder)
    write_config(folder, read_config(folder))
    with pytest.raises(DrafterCorrupt, match=r"drafter\.onnx cannot be loaded"):
        Drafter.load(folder)
    (folder / GRAPH).unlink()
    with pytest.raises(DrafterMissing, match=r"drafter\.onnx is missing"):
        Drafter.load(folder)


def test_a_config_from_before_is_of_a_whole_drafter(folder):
    config, path = read_config(folder), folder / CONFIG
    fields = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(fields | {"cross_attention": False}))
    with pytest.raises(DrafterCorrupt, match="cross_attention"):
        read_config(folder)
    for field in ("layer_self_attention", "cross_attention"):
        del fields[field]
    path.write_bytes(msgspec.json.encode(fields))
    assert read_config(folder) == config and config.layer_self_attention


# ---- in PyTorch ------------------------------------------------------------------------------------------------------


CPU = torch.device("cpu")
GPUS = [torch.device("cuda")] * torch.cuda.is_available() + [torch.device("mps")] * torch.backends.mps.is_available()
few = settings(max_examples=6)


@pytest.fixture(scope="module", params=[CPU, *GPUS], ids=str)
def floats(request, tiny):
    """A tiny drafter in PyTorch, as exact as its float graph."""
    return replace(tiny, step=TorchStep(draft_model(tiny.config), request.param, bits=None, dtype=torch.float32))


@pytest.mark.parametrize("shape", [{"blocks": 2}, {"first_layers": 0, "inference_layers": 2}, {"first_layers": 2}])
def test_whatever_layers_it_has_the_graph_computes_what_the_model_does(tiny, tmp_path, shape):
    config = msgspec.structs.replace(tiny.config, **shape)
    model = draft_model(config)
    export_graph(model, tmp_path / GRAPH)
    graph, floats = StepGraph(tmp_path / GRAPH, config), TorchStep(model, CPU, None)
    parity = compare(graph, floats, [prompt(graph, tiny.tokens(seed, 12)) for seed in range(3)])
    assert parity.agreement == 1.0 and parity.largest_difference < 1e-3


@pytest.mark.parametrize(
    ("bits", "dtype", "agreement", "difference"),
    [(None, torch.bfloat16, 0.9, 0.1), (8, torch.bfloat16, 0.9, 0.1), (4, torch.float32, 0.4, 0.8)],
)
def test_other_numbers_stay_close_to_floats(tiny, bits, dtype, agreement, difference):
    step = TorchStep(draft_model(tiny.config), CPU, bits, dtype)
    parity = compare(tiny.step, step, [prompt(tiny.step, tiny.tokens(seed, 30)) for seed in range(10)])
    assert parity.agreement > agreement and 0 < parity.mean_difference < difference


@few
@given(seeds, st.integers(0, 12), st.integers(1, 5))
def test_a_context_drafts_the_trees_of_the_graph(tiny, floats, seed, known, accepted):
    tokens, memory = tiny.tokens(seed, 12), tiny.memory(seed, known)
    one, other = (drafter.context(tokens, memory) for drafter in (tiny, floats))
    first = one.draft(BUSH)
    same_tree(first, other.draft(BUSH))
    path = [int(first.tokens[node]) for node in first.likeliest_path()[:accepted]]
    for context in (one, other):
        context.commit([*path, 7])
        context.remember(known, tiny.memory(seed + 1, 12 - known))  # Replaces guessed rows of inferred layers.
    same_tree(one.draft(BUSH), other.draft(BUSH))
    for context in (one, other):
        context.rewind(10)
        context.commit([3, 4])
    same_tree(one.draft(BUSH), other.draft(BUSH))


def test_a_long_conversation_outgrows_its_slabs(tiny, floats):
    tokens, memory = tiny.tokens(0, CHUNK + 50), tiny.memory(0, CHUNK + 20)
    same_tree(floats.context(tokens, memory).draft(BUSH), tiny.context(tokens, memory).draft(BUSH))


# ---- from a folder ---------------------------------------------------------------------------------------------------


def test_the_runtime_is_onnx_unless_asked_and_a_graph_of_other_layers_is_refused(tiny_pair):
    assert Drafter.load(tiny_pair / "drafter").runtime == "ONNX Runtime on cpu"
    for unfit in ({"bits": 4}, {"bits": None}, {"device": "cuda"}):
        with pytest.raises(ValueError, match="need torch"):
            Drafter.load(tiny_pair / "drafter", **unfit)
    config = msgspec.structs.replace(read_config(tiny_pair / "drafter"), inference_layers=1)
    with pytest.raises(DrafterCorrupt, match="not the graph that its config describes"):
        StepGraph(tiny_pair / "drafter" / GRAPH, config)


def test_the_graph_is_not_needed_but_the_weights_are(folder):
    (folder / GRAPH).unlink()
    assert Drafter.load(folder, "torch", device="cpu", bits=None).context()
    write_config(folder, msgspec.structs.replace(read_config(folder), ffn=40))
    with pytest.raises(DrafterCorrupt, match=r"model\.safetensors cannot be loaded"):
        Drafter.load(folder, "torch")
    (folder / FLOAT).unlink()
    with pytest.raises(DrafterMissing, match=r"model\.safetensors is missing"):
        Drafter.load(folder, "torch")


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b""])
def test_damaged_weights_are_refused_by_their_checksum_or_by_their_form(folder, damage):
    (folder / FLOAT).write_bytes(damage((folder / FLOAT).read_bytes()))
    with pytest.raises(DrafterCorrupt, match=r"model\.safetensors does not match its checksum"):
        Drafter.load(folder, "torch")
    write_config(folder, read_config(folder))
    with pytest.raises(DrafterCorrupt, match=r"model\.safetensors cannot be loaded"):
        Drafter.load(folder, "torch")


@pytest.mark.parametrize("device", ["abacus", "cuda:99"])
def test_a_device_that_is_not_there_is_named(tiny_pair, device):
    with pytest.raises(DrafterError, match=f"cannot use the device {device}"):
        Drafter.load(tiny_pair / "drafter", "torch", device=device)


@pytest.mark.parametrize("package", ["torch", "optimum.quanto"])
def test_a_missing_package_is_named_with_what_to_do(tiny_pair, monkeypatch, package):
    monkeypatch.delitem(sys.modules, "drafter.model.torch_step")
    monkeypatch.delitem(sys.modules, "models.engines.quanto", raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # What makes an import say that there is no such module.
    with pytest.raises(DrafterError, match=rf"needs {package}, .*pip install '\.\[server\]' in"):
        Drafter.load(tiny_pair / "drafter", "torch")
