"""EAGLE-2, as MoA is compared with it, sees the same in training and in drafting, and begins on MoA's terms."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from benchmarks.eagle2 import (
    Eagle2,
    EagleConfig,
    EagleRecipe,
    TargetLayers,
    equal_config,
    step_parameters,
    teach,
)
from benchmarks.eagle2_context import EagleContext, feature_telling
from drafter.search import Pace
from drafter.training.batches import Batch
from drafter.training.target import drafter_config
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote.verifier.making.measure import rounds
from tests.drafter.distilling import VOCABULARY, tiny_target, widen

pytestmark = pytest.mark.training

EVERY_TOKEN = Pace(depth=1, breadth=VOCABULARY, nodes=VOCABULARY)
STILL = EagleRecipe(noise=0.0)
"""Without noise, so that training and drafting can be compared."""
SHAPES = {"eagle2": ((0, 1, 3), 0), "eagle2-f": ((1, 3), 1), "layers": ((0, 1, 2, 3), 0)}
"""The target's layers that a drafter begins as, and F."""
PROMPT, ANSWER = 6, 30


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def shapes(target, name: str) -> EagleConfig:
    moa = msgspec.structs.replace(drafter_config(target, "tiny", first_layers=1, inference_layers=1), memory_bits=4)
    copied, first = SHAPES[name]
    return equal_config(target, moa, copied, first, learns=name != "layers")


@pytest.fixture(scope="module", params=SHAPES)
def model(request, target) -> TargetLayers:
    """Weights are wide, so that features, cache rows and positions all change the result."""
    config = shapes(target, request.param)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Eagle2(config) if config.features else TargetLayers(config)
        widen(model, 0.25)
        model.borrow(target)
        if isinstance(model, Eagle2):
            nn.init.normal_(model.fuse.weight, std=0.25)
            nn.init.uniform_(model.spread, 0.5, 2.0)
    return model.eval().requires_grad_(False)


def packed(parts: list[list[int]]) -> Batch:
    """All conversations in one row, with padding at the end. Everything that a token predicts is learnt."""
    ids = [token for part in parts for token in part] + [0, 0]
    positions = [at for part in parts for at in range(len(part))] + [0, 0]
    segments = [number for number, part in enumerate(parts, 1) for _ in part] + [0, 0]
    arrays = [torch.tensor([column]) for column in (ids, positions, segments)]
    unused = torch.zeros_like(arrays[0])
    return Batch(*arrays, learn=arrays[2] > 0, start=unused, near=unused)


def log_probs(tree: DraftTree) -> np.ndarray:
    """The log-probability of each token as the next one, from a tree of all of them."""
    drafted = np.zeros(VOCABULARY, np.float32)
    drafted[tree.tokens] = tree.log_probs
    return drafted


@pytest.mark.parametrize("model", ["eagle2", "eagle2-f"], indirect=True)
def test_what_training_sees_is_what_is_drafted(target, model):
    rng = np.random.default_rng(0)
    parts = [rng.integers(VOCABULARY, size=size).tolist() for size in (9, 12)]
    batch = packed(parts)
    features, wanted = teach(target, batch, model.config.taught)
    seen: list[torch.Tensor] = []
    hook = model.head.register_forward_hook(lambda _, inputs, out: seen.append(torch.log_softmax(out, dim=-1)))
    model.losses(batch, features, wanted, STILL)
    hook.remove()
    row, at = 0, 0
    for part in parts:
        for token in range(len(part)):
            context = EagleContext(model)
            context.commit(part[: token + 1])
            context.remember(0, features[0, at : at + token, :32])
            np.testing.assert_allclose(seen[0][row], log_probs(context.draft(EVERY_TOKEN)), atol=2e-4)
            row += 1
        at += len(part)


paces = st.builds(Pace, depth=st.integers(1, 5), breadth=st.integers(1, 4), nodes=st.integers(1, 30))


@given(st.integers(0, 2**31), paces, st.integers(1, 8), st.integers(0, 8))
@settings(max_examples=25)
def test_trees_are_valid_and_score_what_chains_score(model, seed, pace, length, known):
    """Each node's log-probability is that of a conversation in which its path was said, without any further feature."""
    rng = np.random.default_rng(seed)
    tokens, features = rng.integers(VOCABULARY, size=length).tolist(), torch.randn(length, model.config.hidden)

    def conversation(path: list[int]) -> EagleContext:
        context = EagleContext(model)
        context.commit(tokens)
        if model.config.features:
            context.remember(0, features[:known])
        context.commit(path)
        return context

    tree = conversation([]).draft(pace)
    assert 1 <= len(tree) <= pace.nodes and tree.depths().max() <= pace.depth
    for node in rng.permutation(len(tree))[:3].tolist():
        path = tree.tokens[tree.path(node)].tolist()
        alone = log_probs(conversation(path[:-1]).draft(EVERY_TOKEN))
        np.testing.assert_allclose(tree.log_probs[node], alone[path[-1]], atol=2e-4)


def test_greedy_answers_are_the_targets_own(target, model):
    """After each round the drafter has the features of all that the target has computed."""
    engine, prompt, most = TorchEngine(target), np.random.default_rng(0).integers(VOCABULARY, size=7).tolist(), 20
    plain = [one for each in rounds(engine, prompt, lambda _: DraftTree.empty(), frozenset(), most) for one in each.new]
    draft, said = EagleContext(model), []
    draft.commit(prompt)
    with feature_telling(engine, model, draft) as tell:
        for each in rounds(engine, prompt, lambda _: draft.draft(Pace(3, 3, 12)), frozenset(), most):
            draft.commit(each.new)
            tell(each.context, each.tree, each.accepted)
            said += each.new
            assert draft.remembered == (each.context.computed if model.config.features else 0)
    assert said == plain
    if model.config.features:
        whole = target.model(torch.tensor([prompt + said])).last_hidden_state[0, : draft.remembered]
        torch.testing.assert_close(draft._previous[1:], model.wire(whole), atol=0.3, rtol=0.0)


@pytest.mark.parametrize("name", ["eagle2", "eagle2-f"])
def test_it_begins_as_its_target_without_the_layers_between(target, name):
    """A wider MLP changes nothing at the start, nor do features."""
    config, skipping = shapes(target, name), shapes(target, "layers")
    outs = []
    for drafter in (Eagle2(config), TargetLayers(msgspec.structs.replace(skipping, copied=(0, 1, 3)))):
        drafter.eval().borrow(target)
        batch = packed([[5, 6, 7, 8, 9]])
        previous, past = torch.randn(1, 7, 32), drafter.empty_past(1)
        outs.append(drafter.logits(drafter(batch.ids, batch.positions, previous, past, batch.causal)[0])[:, :5])
    assert config.ffn > skipping.ffn
    torch.testing.assert_close(*outs)


def test_a_draft_step_reads_as_much_as_moas(target):
    """To half the step in which MLPs grow; the target's layers to the parts in which they differ from MoA's."""
    wanted = step_parameters(drafter_config(target, "tiny", first_layers=1, inference_layers=1))
    for name in ("eagle2", "eagle2-f"):
        config = shapes(target, name)
        assert abs(step_parameters(config) - wanted) <= 3 * 32 * 32 * len(config.copied) / 2
        assert Eagle2(config).bytes_per_token == 32 // 2 + 2 * 32 // 8
    assert step_parameters(shapes(target, "layers")) - wanted == 2 * 32 * 16 - 2 * 2 * 8
    assert TargetLayers(shapes(target, "layers")).bytes_per_token == 0
