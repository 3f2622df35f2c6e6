"""What a drafter gains by learning from its user, without PyTorch, on requests that it has never met.

    python -m benchmarks.learning [--target M] [--budget SIZE] [--platform NAME] [--requests N] [--seeds N] [--json OUT]

The drafter is *born*: made of the target's own layers, without training (`outrider drafter make`). The smaller the
budget, the less it knows. The requests are tasks of one platform of the pages, in a random order. The app asks them,
one after another, of a real verifier over loopback, at temperature 0, and keeps what `outrider learn` needs. Then the
same answers are drafted again, with the memory that had arrived, for each seed in another order:

- `as it came`: the drafter without a correction
- `learnt`: with what it learnt from the requests before a block, judged on that block, which it has not seen
- `oracle`: with what it learnt from all requests, also those of the block

Tau is that of chains of 8 guesses. `first` is the share of first guesses that are right. `CPU` is the learning alone.
A correction goes live only where it is surely better (`app/drafting/learning.py`); here each one is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET, Settings
from app.drafting.learning import Learner, Lesson
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from benchmarks.pair import machine_and_pair
from benchmarks.served import OWN, Served
from drafter.guide.pages import FILE, Pages
from drafter.learning.comparison import Hits, compare, tau
from drafter.learning.correction import learn
from drafter.learning.samples import Samples
from drafter.runtime import Drafter
from drafter.step import Correction
from storage import Store

STOPPING = 5
"""One answer in so many says when to stop."""
MOST_TOKENS = 64
BUDGET = 6_000_000
"""Bytes of a born drafter, which is as small as the bundled target allows."""


def born(target: str, drafter: Path, budget: int = BUDGET) -> None:
    """Make a drafter of a target's own layers."""
    from drafter.questions import usual_questions
    from remote.verifier.birth import make_drafter
    from remote.verifier.target import load_target

    print(make_drafter(load_target(target), target, drafter, usual_questions(), budget), file=sys.stderr)


def requests(platform: str, count: int, seed: int) -> list[str]:
    """Tasks of a platform's pages as questions, in a random order."""
    pages = Pages.open(BUNDLED_DRAFTER / FILE)
    try:
        rows = pages.rows(
            "SELECT examples.task FROM examples JOIN pages ON pages.id = examples.page WHERE pages.platform = ?",
            (platform,),
        )
    finally:
        pages.close()
    asked = sorted({f"How do I {task[0].lower()}{task[1:]}?" for (task,) in rows if task})
    return [asked[at] for at in np.random.default_rng(seed).permutation(len(asked))[:count]]


async def answer_all(target: str, drafter: Path, database: Path, questions: Sequence[str]) -> None:
    """Ask each question in a conversation of its own, as the app does."""
    settings, opened = Settings(mode="edge", max_tokens=MOST_TOKENS), Drafter.load(drafter)
    with Store.open(database) as store:
        async with Served(target, drafter, None, 0.0) as served:
            source = AddressSource(served.url + OWN)
            async with Assistant(opened, store, source, settings, modes=("edge",), learnt=database.parent) as assistant:
                for number, question in enumerate(questions):
                    conversation = store.conversations.create("stream").id
                    async for _ in assistant.reply(conversation, question):
                        pass
                    if number % 50 == 49:
                        print(f"{number + 1} of {len(questions)} answered", file=sys.stderr, flush=True)


def learnt_from(lessons: Sequence[Lesson], vocabulary: int, seed: int) -> Correction | None:
    """The correction that these answers teach."""
    stopping = [one.samples for one in lessons[::STOPPING]]
    others = [one.samples for at, one in enumerate(lessons) if at % STOPPING]
    return learn(Samples.of(others), Samples.of(stopping), vocabulary, seed=seed)


def measure(learner: Learner, lessons: Sequence[Lesson], blocks: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """A row for each block of requests after the first."""
    vocabulary = len(learner.config.draft_vocabulary) or learner.config.vocabulary
    ordered = [lessons[at] for at in np.random.default_rng(seed).permutation(len(lessons))]
    oracle, rows = learnt_from(ordered, vocabulary, seed), []
    for begin, end in zip(blocks, [*blocks[1:], len(ordered)]):
        block = ordered[begin:end]
        started = time.process_time()
        correction = learnt_from(ordered[:begin], vocabulary, seed)
        seconds = time.process_time() - started
        tokens = sum(len(one.samples) for one in ordered[:begin])
        hits = {name: learner.hits(block, one) for name, one in
                (("as it came", None), ("learnt", correction), ("oracle", oracle))}  # fmt: skip
        judged = compare(hits["as it came"], hits["learnt"])
        rows.append(
            {"seed": seed, "requests": begin, "tokens": tokens, "cpu_seconds": seconds, "gain": judged.gain,
             "low": judged.low, "high": judged.high,
             **{name: {"tau": tau(each), "first": _right(each)} for name, each in hits.items()}}
        )  # fmt: skip
        print(_line(rows[-1]), flush=True)
    return rows


def _right(hits: Sequence[Hits]) -> float:
    return float(np.concatenate(hits).mean())


def _line(row: dict[str, Any]) -> str:
    told = "  ".join(
        f"{name} {row[name]['tau']:.2f} ({row[name]['first']:.1%})" for name in ("as it came", "learnt", "oracle")
    )
    spread = f"{row['gain']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%})"
    return f"seed {row['seed']}  after {row['requests']:4}  {told}  {spread}  {row['cpu_seconds']:.1f} s CPU"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=str(BUNDLED_TARGET))
    parser.add_argument("--drafter", type=Path, help="this drafter in place of a born one")
    parser.add_argument("--budget", type=int, default=BUDGET, help="bytes of the born drafter")
    parser.add_argument("--platform", default="windows")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="keep drafter and answers here, for another run")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        drafter = arguments.drafter or work / "drafter"
        if not drafter.exists():
            born(arguments.target, drafter, arguments.budget)
        database = work / "outrider.db"
        if not database.exists():
            asked = requests(arguments.platform, arguments.requests, 0)
            asyncio.run(answer_all(arguments.target, drafter, database, asked))
        with Store.open(database) as store:
            learner = Learner(store, drafter, work / "learnt")
            started = time.process_time()
            lessons = learner.lessons()
            reading, seen = time.process_time() - started, sum(len(one.samples) for one in lessons)
            print(f"{len(lessons)} answers, {seen} tokens, read in {reading:.0f} s of CPU", file=sys.stderr)
            blocks = [max(1, len(lessons) * share // 5) for share in range(1, 5)]
            rows = [row for seed in range(arguments.seeds) for row in measure(learner, lessons, blocks, seed)]
    if arguments.json:
        about = {"machine": machine_and_pair(), "budget": arguments.budget, "platform": arguments.platform,
                 "requests": len(lessons), "reading_cpu_seconds": reading, "tokens": seen, "rows": rows}  # fmt: skip
        arguments.json.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
