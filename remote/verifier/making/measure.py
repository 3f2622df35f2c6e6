"""Measures how good a drafter is for a target, by rounds of the engine in one process, without a network.

A drafter learns about the target what a device would: only of verified tokens, after their round, in the form that
crosses the wire. Tau counts the bonus token, so plain decoding is 1.00. No files, no commands.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drafter.coin import Coins
from drafter.context import DraftContext
from drafter.fitness import repeated, written_alone
from drafter.model import MemoryEncoder, memory_digest
from drafter.runtime import Drafter
from drafter.search import Pace
from models.config import WRITTEN, Measured
from models.engines.engine import Engine, TargetContext, UnfitDrafter
from models.engines.torch_engine import TorchEngine
from models.memory import unpack_memory
from models.tree import ROOT, DraftTree
from remote.protocol import Sampling
from remote.verifier.sessions.acceptance import chooser, walk

T = TypeVar("T")

TREE, CHAIN = Pace(depth=8, breadth=8, nodes=60), Pace(depth=7, breadth=1, nodes=7)
"""The paces at which drafters are measured."""
ONE = Pace(depth=1, breadth=1, nodes=1)
MOST_TOKENS = 160
"""Longest answer, in tokens."""
STALENESS = (1, 8, 16, 32, 64, 128)
"""Lower edges of the ranges in which agreement is counted, in tokens."""
DEEPEST = 64
"""Levels of the tree that are counted."""

Propose = Callable[[list[int]], DraftTree]
"""All committed tokens -> the next draft."""
Tell = Callable[[TargetContext, DraftTree, tuple[int, ...]], None]
"""Called with the result of a round: the verifier's context after it, the tree that it judged, the accepted nodes."""


class NothingMeasured(ValueError):
    """No prompt had a second round, and a drafter takes part only from the second one on. The message says so."""


class MeasuredRound(NamedTuple):
    """The result of one exchange."""

    context: TargetContext
    """The verifier's context after the round."""
    tree: DraftTree
    accepted: tuple[int, ...]
    new: list[int]
    """The accepted tokens, then the bonus."""


@dataclass(frozen=True)
class AcceptanceReport:
    """The result of the rounds of some prompts."""

    tau: float
    ci95: tuple[float, float]
    """Confidence interval of tau: a bootstrap over prompts."""
    by_depth: tuple[float, ...]
    """Share of accepted nodes among those that were judged at depth 1, 2, ..."""
    prompts: int
    rounds: int
    expected_tau: float | None
    """The drafter's own expected tau, or None if it gives no chances."""


@dataclass
class Tally:
    """Counts the rounds of one drafter."""

    gained: list[list[int]] = field(default_factory=list)
    """For each prompt, the tokens gained in each of its rounds."""
    offered: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DEEPEST, np.int64))
    accepted: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DEEPEST, np.int64))
    expected: list[float] = field(default_factory=list)
    """For each round, tau as the drafter expected it. Empty if it gives no chances."""

    def add(self, answer: Iterable[MeasuredRound]) -> None:
        """Count the rounds of one prompt, except the opening one, in which no drafter can help."""
        counted = list(itertools.islice(answer, 1, None))
        for round in counted:
            self.judge(round.tree, round.accepted, round.new)
            if round.tree.expected_tau is not None:
                self.expected.append(round.tree.expected_tau)
        if counted:
            self.gained.append([len(round.new) for round in counted])

    def judge(self, tree: DraftTree, accepted: tuple[int, ...], new: list[int]) -> None:
        """Count, by depth, what the target judged: accepted nodes, and the last one's children if all were refused.

        Nothing is judged after a stop token, or if the answer is full.
        """
        self.offered[: len(accepted)] += 1
        self.accepted[: len(accepted)] += 1
        children = tree.children().get(accepted[-1] if accepted else ROOT, {})
        if children and len(new) > len(accepted) and new[-1] not in children:
            self.offered[len(accepted)] += 1

    def result(self) -> AcceptanceReport:
        """Tau with a 95 % interval from a bootstrap over prompts. Raises `NothingMeasured`."""
        if not self.gained:
            raise NothingMeasured("No answer went beyond its first round, so there was nothing to draft.")
        rounds = np.array([len(prompt) for prompt in self.gained])
        tokens = np.array([sum(prompt) for prompt in self.gained])
        picks = np.random.default_rng(0).integers(len(rounds), size=(2000, len(rounds)))
        low, high = np.quantile(tokens[picks].sum(1) / rounds[picks].sum(1), (0.025, 0.975))
        judged = self.offered > 0
        return AcceptanceReport(
            tau=round(float(tokens.sum() / rounds.sum()), 3),
            ci95=(round(float(low), 3), round(float(high), 3)),
            by_depth=tuple(round(float(a / o), 3) for a, o in zip(self.accepted[judged], self.offered[judged])),
            prompts=len(rounds),
            rounds=int(rounds.sum()),
            expected_tau=round(float(np.mean(self.expected)), 3) if self.expected else None,
        )

    def row(self, name: str) -> dict[str, object]:
        """The result as a line of a table, after the drafter's name. Raises `NothingMeasured`."""
        result = asdict(self.result())
        return {"drafter": name} | {
            key: list(value) if isinstance(value, tuple) else value for key, value in result.items()
        }


