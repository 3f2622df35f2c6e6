"""Acceptance: which nodes of a draft tree the target agrees with, and the token that follows them.

At each node the target chooses its own next token. If a child carries that token, the walk continues there. If not, the
token is the bonus and the walk ends. How the target chooses depends on the tree.

In a deterministic tree, the target chooses greedily, or draws from its distribution. So the tree decides how *many*
tokens a round yields, never *which*. The output follows the target exactly for any tree, even a bad or malicious one,
and needs no probabilities of the drafter. The coins are keyed by (seed, absolute position), so the tokens are the same
with and without speculation.

In a sampled tree, which carries the distributions that its children were drawn from, the target chooses greedily, or by
recursive rejection without replacement (SpecInfer, arXiv 2305.09781; MCSD, arXiv 2401.06706). The output follows the
target's distribution if the children were drawn as the tree says. Which tokens a seed gives depends on the draft. A
device that sends another distribution than the one it drew from bends only its own output, towards tokens that the
target allows; it could have appended these tokens itself. Greedy output is always the target's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.coin import coin, contenders, race
from models.tree import ROOT, Candidates, DraftTree
from remote.protocol import Sampling

LEAST_TEMPERATURE = float(np.finfo(np.float32).tiny)
"""Smaller temperatures above 0 count as this, because some processors flush smaller numbers to 0."""

FEW = 256
"""Tokens that usually have most of the probability."""
BLOCK = 64
"""Tokens of a vocabulary whose largest logit is found before all are compared."""

Floats = NDArray[np.float32]
Probabilities = NDArray[np.float64]

Chooser = Callable[[int, int], int]
"""(row of the logits, absolute position of the token) -> token. Row 0 belongs to the root, row `1 + i` to node `i`."""
Processing = Callable[[int, Floats], Floats]
"""(row, its logits (V,)) -> the logits from which the target chooses there."""


@dataclass(frozen=True)
class Walk:
    """The accepted nodes, from the root's child down, and the token after them."""

    accepted: tuple[int, ...]
    bonus: int | None
    """None only if the last accepted node is a stop token."""


def walk(tree: DraftTree, choose: Chooser, *, position: int, room: int, stop_tokens: frozenset[int]) -> Walk:
    """Follow the target's choices down the tree.

    `position`: of the first new token. `room`: most new tokens, bonus included; at least 1. The last token that fits is
    always a bonus, even if a child carries it. A stop token ends the walk.
    """
    children, accepted, at = tree.children(), list[int](), ROOT
    while True:
        token = choose(at + 1, position + len(accepted))
        child = children.get(at, {}).get(token)
        if child is None or len(accepted) + 1 == room:
            return Walk(tuple(accepted), token)
        accepted.append(child)
        if token in stop_tokens:
            return Walk(tuple(accepted), None)
        at = child


