"""The walk down a draft, the choice of each token, and that drafts cannot change what is said."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from drafter.coin import arrivals
from drafter.multicandidate import DraftSampling, grow_sampled
from drafter.search import Pace, Proposals
from models.engines.engine import BrokenTarget
from models.engines.torch_engine import TorchEngine
from models.tree import MAX_WEIGHT, Candidates, DraftTree
from remote.protocol import Sampling
from remote.verifier.sessions.acceptance import Walk, chooser, recursive_rejection, target_distribution, walk
from tests.remote.verifier.test_http import PROMPT
from tests.remote.verifier.tiny import VOCABULARY, random_tree, tiny_model

NO_STOP: frozenset[int] = frozenset()
FEW_TOKENS = 6
Propose = Callable[[int, int, int], DraftTree]
"""(number of the round, last token, position after it) -> tree."""


def in_turn(*trees: DraftTree) -> Propose:
    return lambda turn, last, position: trees[turn % len(trees)]


class Language:
    """A target over a small vocabulary whose next-token logits depend on the last token only."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        self.table = np.random.default_rng(seed).normal(0, 1.5, (vocabulary, vocabulary)).astype(np.float32)

    def logits(self, root: int, tree: DraftTree) -> np.ndarray:
        return self.table[[root, *tree.tokens.tolist()]]

    def decode(self, root: int, propose: Propose, sampling: Sampling, length: int) -> list[int]:
        """Tokens gained in rounds with the proposed trees."""
        tokens: list[int] = []
        turn = 0
        while len(tokens) < length:
            last = tokens[-1] if tokens else root
            tree = propose(turn, last, len(tokens))
            turn += 1
            choose = chooser(self.logits(last, tree), sampling, tree)
            step = walk(tree, choose, position=len(tokens), room=length - len(tokens), stop_tokens=NO_STOP)
            tokens += [int(tree.tokens[node]) for node in step.accepted]
            tokens += [] if step.bonus is None else [step.bonus]
        assert len(tokens) == length
        return tokens


BRANCHES, CHAIN, STOPS = DraftTree([4, 5, 6, 7], [-1, -1, 1, 2]), DraftTree.chain([5, 1, 6]), frozenset({1, 8})


@pytest.mark.parametrize(
    ("tree", "chosen", "room", "stops", "found"),
    [
        (BRANCHES, [5, 6, 9], 9, NO_STOP, Walk((1, 2), 9)),
        (BRANCHES, [5, 6, 7, 3], 9, NO_STOP, Walk((1, 2, 3), 3)),
        (BRANCHES, [8], 9, NO_STOP, Walk((), 8)),
        (CHAIN, [5, 1, 6, 7], 9, STOPS, Walk((0, 1), None)),
        (CHAIN, [5, 8], 9, STOPS, Walk((0,), 8)),
        (CHAIN, [5, 1, 6], 2, NO_STOP, Walk((0,), 1)),
        (CHAIN, [5, 1, 6], 1, STOPS, Walk((), 5)),
    ],
)
def test_the_walk_follows_the_targets_choices(
    tree: DraftTree, chosen: list[int], room: int, stops: frozenset[int], found: Walk
) -> None:
    """A stop token of the draft ends it without a bonus. The token that fills the room is always a bonus."""
    choose = lambda row, position: chosen[position - 10]  # noqa: E731
    assert walk(tree, choose, position=10, room=room, stop_tokens=stops) == found


def assert_follows(propose: Callable[[Sampling], Propose], sampling: Sampling, seeds: int) -> None:
    """A chi-square test that pairs of tokens drawn with these trees have the probabilities of the target."""
    language = Language(FEW_TOKENS, seed=3)
    joint = target_distribution(language.table[2], sampling)[:, None]
    joint = joint * np.stack([target_distribution(row, sampling) for row in language.table])
    counts = np.zeros((FEW_TOKENS, FEW_TOKENS))
    for seed in range(seeds):
        seeded = msgspec.structs.replace(sampling, seed=seed)
        one, two = language.decode(2, propose(seeded), seeded, 2)
        counts[one, two] += 1
    assert (counts[joint == 0] == 0).all()
    # Cells with few expected counts are pooled, or the statistic would not follow its distribution.
    expected, observed = joint[joint > 0] * seeds, counts[joint > 0]
    small = expected < 8
    expected = np.append(expected[~small], expected[small].sum()) if small.any() else expected
    observed = np.append(observed[~small], observed[small].sum()) if small.any() else observed
    keep = expected > 0
    statistic = float(((observed - expected)[keep] ** 2 / expected[keep]).sum())
    freedom = int(keep.sum()) - 1
    # Wilson-Hilferty: the 99.99 % point of chi-square. Seeds are fixed, so this passes or fails for good.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.72 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, f"chi-square {statistic:.1f} with {freedom} degrees of freedom"


