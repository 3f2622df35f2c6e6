"""Whether several drafters, one for each topic, are worth more than one that learns from everything.

    python -m benchmarks.topics [--target M] [--budget SIZE] [--platforms A,B] [--requests N] [--json OUT]

The MoA paper routes requests to drafters by topic. Here a topic is a platform of the pages. A born drafter answers the
same number of requests of each; of these, the first four fifths train its layers, and the last fifth judges:

- `as it came`: the drafter as it was made
- `one`: its layers trained on the requests of all topics, taken in turn, as `outrider learn --deep` does
- `own`: trained on the requests of the judged topic alone. That is the best that any routing could do, because it
  never takes the wrong one
- `other`: trained on the other topic alone, which is what a wrong route costs

Tau is that of chains of 8 guesses; the gain of `own` over `one` has the 95 % interval of a paired bootstrap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.config import BUNDLED_TARGET
from app.drafting.learning import Learner, Lesson
from benchmarks.learning import Stream, figures, in_order
from benchmarks.pair import machine_and_pair
from benchmarks.requests import BUDGET, Rows, answer_all, born, requests
from drafter.learning.comparison import compare
from storage import Store

PLATFORMS = ("windows", "osx")
REQUESTS = 320


def answered(target: str, work: Path, platforms: Sequence[str], count: int) -> None:
    """Ask the requests of each platform, in a database of its own. Those of an earlier run are kept."""
    for name in platforms:
        if not (work / f"{name}.db").exists():
            part = work / f"{name}-part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            asyncio.run(answer_all(target, work / "drafter", part / f"{name}.db", requests(name, count, 0)))
            (part / f"{name}.db").replace(work / f"{name}.db")


def measured(work: Path, platforms: Sequence[str]) -> list[Rows]:
    """A row for each platform, from the answers in `work`."""
    learnt: dict[str, list[Lesson]] = {}
    judged: dict[str, list[Lesson]] = {}
    for name in platforms:
        with Store.open(work / f"{name}.db") as store:
            lessons = in_order(Learner(store, work / "drafter", work / "learnt").lessons(), 0)
        cut = len(lessons) * 4 // 5
        learnt[name], judged[name] = lessons[:cut], lessons[cut:]
    with Store.open(work / f"{platforms[0]}.db") as store:
        learner = Learner(store, work / "drafter", work / "learnt")
        mixed = [one for row in zip(*learnt.values()) for one in row]
        graphs = {name: _trained(learner, work / name, lessons) for name, lessons in {**learnt, "all": mixed}.items()}
        rows = []
        for name, other in zip(platforms, reversed(platforms)):
            ways = {"as it came": None, "one": graphs["all"], "own": graphs[name], "other": graphs[other]}
            hits = {way: learner.hits(judged[name], None, graph) for way, graph in ways.items()}
            gain = compare(hits["one"], hits["own"])
            row = {
                "topic": name, "learnt": len(learnt[name]), "judged": len(judged[name]),
                **{way: figures(each) for way, each in hits.items()},
                "own_over_one": [gain.gain, gain.low, gain.high],
            }  # fmt: skip
            print(row, flush=True)
            rows.append(row)
    return rows


def _trained(learner: Learner, folder: Path, lessons: Sequence[Lesson]) -> Path:
    folder.mkdir(exist_ok=True)
    return Stream(learner, folder).layers(lessons, 0)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=str(BUNDLED_TARGET))
    parser.add_argument("--budget", type=int, default=BUDGET, help="bytes of the born drafter")
    parser.add_argument("--platforms", default=",".join(PLATFORMS), help="two of them")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of each platform")
    parser.add_argument("--work", type=Path, help="keep drafter, answers and graphs here, for another run")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    platforms = arguments.platforms.split(",")
    if len(platforms) != 2:
        parser.error("--platforms takes two names, as in windows,osx")
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "drafter").exists():
            born(arguments.target, work / "drafter", arguments.budget)
        answered(arguments.target, work, platforms, arguments.requests)
        rows = measured(work, platforms)
    document = {"machine": machine_and_pair(), "budget": arguments.budget, "rows": rows}
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
