"""What drafters guess that nobody trained: five sizes for each target, beside one that was trained.

    python -m benchmarks.born [--target NAME=DIR ...] [--trained NAME=DIR ...] [--questions N] [--json OUT]

Each drafter is made as `outrider serve` and `outrider drafter make` do it (remote/verifier/making/birth.py), within a
budget: the least that the target allows, the most that a drafter of it can use, and three between. All of them, and the
trained one, then draft the same answers of the target, greedily: everyday questions (tests/data/everyday.jsonl), as
the bundled pair's recipe asks them. Tau is that of trees of depth 8. First guesses are counted by the tokens since the
newest memory, which is that of the prompt. Bytes are what a device fetches; seconds are what making it took.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.answers import prompt_of
from benchmarks.everyday import QUESTIONS, read_questions
from benchmarks.pair import machine_and_pair
from drafter.delivery import delivered_bytes
from drafter.model import MemoryEncoder
from drafter.questions import usual_questions
from drafter.runtime import Drafter
from drafter.training.birth import Shape, graph_bytes, shapes_within
from drafter.training.target import drafter_config
from models.engines.target import Target, load_target
from models.engines.torch_engine import TorchEngine
from remote.verifier.making.maker_worker import made_at_once
from remote.verifier.making.measure import agreement_by_staleness, evenly, measure

SIZES = 5
ANSWER_TOKENS = 64
SPARE = 1.02
"""The bytes of a graph are known within a few percent."""


def budgets(target: Target) -> list[int]:
    """Five budgets in bytes, from the least that a drafter of this target takes to the most that one can use."""
    config = drafter_config(target.model, target.name)
    least = graph_bytes(config, Shape(0, 0, min(config.vocabulary, 8192), "nbits4"))
    most = max(graph_bytes(config, shape) for shape in shapes_within(target.model, target.name, 1 << 62))
    return [int(size * SPARE) for size in np.geomspace(least, most, SIZES)]


def figures(target: Target, folder: Path, prompts: list[list[int]]) -> dict[str, Any]:
    """How well the drafter in a folder guesses the target's answers."""
    drafter, engine = Drafter.load(folder), TorchEngine(target.model, MemoryEncoder.load(folder))
    return {
        "bytes": delivered_bytes(folder),
        "scheme": drafter.config.scheme,
        "layers": drafter.config.first_layers + drafter.config.inference_layers + 2,
        "tau": measure(engine, drafter, prompts, most=ANSWER_TOKENS).result().tau,
        "agreement": agreement_by_staleness(engine, drafter, prompts, ANSWER_TOKENS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", metavar="NAME=DIR", help="default: the bundled target")
    parser.add_argument("--trained", action="append", metavar="NAME=DIR", help="default: the bundled drafter")
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    targets = dict(one.split("=", 1) for one in arguments.target or [f"bundled={BUNDLED_TARGET}"])
    trained = dict(one.split("=", 1) for one in arguments.trained or [f"bundled={BUNDLED_DRAFTER}"])
    asked = [question.prompt for question in evenly(read_questions(QUESTIONS), arguments.questions)]
    rows: list[dict[str, Any]] = []

    def add(name: str, way: str, seconds: float | None, found: dict[str, Any], of: Target) -> None:
        rows.append({"target": name, "target_layers": of.model.config.num_hidden_layers,
                     "way": way, "seconds": seconds, **found})  # fmt: skip
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)

    for name, folder in targets.items():
        target = load_target(folder)
        prompt = prompt_of(BUNDLED_DRAFTER, Path(folder))
        assert prompt is not None
        with tempfile.TemporaryDirectory() as scratch:
            for number, budget in enumerate(budgets(target)):
                out = Path(scratch) / str(number)
                newborn = made_at_once(folder, out, usual_questions(), budget)
                text = Drafter.load(out).text
                prompts = [text.render(prompt.asked_as([question])) for question in asked]
                add(name, "born", newborn.seconds, figures(target, out, prompts), target)
            if name in trained:
                add(name, "trained", None, figures(target, Path(trained[name]), prompts), target)
    if arguments.json:
        about = {"machine": machine_and_pair(), "questions": len(asked), "rows": rows}
        arguments.json.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