@settings(max_examples=30)
@given(seed=st.integers(-(2**63), 2**63 - 1), temperature=st.floats(0.05, 3), shape=st.integers(0, 99))
def test_speculation_on_or_off_gives_the_same_tokens(seed: int, temperature: float, shape: int) -> None:
    language = Language(8, seed=1)
    sampling = Sampling(temperature=temperature, top_k=6, top_p=0.95, seed=seed)
    off = language.decode(3, in_turn(DraftTree.empty()), sampling, 30)
    rng = random.Random(shape)
    on = language.decode(3, in_turn(*(random_tree(rng, rng.randrange(12), 8) for _ in range(5))), sampling, 30)
    assert on == off
    assert language.decode(3, in_turn(DraftTree.chain(off[:5]), random_tree(rng, 9, 8)), sampling, 30) == off


toss = st.floats(0, 1, exclude_max=True) | st.sampled_from([0.0, 1 - 2**-53])


@settings(max_examples=200)
@given(
    seed=st.integers(0, 1 << 30),
    temperature=st.sampled_from([0.05, 0.6, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 5, 400, 5000]),
    top_p=st.sampled_from([0.02, 0.5, 0.9, 0.999, 1.0]),
)
def test_each_row_is_warped_as_transformers_warps_it_and_drawn_from(
    seed: int, temperature: float, top_k: int, top_p: float
) -> None:
    logits = np.random.default_rng(seed).normal(0, 4, 500).astype(np.float32)
    logits[::50] = logits[0]  # Equal ones, and some that no text may have.
    logits[7::100] = -np.inf
    warpers = [TemperatureLogitsWarper(temperature)] if temperature != 1 else []
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    expected = torch.from_numpy(logits - logits.max())[None]
    for warper in warpers:
        expected = warper(torch.empty((1, 0), dtype=torch.long), expected)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    shares = target_distribution(logits, sampling)
    wanted = expected[0].double().softmax(-1).numpy()
    # Of equal logits at the edge of top-p, either may be the one that is cut.
    np.testing.assert_allclose(np.sort(shares), np.sort(wanted), atol=1e-9)
    differing = np.flatnonzero((shares > 0) != (wanted > 0))
    assert len(set(logits[differing].tolist())) <= 1
    with np.errstate(divide="ignore"):
        first = (arrivals(seed, 3, np.arange(500)) / shares).argmin()
    assert chooser(logits[None], sampling)(0, 3) == first


# ---- recursive rejection ---------------------------------------------------------------------------------------------


class Guesser:
    """A drafter that knows its top list after each token, and draws trees from it."""

    def __init__(self, table: np.ndarray, top: int, pace: Pace, sampling: Sampling) -> None:
        shares = table - np.log(np.exp(table).sum(1, keepdims=True))
        order = np.argsort(-shares, axis=1)[:, :top]
        self.log_probs, self.ids = np.take_along_axis(shares, order, 1).astype(np.float32), order
        self.pace = pace
        self.sampling = DraftSampling(sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed)

    def proposals(self, tokens: np.ndarray) -> Proposals:
        return self.log_probs[tokens], self.ids[tokens]

    def __call__(self, turn: int, last: int, position: int) -> DraftTree:
        first = self.proposals(np.array([last]))
        return grow_sampled(first, lambda tokens, _: self.proposals(tokens), self.pace, self.sampling, position)


FEW = Pace(depth=3, breadth=2, nodes=3)
MANY = Pace(depth=2, breadth=4, nodes=12)


@pytest.mark.parametrize(
    ("drafter", "top", "pace", "sampling"),
    [
        ("near", 3, MANY, Sampling(temperature=1.6, top_p=0.8)),
        ("constant", 6, MANY, Sampling(temperature=0.7, top_k=4)),
        ("opposed", 5, FEW, Sampling(temperature=0.9, top_k=5, top_p=0.9)),
        ("the target", 6, FEW, Sampling(temperature=1.0)),
    ],
)
def test_sampled_trees_follow_the_targets_distribution(drafter: str, top: int, pace: Pace, sampling: Sampling) -> None:
    truth = Language(FEW_TOKENS, seed=3).table.astype(np.float64)
    table = {
        "near": truth + np.random.default_rng(8).normal(0, 0.7, truth.shape),
        "constant": np.zeros_like(truth) + np.array([2.0, 1.0, 0.5, 0.0, 0.0, -1.0]),
        "opposed": -truth,
        "the target": truth,
    }[drafter]
    assert_follows(lambda seeded: Guesser(table, top, pace, seeded), sampling, seeds=600)


