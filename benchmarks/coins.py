"""What it is worth that a drafter knows the coins by which the target draws, at temperatures above 0.

    python -m benchmarks.coins [--limit 60] [--json OUT]

The bundled pair, the target in 8 bits on ONNX Runtime, answers everyday questions with a seed each: with trees of the
tokens that are likeliest, and with trees of those that will be drawn, as far as the drafter can tell. Both give the
same text. `gain` is that of tau, with a 95 % interval by a bootstrap over the questions that both answered.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.everyday import read_questions
from benchmarks.pair import machine_and_pair
from benchmarks.retrieval import DATA
from drafter.runtime import Drafter
from drafter.search import Pace
from models.engines.choice import EngineOptions, graph_of, onnx_engine
from models.engines.engine import Engine
from remote.verifier.making.measure import evenly, measure

TEMPERATURES = (0.7, 1.0)
PACES = {"16 nodes": Pace(8, 4, 16), "60 nodes": Pace(8, 8, 60)}
MOST_TOKENS = 64


def compared(
    engine: Engine, drafter: Drafter, prompts: list[list[int]], temperature: float, pace: Pace
) -> dict[str, Any]:
    """Tau without and with the coins, and the gain."""
    plain, coins = (
        # The opening round of an answer has no draft, so both ways count the same answers.
        np.array(
            [
                (sum(gained), len(gained))
                for gained in measure(
                    engine, drafter, prompts, pace, MOST_TOKENS, temperature=temperature, knows_coins=knows
                ).gained
            ]
        )
        for knows in (False, True)
    )
    picks = np.random.default_rng(0).integers(len(plain), size=(2000, len(plain)))
    gains = tau(coins[picks]) / tau(plain[picks]) - 1
    return {
        "plain": round(float(tau(plain)), 3),
        "coins": round(float(tau(coins)), 3),
        "gain": round(float(tau(coins) / tau(plain)) - 1, 4),
        "ci95": [round(float(bound), 4) for bound in np.quantile(gains, (0.025, 0.975))],
        "answers": len(plain),
    }


def tau(rounds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Tokens a round, of (..., answers, 2): tokens and rounds of each answer."""
    tokens, count = np.moveaxis(rounds.sum(-2), -1, 0)
    ratio: NDArray[np.float64] = tokens / count
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    drafter, graph = Drafter.load(BUNDLED_DRAFTER), graph_of(str(BUNDLED_TARGET), EngineOptions("onnx"))
    assert graph is not None
    _, engine = onnx_engine(graph, BUNDLED_DRAFTER)
    asked = evenly([one.prompt for one in read_questions(DATA / "everyday.jsonl")], arguments.limit)
    prompts = [drafter.asked_as(question) for question in asked]
    rows = []
    for temperature in TEMPERATURES:
        for name, pace in PACES.items():
            row = {"temperature": temperature, "trees": name}
            rows.append(row | compared(engine, drafter, prompts, temperature, pace))
            print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine_and_pair(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
