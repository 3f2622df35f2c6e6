"""What a drafter gains by learning from its user, on requests that it has never seen.

    python -m benchmarks.learning [--target M] [--budget SIZE] [--platform NAME] [--requests N] [--seeds N] [--json OUT]

The drafter is *born*: made of the target's own layers, without training (`outrider drafter make`). The smaller the
budget, the less it knows. The requests are tasks of one platform of the pages, in a random order. The app sends them,
one after another, to a real verifier over loopback, at temperature 0, and keeps what `outrider learn` needs. Then the
same answers are drafted again with the memory that had arrived, in a different order for each seed:

- `as it came`: the drafter as it was made
- `correction`: with a correction of the logits, learnt from the requests before a block, and judged on that block
- `layers`: its attention layers trained on the same requests, as `outrider learn --deep` does
- `oracle`: its attention layers trained on all requests, also on those of the block

Tau is that of chains of 8 guesses. `first` is the share of first guesses that are right. `CPU` is the learning alone. A
version goes live only if it is certainly better (`app/drafting/learning.py`); here each one is shown.

Then, with what the first seed has learnt before its last block: other traffic (tasks of `--other` pages), and guesses
without any memory, as when the line is down.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.config import Settings
from app.drafting.learning import Learner, Lesson
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.bundled import DRAFTER, TARGET, write
from benchmarks.served import OWN, Served
from drafter.learning.comparison import Hits, compare, tau
from drafter.learning.correction import Rates, learn
from drafter.learning.samples import Round, Samples
from drafter.questions import usual_questions
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from drafter.step import Correction
from drafter.training.adaptation import adapt
from models.config import GRAPH
from models.guide.pages import FILE, Pages
from remote.verifier.making.maker import MakingTask
from remote.verifier.making.maker_worker import newborn
from storage import Store

WAYS = ("as it came", "correction", "layers", "oracle")
MOST_TOKENS = 64
BUDGET = 6_000_000
"""Bytes of a born drafter, which is as small as the bundled target allows."""
OTHERS = 100
"""Requests of the other traffic."""
STOPPING = 5
"""One answer in this many says when to stop."""


@dataclass(frozen=True)
class Stream:
    """Answers to learn from, and what is learnt from them. `work`: folder of trained graphs."""

    learner: Learner
    work: Path

    def correction(self, lessons: Sequence[Lesson], seed: int) -> Correction | None:
        """The correction that these answers teach."""
        config = self.learner.config
        learnt, stopping = _parts(lessons)
        samples, judged = (Samples.of([one.samples for one in part]) for part in (learnt, stopping))
        return learn(samples, judged, len(config.draft_vocabulary) or config.vocabulary, Rates(), seed)

    def layers(
        self, lessons: Sequence[Lesson], seed: int, way: str = "layers", *, judged: Sequence[Lesson] = ()
    ) -> tuple[Path, float]:
        """The graph that these answers train, and the CPU seconds of it. Each is trained once.

        `judged`: answers that say when to stop, instead of a part of these.
        """
        graph = self.work / f"{way}-{seed}-{len(lessons)}.onnx"
        told = graph.with_suffix(".json")
        if not told.exists():
            learnt, stopping = (lessons, judged) if judged else _parts(lessons)
            started = time.process_time()
            parts = self.learner.replayed(learnt), (), self.learner.replayed(stopping)
            own = self.learner.folder / GRAPH
            if not adapt(own, self.learner.config, *parts, graph, seed=seed):
                graph.write_bytes(own.read_bytes())
            told.write_text(json.dumps(time.process_time() - started))
        return graph, json.loads(told.read_text())

    def rows(
        self, lessons: Sequence[Lesson], blocks: Sequence[int], seed: int, oracle: Path
    ) -> Iterator[dict[str, Any]]:
        """A row for each block of requests after the first."""
        ordered = in_order(lessons, seed)
        for begin, end in zip(blocks, [*blocks[1:], len(ordered)]):
            block = ordered[begin:end]
            drafts: dict[str, tuple[Correction | None, Path | None]] = {"as it came": (None, None)}
            seconds: dict[str, float] = {}
            started = time.process_time()
            drafts["correction"] = self.correction(ordered[:begin], seed), None
            seconds["correction"] = time.process_time() - started
            graph, seconds["layers"] = self.layers(ordered[:begin], seed)
            drafts |= {"layers": (None, graph), "oracle": (None, oracle)}
            hits = {name: self.learner.hits(block, *one) for name, one in drafts.items()}
            judged = compare(hits["as it came"], hits["layers"])
            row = {
                "seed": seed, "requests": begin, "tokens": sum(len(one.samples) for one in ordered[:begin]),
                "cpu_seconds": seconds,
                "gain": judged.gain, "low": judged.low, "high": judged.high,
                **{name: figures(each) for name, each in hits.items()},
            }  # fmt: skip
            print(_line(row), flush=True)
            yield row

    def besides(
        self, ways: Mapping[str, Path | None], new: Sequence[Lesson], other: Sequence[Lesson]
    ) -> dict[str, Any]:
        """For each graph: guesses on other traffic, and guesses on new requests without any memory."""
        rows = {}
        for name, graph in ways.items():
            replayer = self.learner.replayer(graph).corrected(None)
            alone = [replayer.samples(one.tokens, [Round(one.rounds[0].length, 0)], ()).hits for one in new]
            whole = sum(bool(hits.all()) for hits in alone) / len(alone)
            rows[name] = {"other": figures(self.learner.hits(other, None, graph)), "alone": figures(alone),
                          "alone_whole": whole}  # fmt: skip
        before, after = (self.learner.hits(other, None, graph) for graph in ways.values())
        judged = compare(before, after)
        return {"ways": rows, "other_gain": [judged.gain, judged.low, judged.high]}


def requests(platform: str, count: int, seed: int) -> list[str]:
    """Tasks of a platform's pages as questions, in a random order."""
    pages = Pages.open(DRAFTER / FILE)
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
        async with Served(target, drafter, 0.0) as served:
            source = AddressSource(served.url + OWN)
            async with Assistant(
                store, Options(Drafters(opened), source, settings, modes=("edge",), learnt=database.parent)
            ) as assistant:
                for number, question in enumerate(questions):
                    async for _ in assistant.reply(store.conversations.create("stream").id, question):
                        pass
                    if number % 50 == 49:
                        print(f"{number + 1} of {len(questions)} answered", file=sys.stderr, flush=True)