def at_most(tree: DraftTree, depth: int, kept: NDArray[np.bool_] | None = None) -> tuple[DraftTree, NDArray[np.intp]]:
    """The nodes of a tree down to `depth`, and the index of each in the whole tree.

    Deeper nodes could not be accepted, and their positions may exceed the target's maximum. `kept`: only these nodes,
    (n,), of a tree without candidates. The parent of each is among them or the root.
    """
    if kept is None and len(tree) <= depth:
        return tree, np.arange(len(tree))
    wanted = tree.depths() <= depth
    nodes = np.flatnonzero(wanted if kept is None else wanted & kept)
    if len(nodes) == len(tree):
        return tree, nodes
    place = np.full(len(tree) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    parents, candidates = tree.parents[nodes], tree.candidates
    if candidates is not None:
        candidates = {int(place[parent]): candidates[parent] for parent in np.unique(parents).tolist()}
    return DraftTree(tree.tokens[nodes], place[parents], candidates=candidates), nodes


def chooser(
    logits: Floats, sampling: Sampling, tree: DraftTree | None = None, process: Processing | None = None
) -> Chooser:
    """The target's choice at each row of `logits` (rows, V) float32, by the rule that fits `tree`.

    Without a tree, it uses the rule for deterministic trees, which is exact for any tree. `process` changes the logits
    of a row before the target chooses.
    """
    if sampling.temperature == 0:
        if process is not None:
            return lambda row, position: int(process(row, logits[row]).argmax())
        best: list[int] = logits.argmax(-1).tolist()
        return lambda row, position: best[row]
    candidates = {} if tree is None or tree.candidates is None else tree.candidates
    children = {} if tree is None else tree.children()

    def choose(row: int, position: int) -> int:
        # One row at a time: a walk visits one path of the tree, and each row has the whole vocabulary.
        given, node = logits[row] if process is None else process(row, logits[row]), row - 1
        if node in candidates:
            tried, target = list(children[node]), target_distribution(given, sampling)
            return recursive_rejection(target, candidates[node], tried, lambda i: coin(sampling.seed, position, i))
        leads = _leads(given, sampling.temperature)
        racing = _within_reach(leads, sampling)
        if racing is None:
            racing = contenders(leads, sampling.seed, position)
        return race(racing, np.exp(leads[racing].astype(np.float64)), sampling.seed, position)

    return choose


def target_distribution(logits: Floats, sampling: Sampling) -> Probabilities:
    """Probabilities after temperature, top-k and top-p, in the order of transformers' `generate`.

    (V,) float32 logits -> (V,) float64. Logits may be infinite, but not all of them -inf. Those of inf share all of the
    probability.
    """
    leads = _leads(logits, sampling.temperature)
    weights, kept = np.exp(leads.astype(np.float64)), _within_reach(leads, sampling)
    if kept is not None:
        weights[np.delete(np.arange(len(weights)), kept)] = 0
    probabilities: Probabilities = weights / weights.sum()
    return probabilities


def _leads(logits: Floats, temperature: float) -> Floats:
    """The logarithms of the tokens' weights, (V,), of which the largest is 0."""
    # Probabilities depend only on differences. Below a best logit of 0, no temperature gives inf or NaN, however small.
    best = logits.max()
    if best == np.inf:
        logits, best = np.where(logits == best, np.float32(0), np.float32(-np.inf)), np.float32(0)
    with np.errstate(over="ignore"):
        leads: Floats = logits - best
        leads /= np.float32(max(temperature, LEAST_TEMPERATURE))
    return leads


def _within_reach(leads: Floats, sampling: Sampling) -> NDArray[np.intp] | None:
    """The tokens that top-k and top-p leave, or None for all."""
    kept: NDArray[np.intp] | None = None
    if 0 < sampling.top_k < len(leads):
        kept = np.flatnonzero(leads >= _kth_largest(leads, sampling.top_k))
        leads = leads[kept]
    if sampling.top_p < 1:
        total = np.exp(leads.astype(np.float64)).sum()
        # Sorting takes longer than all the rest, so it leaves out small weights, if those surely fall away together.
        for count in (FEW, len(leads)):
            near = np.flatnonzero(leads > math.log((1 - sampling.top_p) / count))
            weights = np.exp(leads[near].astype(np.float64))
            if weights.sum() >= sampling.top_p * total:
                break
        order = np.argsort(leads[near], kind="stable")
        near, weights = near[order], weights[order]
        unlikely = (total - weights.sum()) / total + np.cumsum(weights / total) <= 1 - sampling.top_p
        unlikely[-1] = False
        near = near[~unlikely]
        kept = near if kept is None else kept[near]
    return kept


def _kth_largest(leads: Floats, k: int) -> np.float32:
    """The k-th largest, quickly: k blocks have one each that is no smaller than the k-th largest of their maxima."""
    blocks = leads[: len(leads) // BLOCK * BLOCK].reshape(-1, BLOCK).max(axis=1)
    if len(blocks) >= k:
        leads = leads[leads >= np.partition(blocks, -k)[-k]]
    largest: np.float32 = np.partition(leads, -k)[-k]
    return largest


def recursive_rejection(
    target: Probabilities, candidates: Candidates, tried: Sequence[int], toss: Callable[[int], float]
) -> int:
    """The token in `tried` that the target accepts, or else one drawn from what the refusals leave of the distribution.

    `target` (V,) float64. `tried`: in the order of drawing, without replacement, from `candidates`. `toss(i)`: a
    uniform number in [0, 1), from 1 on for the i-th token, 0 for the draw after them. A refused token has no
    probability left, so the result is in `tried` only if it was accepted.
    """
    listed, weights = candidates.tokens, candidates.weights.astype(np.float64)
    left = target
    for attempt, place in enumerate(candidates.places(tried).tolist(), 1):
        draft = weights / weights.sum()
        token = int(listed[place])
        if toss(attempt) * draft[place] < left[token]:
            return token
        residual = left.copy()
        residual[listed] = np.maximum(left[listed] - draft, 0.0)
        if not residual.sum() > 0:
            break  # Target and draft are equal to the last bit, so the target's distribution remains.
        left = residual / residual.sum()
        weights[place] = 0.0
    return draw(left, toss(0))


def draw(probabilities: Probabilities, uniform: float) -> int:
    """The token at `uniform` in [0, 1) of the cumulative distribution; never one of probability 0.

    The sums are float64, because float32 sums over a vocabulary of 150,000 have larger errors than the tail that they
    would draw from.
    """
    cumulative = probabilities.cumsum()
    drawn = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    # The product is rounded, so it may reach the sum itself.
    return drawn if drawn < len(probabilities) else int(np.flatnonzero(probabilities)[-1])
