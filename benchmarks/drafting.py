"""What rounds of a drafter bring and cost: tokens, calls, time and floating-point operations, in one process.

The opening round of an answer counts nowhere. The first draft after it reads the whole prompt, so its time, calls and
operations do not count either.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.acceptance import telling
from benchmarks.baseline_drafters import Baseline
from benchmarks.baseline_drafters.block_context import BlockDrafter
from drafter.context import DraftContext
from drafter.runtime import Drafter
from drafter.search import Pace
from models.engines.engine import Engine
from models.tree import DraftTree
from remote.verifier.making.measure import MOST_TOKENS, Tally, rounds

AnyDrafter = Drafter | Baseline | BlockDrafter


@dataclass
class Drafting:
    """What the rounds of some prompts brought and cost."""

    tokens: list[int] = field(default_factory=list)
    """For each prompt, the tokens that its rounds gained."""
    rounds: list[int] = field(default_factory=list)
    """For each prompt, its rounds."""
    tally: Tally = field(default_factory=Tally)
    drafts: int = 0
    """Drafts whose cost counts."""
    calls: int = 0
    draft_seconds: float = 0.0
    seconds: float = 0.0
    """What these drafts and the verifying after them took."""
    operations: int = 0
    """Multiplications and additions of their matrix products, if they were counted."""

    @property
    def tau(self) -> float:
        return sum(self.tokens) / sum(self.rounds)


def drafted(
    engine: Engine,
    drafter: AnyDrafter,
    prompts: Sequence[list[int]],
    pace: Pace,
    most: int = MOST_TOKENS,
    *,
    count_operations: bool = False,
) -> Drafting:
    """Let the target answer the prompts greedily with this drafter's trees. Counting operations takes time."""
    found, stops = Drafting(), frozenset(drafter.config.stop_tokens)
    for prompt in prompts:
        draft = drafter.context()
        draft.commit(prompt)
        trees, begun = 0, 0.0

        def propose(_: list[int], draft: object = draft) -> DraftTree:
            nonlocal trees, begun
            trees += 1
            begun = time.perf_counter()
            before = 0 if isinstance(draft, DraftContext) else draft.calls  # type: ignore[attr-defined]
            counter = FlopCounterMode(display=False) if count_operations and trees > 1 else None
            with counter or nullcontext():
                tree: DraftTree = draft.draft(pace)  # type: ignore[attr-defined]
            if trees > 1:
                found.drafts += 1
                found.draft_seconds += time.perf_counter() - begun
                found.operations += counter.get_total_flops() if counter else 0
                taken = draft.taken[0] if isinstance(draft, DraftContext) and draft.taken else 0
                found.calls += taken if isinstance(draft, DraftContext) else draft.calls - before  # type: ignore[attr-defined]
            return tree

        gained = []
        with telling(engine, drafter, draft) as tell:
            for number, round in enumerate(rounds(engine, prompt, propose, stops, most)):
                draft.commit(round.new)
                tell(round.context, round.tree, round.accepted)
                if number:
                    gained.append(len(round.new))
                    found.tally.judge(round.tree, round.accepted, round.new)
                if trees > 1:
                    found.seconds += time.perf_counter() - begun
        found.tokens.append(sum(gained))
        found.rounds.append(len(gained))
    return found


def interval(tokens: Sequence[Sequence[int]], counts: Sequence[Sequence[int]]) -> tuple[float, float]:
    """A 95 % interval of tau by a bootstrap over prompts. `tokens`, `counts`: gained in so many rounds, for each seed
    a list with a number for each prompt. A prompt is drawn with all its seeds."""
    gained, took = (np.array(each).sum(axis=0) for each in (tokens, counts))
    picks = np.random.default_rng(0).integers(len(took), size=(2000, len(took)))
    totals: NDArray[np.float64] = gained[picks].sum(1) / np.maximum(took[picks].sum(1), 1)
    low, high = np.quantile(totals, (0.025, 0.975))
    return round(float(low), 3), round(float(high), 3)
