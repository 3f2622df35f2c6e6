"""Drafting ahead: how often a prepared draft fits the verdict, what such drafts are worth, and what that gains.

    python -m benchmarks.ahead [--lines MS ...] [--prompts FILE] [--limit N] [--json OUT]

The bundled pair in one process, greedy. The line is a clock that only counts. A round takes the line's time, and the
measured times of verifier and drafter, so these two do not compete for cores. First, drafts are prepared for all
outcomes, however long that takes, and none of them is used. There is one row for the fixed pace (8 levels, 60 nodes),
and one for each line with trees as large as pays on it.

- `hits`: the share of verdicts that were among the 1, 2, 4, 8 or 16 likeliest outcomes
- `prepared_tau`, `fresh_tau`: after such a hit, what a round gains with the draft that was prepared for it, and with
  the one made after the verdict and its memory; `expected`: the sum of the prepared draft's own chances
- `milliseconds`: of the drafter for one prepared draft

Then, on each line, as many drafts are prepared as the round leaves time for. `off`: none. `always`: each hit is used.
`measured`: a hit is used if that pays by what rounds have shown. The figures are tokens a second by the clock, tau, the
shares of verdicts with a hit and of drafts that were used, and milliseconds of the drafter per round.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from app.cli.machine import machine
from app.prompts import read_prompts
from benchmarks.acceptance import DRAFTER, PROMPTS, TARGET
from benchmarks.exactness import DifferentTokens
from drafter.adoption import Adoption
from drafter.calibration import Calibration
from drafter.context import DraftContext
from drafter.cost import CostMeter
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.search import Pace
from models.engines.engine import Engine, TargetContext
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.memory import unpack_memory
from models.tree import ROOT, DraftTree
from remote.protocol import Sampling
from remote.verifier.making.measure import TREE
from remote.verifier.sessions.acceptance import chooser, walk

BOUNDS = Pace(depth=16, breadth=8, nodes=60)
"""The bounds within which a tree is as large as pays."""
COUNTS = (1, 2, 4, 8, 16)
MOST_TOKENS = 160

Way = Literal["study", "off", "always", "measured"]
WAYS: tuple[Way, ...] = ("off", "always", "measured")


@dataclass
class LineRun:
    """Prompts one after another on one line. `line`: seconds; None: it does not matter, and the pace stays as it is."""

    engine: Engine
    drafter: Drafter
    pace: Pace
    line: float | None
    way: Way
    calibration: Calibration = field(default_factory=Calibration)
    meter: CostMeter = field(default_factory=CostMeter)
    adoption: Adoption = field(default_factory=Adoption)
    seconds: float = 0.0
    """Seconds by the clock, of all rounds except the opening ones."""
    tokens: int = 0
    rounds: int = 0
    adopted: int = 0
    ranks: list[int | None] = field(default_factory=list)
    """For each verdict: its rank among the prepared outcomes, from 0; None: it was not among them."""
    gains: list[tuple[int, int, float]] = field(default_factory=list)
    """For each hit: tokens that the prepared draft would gain, those of the draft used, and what the prepared one
    expected."""
    ahead_seconds: list[float] = field(default_factory=list)
    """Seconds of each prepared draft."""

    def answer(self, prompt: list[int]) -> list[int]:
        """The target's answer."""
        draft, context, final = self.drafter.context(), self.engine.context(), self.drafter.text.stop_tokens
        draft.commit(prompt)
        context.assign(0, prompt)
        end, line, told, gap = len(prompt) + MOST_TOKENS, self.line or 0.0, 0, 0.0
        held: list[tuple[int, DraftTree, DraftTree]] = []
        tree, drafts, adopts, opening = DraftTree.empty(), False, False, True
        prepared: dict[tuple[int, ...], int] = {}
        while True:
            begun = time.perf_counter()
            logits = self.engine.verify(context, tree)
            choose = chooser(logits, Sampling(), tree)
            room, position = end - len(context.tokens), len(context.tokens)
            outcome = walk(tree, choose, position=position, room=room, stop_tokens=final)
            new = context.commit(tree, outcome.accepted, outcome.bonus)
            verified = time.perf_counter() - begun
            ended = new[-1] in final or len(context.tokens) >= end
            draft.commit(new)
            if not opening:
                self._count(tree, outcome.accepted, outcome.bonus, line + verified + gap, len(new))
                self.meter.judged(len(tree), verified)
                self.meter.waited(line)
                self.adoption.returned(line + verified, verified, ahead=drafts)
                if drafts and prepared and not ended:
                    self.ranks.append(prepared.get(tuple(new)))
                    self.adoption.tried(draft.ready is not None)
            if ended:
                break
            offered, opening = draft.ready, False
            adopts = offered is not None and self._pays(offered)
            begun = time.perf_counter()
            if adopts:
                tree = draft.adopt()
                gap = time.perf_counter() - begun
            told = self._tell(context, draft, told)
            if not adopts:
                tree = draft.draft(self._next_pace(), None, self.calibration)
                gap = time.perf_counter() - begun
                if draft.taken is not None:
                    self.meter.drafted(*draft.taken)
            self.adopted += adopts
            self.adoption.sent(gap, adopted=adopts)
            if offered is not None:
                held.append((len(context.tokens), offered, tree))
            drafts = self._drafts()
            prepared = self._prepare(draft, line + verified) if drafts else {}
        for at, offered, tree in held:
            coming = context.tokens[at:]
            gains = gained(offered, coming), gained(tree, coming), offered.expected_tau or 1.0
            self.gains.append(gains)
            self.adoption.gained(gains[2], gains[1], adopted=tree is offered)
        return context.tokens[len(prompt) :]

    def row(self) -> dict[str, Any]:
        hits = {count: sum(rank is not None and rank < count for rank in self.ranks) for count in COUNTS}
        row: dict[str, Any] = {"way": self.way, "line": "fixed" if self.line is None else f"{1000 * self.line:g} ms"}
        row |= {"rounds": self.rounds, "tau": round(self.tokens / self.rounds, 3)}
        if self.way != "study":
            row |= {"tokens_per_second": round(self.tokens / self.seconds, 2)}
            row |= {"adopted": round(self.adopted / self.rounds, 3)}
        if self.ranks:
            row |= {"hits": {count: round(hit / len(self.ranks), 3) for count, hit in hits.items()}}
            row |= {"drafts_per_round": round(len(self.ahead_seconds) / self.rounds, 2)}
            row |= {"milliseconds": round(1000 * float(np.median(self.ahead_seconds)), 1)}
        if self.gains:
            prepared, used, expected = np.mean(self.gains, axis=0).tolist()
            name = "fresh_tau" if self.way == "study" else "used_tau"
            row |= {"prepared_tau": round(prepared, 3), name: round(used, 3), "expected": round(expected, 3)}
        return row

    def _count(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None, seconds: float, gained: int) -> None:
        self.calibration.learn(tree, accepted, bonus)
        self.seconds += seconds
        self.tokens += gained
        self.rounds += 1

    def _next_pace(self) -> Pace:
        return self.pace if self.line is None else replace(self.pace, cost=self.meter.cost)

    def _pays(self, tree: DraftTree) -> bool:
        return self.way == "always" or (self.way == "measured" and self.adoption.pays(tree.expected_tau or 1.0))

    def _drafts(self) -> bool:
        cost = self.meter.cost
        measured = self.way == "measured" and cost is not None and self.adoption.worth(cost.level, shared=False)
        return measured or self.way in ("study", "always")

    def _prepare(self, draft: DraftContext, seconds: float) -> dict[tuple[int, ...], int]:
        """The outcomes that were drafted for within so many seconds (in the study, without end), each with its rank."""
        until = time.perf_counter() + (1e9 if self.way == "study" else seconds)
        prepared: dict[tuple[int, ...], int] = {}
        for rank, outcome in enumerate(draft.outcomes(self.calibration, self.drafter.text.stop_tokens)):
            begun = time.perf_counter()
            if not draft.prepare(outcome, self._next_pace(), self.calibration, lambda: time.perf_counter() > until):
                break
            self.ahead_seconds.append(time.perf_counter() - begun)
            prepared[outcome.tokens] = rank
        return prepared

    def _tell(self, context: TargetContext, draft: DraftContext, told: int) -> int:
        """Hand over memory of what was verified since, in its wire form. Returns up to where."""
        if (end := context.computed) > told:
            data = self.engine.memory(context, told, end)
            draft.remember(told, unpack_memory(data, end - told, self.drafter.memory_layers))
        return end