@st.composite
def tries(draw: st.DrawFn) -> tuple[np.ndarray, Candidates, list[int]]:
    """A target over 12 tokens, a list of candidates, and tokens tried: nothing was drawn from anything."""
    weights = draw(st.lists(st.sampled_from([0.0, 1e-300, 1e-17, 1e-9, 0.2, 1.0, 30.0]), min_size=12, max_size=12))
    target = np.array(weights if any(weights) else [1.0] * 12)
    listed = draw(st.lists(st.integers(0, 11), min_size=1, max_size=12, unique=True))
    share = st.one_of(st.integers(1, MAX_WEIGHT), st.sampled_from([1, MAX_WEIGHT]))
    shares = draw(st.lists(share, min_size=len(listed), max_size=len(listed)))
    tried = draw(st.lists(st.sampled_from(listed), min_size=1, max_size=len(listed), unique=True))
    return target / target.sum(), Candidates(np.array(listed), np.array(shares)), tried


@settings(max_examples=200)
@given(tries(), st.lists(toss, min_size=13, max_size=13))
def test_a_lying_list_yields_a_token_that_the_target_allows(
    case: tuple[np.ndarray, Candidates, list[int]], tossed: list[float]
) -> None:
    target, candidates, tried = case
    token = recursive_rejection(target, candidates, tried, tossed.__getitem__)
    assert target[token] > 0
    assert recursive_rejection(target, candidates, tried, tossed.__getitem__) == token, "the target is as it was"


def test_a_residual_that_underflows_falls_back_to_the_target() -> None:
    target = np.array([0.5, 0.5 - 2**-54, 0.0])
    candidates = Candidates(np.array([0, 1]), np.array([1, 1]))
    found = {
        recursive_rejection(target, candidates, [1, 0], lambda attempt, last=last: 1 - 2**-53 if attempt else last)
        for last in (0.0, 0.25, 0.75, 1 - 2**-53)
    }
    assert found <= {0, 1}


def test_greedy_output_is_the_same_for_any_sampled_tree() -> None:
    language, rng = Language(8, seed=1), random.Random(4)
    plain = language.decode(3, in_turn(DraftTree.empty()), Sampling(), 40)

    def lying(tree: DraftTree) -> DraftTree:
        lists = {
            parent: Candidates(np.arange(8), np.array([rng.randrange(1, MAX_WEIGHT) for _ in range(8)]))
            for parent in tree.children()
        }
        return DraftTree(tree.tokens, tree.parents, candidates=lists)

    for _ in range(20):
        trees = [lying(random_tree(rng, rng.randrange(1, 12), 8)) for _ in range(5)]
        assert language.decode(3, in_turn(*trees), Sampling(), 40) == plain


# ---- extremes --------------------------------------------------------------------------------------------------------


TINY = [5e-324, 1e-38, 1e-9]
extremes = st.sampled_from([math.inf, -math.inf, 0.0, -0.0, 3e38, -3e38, 1e-45, 20.0, 20.000002, -7.5])
logits = st.lists(extremes | st.floats(-100, 100, width=32), min_size=1, max_size=40).filter(
    lambda row: any(value > -math.inf for value in row)
)


@given(
    row=logits,
    temperature=st.sampled_from([*TINY, 0.0, 0.3, 1.0, 2.0, 100.0]),
    top_k=st.sampled_from([0, 1, 3, 41, (1 << 31) - 1]),
    top_p=st.sampled_from([5e-324, 1e-30, 1e-9, 0.5, 1 - 2**-53, 1.0]),
    seed=st.integers(-(1 << 63), (1 << 63) - 1),
)
def test_a_drawn_token_is_one_that_the_target_allows(
    row: list[float], temperature: float, top_k: int, top_p: float, seed: int
) -> None:
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    token = chooser(np.array([row], np.float32), sampling)(0, 5)
    assert 0 <= token < len(row)
    assert row[token] > -math.inf
    if math.inf in row:
        assert row[token] == math.inf
    if temperature:
        shares = target_distribution(np.array(row, np.float32), sampling)
        assert abs(float(shares.sum()) - 1) < 1e-9 and shares[token] > 0


@pytest.mark.parametrize("temperature", TINY)
def test_a_tiny_temperature_is_its_limit(temperature: float) -> None:
    row = np.random.default_rng(0).normal(size=(1, 500)).astype(np.float32)
    for seed in range(20):
        assert chooser(row, Sampling(temperature=temperature, seed=seed))(0, 3) == int(row.argmax())
    drafted = DraftSampling(temperature).weights(np.log(np.array([[0.5, 0.3, 0.2]])))
    assert drafted[0, 0] > 0 and (drafted[0, 1:] == 0).all()


def test_a_head_that_allows_no_token_is_told_and_a_wide_one_gives_none_outside_the_vocabulary() -> None:
    engine = TorchEngine(model := tiny_model())

    def verified(head: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
        context = engine.context()
        context.assign(0, PROMPT)
        hook = model.lm_head.register_forward_hook(lambda module, given, out: head(out))
        try:
            return engine.verify(context, DraftTree.empty())
        finally:
            hook.remove()

    with pytest.raises(BrokenTarget):
        verified(lambda out: torch.full_like(out, -math.inf))
    assert verified(lambda out: torch.cat([out, torch.full_like(out[..., :3], 1e9)], -1)).shape == (1, VOCABULARY)
