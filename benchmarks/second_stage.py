"""Tokens per second of the drafter alone, with and without the second stage, and proof that the text is the same.

    python -m benchmarks.second_stage [--prompts FILE] [--limit N] [--temperature T] [--seed N] [--json OUT]

The drafter answers each prompt alone, without memory, in four ways: without a second stage (`off`); with guesses from
the conversation itself (`conversation`); also from the answers to earlier prompts (`stored`), like an assistant that
was asked these questions one after another; and also from the drafter's datastore (`datastore`), which is what the app
does. The four take turns at going first. The pass over the prompt, which is the same for all, is not timed. The run
stops if two texts differ.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from app.drafting.retrieval import STORED_TOKENS
from app.prompts import read_prompts
from benchmarks.pair import machine_and_pair
from drafter.context import DraftContext
from drafter.ngram import BREAK, NGramIndex
from drafter.runtime import Drafter
from drafter.second_stage import Experience, SecondStage

REPOSITORY = Path(__file__).parents[1]
PROMPTS = REPOSITORY / "tests/data/heldout_pages.jsonl"
DRAFTER = REPOSITORY / "drafter/pretrained/shell-guide"
STAGES = ("off", "conversation", "stored", "datastore")


@dataclass
class StageTally:
    """What was timed of one stage, for each prompt."""

    tokens: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    steps: int = 0
    accepted: int = 0

    def row(self, stage: str, off: StageTally) -> dict[str, object]:
        """The row of a stage. `off`: the tally without a second stage. The interval is a bootstrap over prompts."""
        tokens, seconds = np.array(self.tokens), np.array(self.seconds)
        picks = np.random.default_rng(0).integers(len(tokens), size=(2000, len(tokens)))
        others = tokens[picks].sum(1) / seconds[picks].sum(1)
        plain = np.array(off.tokens)[picks].sum(1) / np.array(off.seconds)[picks].sum(1)
        speed = tokens.sum() / seconds.sum()
        return {
            "stage": stage,
            "tokens_per_second": round(speed, 1),
            "speedup": round(speed / (sum(off.tokens) / sum(off.seconds)), 3),
            "ci95": [round(float(bound), 3) for bound in np.quantile(others / plain, (0.025, 0.975))],
            "tokens_per_step": round(tokens.sum() / self.steps, 3),
            "accepted": self.accepted,
            "tokens": int(tokens.sum()),
            "prompts": len(tokens),
        }


@dataclass(frozen=True)
class Written:
    """An answer by the drafter alone. Timing begins after the first step."""

    tokens: list[int]
    timed: int
    steps: int
    seconds: float
    accepted: int


def write(context: DraftContext, stops: frozenset[int], temperature: float, seed: int, most: int) -> Written:
    """Write the answer to what is committed in `context`."""
    steps = context.generate(temperature, seed)
    tokens = next(steps)
    first, count = len(tokens), 0
    begun = time.perf_counter()
    while len(tokens) < most and not stops & set(tokens):
        tokens += next(steps)
        count += 1
    seconds = time.perf_counter() - begun
    end = min(most, next((at for at, token in enumerate(tokens, 1) if token in stops), most))
    accepted = 0 if context.second_stage is None else context.second_stage.accepted
    return Written(tokens[:end], len(tokens[first:end]), count, seconds, accepted)


def measure(
    drafter: Drafter, prompts: list[list[int]], temperature: float = 0.0, seed: int = 0, most: int = 160
) -> dict[str, StageTally]:
    """Answer all prompts with every stage. Raises `SystemExit` if the text depends on the stage."""
    tallies = {stage: StageTally() for stage in STAGES}
    stored, opening = NGramIndex(), drafter.text.answer_opening()
    texts = {"conversation": (), "stored": (stored,), "datastore": (stored, drafter.datastore())}
    experience = {stage: Experience() for stage in STAGES}
    for number, prompt in enumerate(prompts):
        written: dict[str, Written] = {}
        for turn in range(len(STAGES)):
            stage = STAGES[(number + turn) % len(STAGES)]
            second = None if stage == "off" else SecondStage(texts[stage], experience[stage])
            context = drafter.context(second)
            context.commit(prompt)
            written[stage] = write(context, drafter.text.stop_tokens, temperature, seed, most)
        for stage, answer in written.items():
            if answer.tokens != written["off"].tokens:
                raise SystemExit(f"prompt {number}: the text of `{stage}` is not that of `off`")
        if all(answer.timed for answer in written.values()):
            for stage, answer in written.items():
                tally = tallies[stage]
                tally.tokens.append(answer.timed)
                tally.seconds.append(answer.seconds)
                tally.steps += answer.steps
                tally.accepted += answer.accepted
        if len(stored.tokens) < STORED_TOKENS:
            stored.extend([*opening, *written["off"].tokens, BREAK])
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--drafter", type=Path, default=DRAFTER)
    parser.add_argument("--limit", type=int, default=200, help="prompts, spread evenly over the file")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    drafter = Drafter.load(arguments.drafter)
    if not drafter.independent_rows:
        raise SystemExit(f"{arguments.drafter} is quantised by step: export it again, so that it can check guesses.")
    asked = [prompt.turns[0] for prompt in read_prompts(arguments.prompts)]
    chosen = [asked[int(i)] for i in np.linspace(0, len(asked) - 1, min(arguments.limit, len(asked)))]
    prompts = [drafter.asked_as(question) for question in chosen]
    tallies = measure(drafter, prompts, arguments.temperature, arguments.seed)
    rows = [tally.row(stage, tallies["off"]) for stage, tally in tallies.items()]
    for row in rows:
        print(json.dumps(row), flush=True)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"machine": machine_and_pair(arguments.drafter), "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
