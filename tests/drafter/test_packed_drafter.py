"""A drafter of a packed target: one graph that holds the target's own numbers and learns and travels as others do."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from drafter.delivery import delivery
from drafter.model import MemoryEncoder
from drafter.model.draft_model import load_draft_model
from drafter.runtime import Drafter
from drafter.step import StepGraph
from drafter.training.birth import Shape, born
from drafter.training.graph_weights import read_weights, write_weights
from drafter.training.pipeline import requantise, write_folder
from drafter.training.text_side import read_text_side
from models.config import FLOAT, GRAPH, TEMPLATE, TOKENIZER, DrafterCorrupt, FirstMemory, read_config
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.files import PACKED, TARGET_GRAPH
from models.memory import dequantise, unpack_memory
from models.packed import Packed, floats, read_packed
from models.tree import DraftTree
from recipes.shell_guide.graph import write_graph


@pytest.fixture(scope="module", params=[(), tuple(range(0, 60, 2))], ids=["all tokens", "some tokens"])
def made(request: pytest.FixtureRequest, tiny_pair: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a packed target and of an untrained drafter whose draft vocabulary is this one, or all tokens."""
    folder = tmp_path_factory.mktemp("packed")
    source = Path(shutil.copytree(tiny_pair / "target", folder / "target"))
    write_graph(source, source / TARGET_GRAPH, int8=True)
    (source / FLOAT).unlink()
    (folder / "drafter").mkdir()
    read_text_side(str(source), "tiny", several_turns=True).write(folder / "drafter")
    target = load_target(str(source), device="cpu").model
    model = born(target, "tiny", Shape(1, 1, target.config.vocab_size, "int8"))
    config = msgspec.structs.replace(model.config, draft_vocabulary=request.param)
    write_folder(model, target, config, (), folder, folder / "drafter", datastore=0, source=source)
    return folder


def test_its_graph_has_the_targets_numbers_and_is_all_that_it_needs(made: Path) -> None:
    config, packed = read_config(made / "drafter"), read_packed(made / "target" / PACKED)
    weights = read_weights(made / "drafter" / GRAPH, config)
    q_proj = packed["model.layers.0.self_attn.q_proj.weight"]
    assert isinstance(q_proj, Packed) and np.array_equal(
        weights["first_layers.0.self_attn.q_proj.weight"], floats(q_proj)
    )
    last = floats(packed["model.layers.2.mlp.down_proj.weight"])
    assert np.array_equal(weights["target_layers.0.mlp.down_proj.weight"], last)
    assert np.array_equal(weights["embedding.weight"], floats(packed["model.embed_tokens.weight"]))
    kept = list(config.draft_vocabulary or range(config.vocabulary))
    assert np.array_equal(weights["head.weight"], floats(packed["lm_head.weight"])[kept])
    assert {*delivery(made / "drafter").sizes} == {GRAPH, TOKENIZER, TEMPLATE, "special_tokens_map.json"}
    assert FLOAT not in config.files
    model = load_draft_model(made / "drafter").state_dict()
    for name in weights.keys() - {"head.weight"} & model.keys():
        assert np.array_equal(model[name].numpy(), weights[name])
    assert np.array_equal(model["head.weight"].numpy()[kept], weights["head.weight"])


def test_it_drafts_and_its_graph_is_made_again_from_what_it_holds(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / "drafter", tmp_path / "drafter"))
    before = (folder / GRAPH).read_bytes()
    parity = requantise(folder)
    assert (folder / GRAPH).read_bytes() == before and parity.agreement > 0.8
    drafter = Drafter.load(folder)
    assert drafter.independent_rows and drafter.context()
    (folder / GRAPH).write_bytes(before[:-100])
    config = read_config(folder)
    with pytest.raises(DrafterCorrupt, match="checksum"):
        Drafter.load(folder)
    with pytest.raises(DrafterCorrupt, match="cannot be loaded"):
        type(drafter._step)(folder / GRAPH, config)


def test_what_its_own_layers_learn_is_written_and_the_targets_stay(made: Path, tmp_path: Path) -> None:
    graph, config = made / "drafter" / GRAPH, read_config(made / "drafter")
    before, name = read_weights(graph, config), "cross_attention.mlp.up_proj.weight"
    write_weights(graph, tmp_path / GRAPH, {name: -before[name]})
    after = read_weights(tmp_path / GRAPH, config)
    np.testing.assert_allclose(after[name], -before[name], atol=1e-6)
    assert all(np.array_equal(after[other], before[other]) for other in before if other != name)


def test_a_conversation_begins_with_the_targets_memory_of_its_first_token(made: Path) -> None:
    drafter = Drafter.load(made / "drafter")
    target, encoder = load_target(str(made / "target"), device="cpu").model, MemoryEncoder.load(made / "drafter")
    engine, prompt = TorchEngine(target, encoder), drafter.asked_as("Is it there?")
    context = engine.context()
    context.assign(0, prompt)
    engine.verify(context, DraftTree.empty())
    first = drafter.config.first_memory
    assert isinstance(first, FirstMemory)
    known = (first.memory, engine.memory(context, 0, 1), engine.memory(context, 1, 2))
    rows = [unpack_memory(data, 1, drafter.memory_layers) for data in known]
    ours, theirs, seconds = ([dequantise(*side) for row in one for side in (row[:2], row[2:])] for one in rows)
    assert all(np.allclose(one, other, rtol=0, atol=0.02 * np.abs(other).max()) for one, other in zip(ours, theirs))
    assert not any(np.allclose(one, other, rtol=0, atol=0.2 * np.abs(other).max()) for one, other in zip(ours, seconds))
    draft = drafter.context()
    draft.commit(prompt)
    assert draft.memory_length == 1
    draft.follow([prompt[1], *prompt])
    assert draft.memory_length == 0, "it begins with another token"
    damaged = msgspec.structs.replace(drafter.config, first_memory=FirstMemory(first.token, first.memory[1:]))
    with pytest.raises(DrafterCorrupt, match="first token"):
        Drafter(damaged, drafter.text, StepGraph(made / "drafter" / GRAPH, drafter.config))