def gained(tree: DraftTree, tokens: Sequence[int]) -> int:
    """Tokens that a round with this tree gains if the target says `tokens`, bonus included, as far as they go."""
    children, at = tree.children(), ROOT
    for count, token in enumerate(tokens, 1):
        if (child := children.get(at, {}).get(token)) is None:
            return count
        at = child
    return len(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=float, nargs="+", default=[25.0, 60.0, 300.0], metavar="MS")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    drafter = Drafter.load(DRAFTER)
    engine = TorchEngine(load_target(str(TARGET)).model, MemoryEncoder.load(DRAFTER))
    asked = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    chosen = [asked[int(i)] for i in np.linspace(0, len(asked) - 1, min(arguments.limit, len(asked)))]
    prompts = [drafter.asked_as(question) for question in chosen]
    lines = [milliseconds / 1000 for milliseconds in arguments.lines]
    studies = [
        LineRun(engine, drafter, TREE, None, "study"),
        *(LineRun(engine, drafter, BOUNDS, at, "study") for at in lines),
    ]
    runs = [LineRun(engine, drafter, BOUNDS, line, way) for line in lines for way in WAYS]
    for prompt in prompts:
        answers = [run.answer(prompt) for run in (*studies, *runs)]
        if any(answer != answers[0] for answer in answers):
            raise DifferentTokens(f"two ways answer differently to the prompt {prompt}")
    rows = [run.row() for run in (*studies, *runs)]
    for row in rows:
        print(json.dumps(row))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