@dataclass(frozen=True)
class Answered:
    """A question that a target has answered."""

    prompt: list[int]
    answer: list[int]
    """The greedy answer."""


def answered(engine: Engine, prompt: list[int], stops: frozenset[int], most: int) -> Answered:
    """Let the target answer a prompt greedily, without drafts, in at most `most` tokens."""
    plain = rounds(engine, prompt, lambda _: DraftTree.empty(), stops, most)
    return Answered(prompt, [token for round in plain for token in round.new])


def measured(engine: Engine, drafter: Drafter, answers: Sequence[Answered], pace: Pace = CHAIN) -> Measured:
    """How well a drafter guesses its target's words in these answers, which were not used to make it.

    The target reads each answer once, so this takes a fraction of the time that writing them took. Raises
    `NothingMeasured` if no answer has two tokens.
    """
    tally, hits, log_probs, repeats = Tally(), list[bool](), list[float](), list[float]()
    for one in answers:
        tally.add(_replayed(engine, drafter, one, pace))
        draft = drafter.context()
        draft.commit(one.prompt)
        hits += [guess == token for guess, token in zip(draft.likeliest_after(one.answer[:-1]), one.answer)]
        text = written_alone(drafter, one.prompt)
        log_probs += _log_probs(engine, one.prompt, text)
        repeats += repeated(text)
    perplexity = float(np.exp(-np.mean(log_probs))) if log_probs else math.inf
    return Measured(
        tau=tally.result().tau,
        alone=round(float(np.mean(hits)), 3),
        repeated=round(float(np.mean(repeats)), 3) if repeats else 0.0,
        perplexity=round(min(perplexity, 1e6), 1),
    )


def _replayed(engine: Engine, drafter: Drafter, one: Answered, pace: Pace) -> Iterator[MeasuredRound]:
    """The rounds of an answer that is known already."""
    context, draft, tokens = engine.context(), drafter.context(), one.prompt + one.answer
    context.assign(0, tokens)
    engine.verify(context, DraftTree.empty())
    draft.commit(one.prompt)
    told, at, tree = 0, len(one.prompt), DraftTree.empty()
    while at < len(tokens):
        accepted, node, children = list[int](), ROOT, tree.children()
        while at + len(accepted) < len(tokens) - 1:
            child = children.get(node, {}).get(tokens[at + len(accepted)])
            if child is None:
                break
            accepted.append(child)
            node = child
        new = tokens[at : at + len(accepted) + 1]
        at += len(new)
        yield MeasuredRound(context, tree, tuple(accepted), new)
        draft.commit(new)
        if engine.encoder is not None:
            known = at - 1  # The root has none yet.
            draft.remember(
                told, unpack_memory(engine.memory(context, told, known), known - told, drafter.memory_layers)
            )
            told = known
        tree = draft.draft(pace) if at < len(tokens) else tree
    context.release()


def _log_probs(engine: Engine, prompt: list[int], text: list[int]) -> list[float]:
    """The log-probability of each token of a text after a prompt, under the target."""
    context, found = engine.context(), list[float]()
    context.assign(0, prompt)
    for start in range(0, len(text), size := engine.most_nodes or WRITTEN):
        part = text[start : start + size]
        logits = engine.verify(context, DraftTree.chain(part))[: len(part)].astype(np.float64)
        norm = np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
        found += (logits[np.arange(len(part)), part] - norm).tolist()
        context.commit(DraftTree.empty(), (), None)
        context.assign(len(context.tokens), part)
    context.release()
    return found