def _parts(lessons: Sequence[Lesson]) -> tuple[list[Lesson], list[Lesson]]:
    """Split answers into those to learn from and those that say when to stop."""
    return [one for at, one in enumerate(lessons) if at % STOPPING], list(lessons[::STOPPING])


def in_order(lessons: Sequence[Lesson], seed: int) -> list[Lesson]:
    """The answers in the order of a seed."""
    return [lessons[at] for at in np.random.default_rng(seed).permutation(len(lessons))]


def figures(hits: Sequence[Hits]) -> dict[str, float]:
    """Tau of chains, and the share of first guesses that are right."""
    return {"tau": tau(hits), "first": float(np.concatenate(hits).mean())}


def _line(row: dict[str, Any]) -> str:
    told = "  ".join(f"{name} {row[name]['tau']:.2f} ({row[name]['first']:.1%})" for name in WAYS)
    spread = f"{row['gain']:+.1%} ({row['low']:+.1%} to {row['high']:+.1%})"
    return f"seed {row['seed']}  after {row['requests']:4}  {told}  layers {spread}  {row['cpu_seconds']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=str(TARGET))
    parser.add_argument("--budget", type=int, default=BUDGET, help="bytes of the born drafter")
    parser.add_argument("--platform", default="windows")
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--other", default="common", help="platform of the other traffic")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        drafter, making = work / "drafter", str(work / "making")
        task = MakingTask(arguments.target, str(drafter), making, arguments.budget, tuple(usual_questions()))
        print(newborn(task, lambda _: None), file=sys.stderr)
        asked, others = requests(arguments.platform, arguments.requests, 0), requests(arguments.other, OTHERS, 0)
        for name, questions in {"outrider": asked, "other": others}.items():
            (work / name).mkdir()
            asyncio.run(answer_all(arguments.target, drafter, work / name / "outrider.db", questions))
        write(arguments.json, **measured(arguments, work, drafter))


def measured(arguments: argparse.Namespace, work: Path, drafter: Path) -> dict[str, Any]:
    """All figures, from the answers in `work`."""
    with Store.open(work / "outrider/outrider.db") as store, Store.open(work / "other/outrider.db") as other:
        learner = Learner(store, drafter, work / "learnt")
        started = time.process_time()
        lessons = learner.lessons()
        reading, seen = time.process_time() - started, sum(len(one.samples) for one in lessons)
        print(f"{len(lessons)} answers, {seen} tokens, read in {reading:.0f} s of CPU", file=sys.stderr)
        blocks = [max(1, len(lessons) * fifths // 5) for fifths in range(1, 5)]
        stream = Stream(learner, work)
        ordered = in_order(lessons, 0)
        oracle, _ = stream.layers(ordered, 0, "oracle", judged=ordered[::STOPPING])
        rows = [row for seed in range(arguments.seeds) for row in stream.rows(lessons, blocks, seed, oracle)]
        new = ordered[blocks[-1] :]
        ways = {"as it came": None, "layers": stream.layers(ordered[: blocks[-1]], 0)[0]}
        besides = stream.besides(ways, new, Learner(other, drafter, work / "learnt").lessons())
    about = {"budget": arguments.budget, "platform": arguments.platform, "requests": len(lessons)}
    return {**about, "reading_cpu_seconds": reading, "rows": rows, "besides": besides}


if __name__ == "__main__":
    main()
