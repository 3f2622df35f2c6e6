from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import LogitsProcessorList

from drafter.tree import ROOT, DraftTree
from remote.protocol import Sampling
from remote.verifier.acceptance import Walk, chooser, draw, target_distribution, walk, warpers_of
from tests.remote.verifier.tiny import random_tree, tiny_model

NO_STOP: frozenset[int] = frozenset()


class Language:
    """A target over a small vocabulary whose next-token logits depend on the last token only."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self.table = torch.from_numpy(np.random.default_rng(seed).normal(0, 1.5, (vocabulary, vocabulary))).float()

    def logits(self, root: int, tree: DraftTree) -> torch.Tensor:
        return self.table[[root, *tree.tokens.tolist()]]

    def decode(self, root: int, trees: list[DraftTree], sampling: Sampling, length: int) -> list[int]:
        """Tokens by rounds that use the trees in turn."""
        tokens: list[int] = []
        at = 0
        while len(tokens) < length:
            tree = trees[at % len(trees)]
            at += 1
            last = tokens[-1] if tokens else root
            choose = chooser(self.logits(last, tree), sampling)
            step = walk(tree, choose, position=len(tokens), room=length - len(tokens), stop_tokens=NO_STOP)
            tokens += [int(tree.tokens[node]) for node in step.accepted]
            tokens += [] if step.bonus is None else [step.bonus]
        assert len(tokens) == length
        return tokens


def scripted(tokens: list[int]) -> object:
    return lambda row, position: tokens[position - 10]


def test_the_walk_follows_the_targets_choices() -> None:
    tree = DraftTree(np.array([4, 5, 6, 7]), np.array([-1, -1, 1, 2]))
    assert walk(tree, scripted([5, 6, 9]), position=10, room=9, stop_tokens=NO_STOP) == Walk((1, 2), 9)
    assert walk(tree, scripted([5, 6, 7, 3]), position=10, room=9, stop_tokens=NO_STOP) == Walk((1, 2, 3), 3)
    assert walk(tree, scripted([8]), position=10, room=9, stop_tokens=NO_STOP) == Walk((), 8)


def test_a_stop_token_ends_the_walk_without_bonus() -> None:
    tree = DraftTree.chain([5, 1, 6])
    assert walk(tree, scripted([5, 1, 6, 7]), position=10, room=9, stop_tokens=frozenset({1})) == Walk((0, 1), None)
    assert walk(tree, scripted([5, 6]), position=10, room=9, stop_tokens=frozenset({6})) == Walk((0,), 6)


def test_the_token_that_fills_the_room_is_a_bonus() -> None:
    tree = DraftTree.chain([5, 6, 7])
    assert walk(tree, scripted([5, 6, 7]), position=10, room=2, stop_tokens=NO_STOP) == Walk((0,), 6)
    assert walk(tree, scripted([5, 6, 7]), position=10, room=1, stop_tokens=NO_STOP) == Walk((), 5)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.7, top_k=4),
        Sampling(temperature=1.6, top_p=0.8),
        Sampling(temperature=0.9, top_k=5, top_p=0.9),
    ],
)
@pytest.mark.parametrize("shape", ["none", "likely chain", "unlikely chain", "random tree"])
def test_sampled_output_follows_the_targets_distribution(sampling: Sampling, shape: str) -> None:
    vocabulary, seeds = 6, 2000
    language = Language(vocabulary, seed=3)
    best = language.table.argmax(-1).tolist()
    worst = language.table.argmin(-1).tolist()
    tree = {
        "none": DraftTree.empty(),
        "likely chain": DraftTree.chain([best[2], best[best[2]]]),
        "unlikely chain": DraftTree.chain([worst[2], worst[worst[2]]]),
        "random tree": random_tree(random.Random(5), 12, vocabulary),
    }[shape]
    warpers = warpers_of(sampling)
    first = target_distribution(language.table[2], warpers)
    second = [target_distribution(row, warpers) for row in language.table]
    joint = first[:, None] * torch.stack(second)
    counts = torch.zeros(vocabulary, vocabulary, dtype=torch.float64)
    for seed in range(seeds):
        sampled = Sampling(temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p, seed=seed)
        one, two = language.decode(2, [tree], sampled, 2)
        counts[one, two] += 1
    assert (counts[joint == 0] == 0).all()
    # Cells of few expected counts are pooled, or the statistic would not follow its distribution.
    expected, observed = joint[joint > 0] * seeds, counts[joint > 0]
    small = expected < 8
    expected = torch.cat([expected[~small], expected[small].sum()[None]]) if small.any() else expected
    observed = torch.cat([observed[~small], observed[small].sum()[None]]) if small.any() else observed
    keep = expected > 0
    statistic = float(((observed - expected)[keep] ** 2 / expected[keep]).sum())
    freedom = int(keep.sum()) - 1
    # Wilson-Hilferty: the 99.99 % point of chi-square. Seeds are fixed, so this passes or fails for good.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, f"chi-square {statistic:.1f} with {freedom} degrees of freedom"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(-(2**63), 2**63 - 1), temperature=st.floats(0.05, 3), shape=st.integers(0, 99))
def test_speculation_on_or_off_gives_the_same_tokens(seed: int, temperature: float, shape: int) -> None:
    language = Language(8, seed=1)
    sampling = Sampling(temperature=temperature, top_k=6, top_p=0.95, seed=seed)
    off = language.decode(3, [DraftTree.empty()], sampling, 30)
    rng = random.Random(shape)
    on = language.decode(3, [random_tree(rng, rng.randrange(12), 8) for _ in range(5)], sampling, 30)
    assert on == off
    assert language.decode(3, [DraftTree.chain(off[:5]), random_tree(rng, 9, 8)], sampling, 30) == off


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    weights=st.lists(st.sampled_from([0.0, 0.0, 1e-300, 1e-9, 0.3, 1.0, 17.0]), min_size=1, max_size=40).filter(any),
    uniform=st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 1 - 2**-53])),
)
def test_a_token_of_probability_zero_is_never_drawn(weights: list[float], uniform: float) -> None:
    probabilities = torch.tensor(weights, dtype=torch.float64)
    assert probabilities[draw(probabilities, uniform)] > 0


@pytest.mark.parametrize(
    "sampling",
    [Sampling(temperature=0.6, top_k=7, top_p=0.7), Sampling(temperature=1.3), Sampling(temperature=1, top_p=0.5)],
)
def test_warping_is_that_of_generate(sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    model.generation_config.top_k = 0
    seen: list[torch.Tensor] = []

    def record(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen.append(scores.clone())
        return scores

    warpers_of_generate = type(model)._get_logits_processor

    def with_record(*args: object, **kwargs: object) -> LogitsProcessorList:
        return LogitsProcessorList([*warpers_of_generate(*args, **kwargs), record])

    monkeypatch.setattr(type(model), "_get_logits_processor", with_record)
    prompt = torch.tensor([[5, 9, 2]])
    model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=True,
        max_new_tokens=1,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
    )
    with torch.inference_mode():
        logits = model(prompt).logits[0, -1].float()
    torch.testing.assert_close(target_distribution(logits, warpers_of(sampling)), seen[0][0].double().softmax(-1))


def test_greedy_takes_the_likeliest_child() -> None:
    language = Language(9, seed=2)
    tree = random_tree(random.Random(0), 30, 9)
    step = walk(tree, chooser(language.logits(4, tree), Sampling()), position=0, room=99, stop_tokens=NO_STOP)
    at, token = ROOT, 4
    for node in step.accepted:
        assert int(tree.parents[node]) == at
        assert int(tree.tokens[node]) == int(language.table[token].argmax())
        at, token = node, int(tree.tokens[node])
    assert step.bonus == int(language.table[token].argmax())
    assert step.bonus not in tree.children().get(at, {})