def evenly(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items, evenly spread, in their order."""
    return [items[int(i)] for i in np.linspace(0, len(items) - 1, min(count, len(items)))]


def check_fit(engine: TorchEngine, drafter: Drafter) -> None:
    """Raise `UnfitDrafter` if the drafter was made for other weights than those of the engine's target and encoder.

    Such a drafter would silently guess badly. Reads all weights of the target.
    """
    assert isinstance(engine.encoder, MemoryEncoder)
    if memory_digest(engine.model.state_dict(), engine.encoder) != drafter.memory_digest:
        raise UnfitDrafter(
            f"The drafter was made for other weights than this target has: for {drafter.config.target}, with memory of "
            f"digest {drafter.config.memory[:12]}. Give the target it was made for, or train it for this one: outrider "
            "drafter train --init."
        )


@contextmanager
def memory_telling(engine: Engine, drafter: Drafter, draft: DraftContext) -> Iterator[Tell]:
    """Feeds a drafter's context the target's memory, in int8, of the tokens verified since the last round."""
    start = 0

    def tell(context: TargetContext, tree: DraftTree, accepted: tuple[int, ...]) -> None:
        nonlocal start
        if (end := context.computed) > start:
            rows = unpack_memory(engine.memory(context, start, end), end - start, drafter.memory_layers)
            draft.remember(start, rows)
            start = end

    yield tell


def rounds(
    engine: Engine,
    prompt: list[int],
    propose: Propose,
    stops: frozenset[int],
    most: int,
    sampling: Sampling | None = None,
    *,
    opening: bool = False,
) -> Iterator[MeasuredRound]:
    """The rounds of one answer of at most `most` tokens, greedy by default.

    The first round carries the prompt and, with `opening`, also a draft, which is made without any memory.
    """
    sampling = sampling or Sampling()
    context = engine.context()
    context.assign(0, prompt)
    tree = propose(context.tokens) if opening else DraftTree.empty()
    while True:
        logits = engine.verify(context, tree)
        room = len(prompt) + most - len(context.tokens)
        choose = chooser(logits, sampling, tree)
        outcome = walk(tree, choose, position=len(context.tokens), room=room, stop_tokens=stops)
        new = context.commit(tree, outcome.accepted, outcome.bonus)
        yield MeasuredRound(context, tree, outcome.accepted, new)
        if new[-1] in stops or len(context.tokens) >= len(prompt) + most:
            return
        tree = propose(context.tokens)


def measure(
    engine: Engine,
    drafter: Drafter,
    prompts: Iterable[list[int]],
    pace: Pace = TREE,
    most: int = MOST_TOKENS,
    temperature: float = 0.0,
) -> Tally:
    """Let the target answer all prompts, given as token ids, with this drafter's trees.

    The index of a prompt is the seed of its answer. Above temperature 0, trees hold what the target's coins suggest
    that it will draw.
    """
    tally, stops = Tally(), frozenset(drafter.config.stop_tokens)
    for seed, prompt in enumerate(prompts):
        tally.add(_drafted(engine, drafter, prompt, pace, most, Sampling(temperature=temperature, seed=seed), stops))
    return tally


def _drafted(
    engine: Engine,
    drafter: Drafter,
    prompt: list[int],
    pace: Pace,
    most: int,
    sampling: Sampling,
    stops: frozenset[int],
) -> Iterator[MeasuredRound]:
    draft, coins = drafter.context(), Coins.at(sampling.temperature, sampling.seed)
    draft.commit(prompt)
    with memory_telling(engine, drafter, draft) as tell:
        for round in rounds(engine, prompt, lambda _: draft.draft(pace, coins=coins), stops, most, sampling):
            draft.commit(round.new)
            tell(round.context, round.tree, round.accepted)
            yield round


def agreement_by_staleness(
    engine: Engine,
    drafter: Drafter,
    prompts: Iterable[list[int]],
    most: int = MOST_TOKENS,
) -> dict[str, float]:
    """Share of the target's tokens that are the drafter's first choice, by tokens since it last learnt about the
    target.

    It learns about each prompt once, and never about the answer, which is the target's greedy one. The keys are those
    of `STALENESS` for which answers were long enough.
    """
    hits, counts = np.zeros(len(STALENESS)), np.zeros(len(STALENESS))
    stops, empty = frozenset(drafter.config.stop_tokens), DraftTree.empty()
    for prompt in prompts:
        draft = drafter.context()
        draft.commit(prompt)
        answer = answered(engine, prompt, stops, most).answer
        context = engine.context()
        context.assign(0, prompt)
        with memory_telling(engine, drafter, draft) as tell:
            engine.verify(context, empty)
            tell(context, empty, ())
        # The first token of the answer follows from this memory, and is the first one without its own memory.
        draft.commit(answer[:1])
        for stale, token in enumerate(answer[1:], 1):
            bucket = int(np.searchsorted(STALENESS, stale, side="right")) - 1
            hits[bucket] += int(draft.draft(ONE).tokens[0]) == token
            counts[bucket] += 1
            draft.commit([token])
    return {str(edge): round(float(h / c), 3) for edge, h, c in zip(STALENESS, hits, counts) if c}
