"""Questions of everyday talk, for a model that is to keep its English while it learns about shells.

    python -m recipes.shell_guide.ordinary --count 9000 --out runs/talk.jsonl

Each line is `{"turns": [...]}`: one question, or one and another that fits whatever was answered. The model that is to
be trained answers them itself, before its training and without a system message. All lines differ.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from recipes.shell_guide.conversations import evaluation_questions
from recipes.shell_guide.everyday import normalise
from recipes.shell_guide.grammar.talk import ORDINARY, read_file

FOLLOWED = 0.22
"""Share of conversations with a second question."""
CARELESS = 0.3
"""Share of questions typed without capitals and without the last mark."""

_SENTENCE = re.compile(r"([^.?!:\"\n]+)[.?]")
_ASKS = re.compile(r"(how|what|which|where|when|why|who|is|are|can|could|do|does|should|would) ", re.IGNORECASE)
_DEMANDS = re.compile(r"(explain|tell|give|find|show|write) ", re.IGNORECASE)


class Ordinary:
    """An endless source of ordinary questions. What is drawn depends on (seed, index) alone."""

    def __init__(self, seed: int) -> None:
        kinds = read_file(ORDINARY)
        self._first = [one for one in kinds if one.kind != "after"]
        (self._after,) = (one for one in kinds if one.kind == "after")
        self._excluded = evaluation_questions()
        self._seed = seed

    def draw(self, index: int) -> list[str]:
        """The questions of conversation number `index`, none of which the target is measured on."""
        rng = np.random.default_rng([self._seed, index])
        while True:
            turns = [_typed(self._first[int(rng.integers(len(self._first)))].draw(rng)[0], rng)]
            if rng.random() < FOLLOWED:
                turns.append(_typed(self._after.draw(rng)[0], rng))
            if not any(normalise(turn) in self._excluded for turn in turns):
                return turns

    def different(self, count: int) -> Iterator[list[str]]:
        """The first `count` conversations that differ from those before them."""
        seen: set[str] = set()
        index = 0
        while len(seen) < count:
            turns = self.draw(index)
            index += 1
            if (key := "\n".join(map(normalise, turns))) not in seen:
                seen.add(key)
                yield turns


def _typed(question: str, rng: np.random.Generator) -> str:
    """A sentence as people type it: with the mark that belongs to it and a capital, or carelessly with neither.

    A question with a text or a program in it stays as it is.
    """
    if "\n" in question:
        return question
    if sentence := _SENTENCE.fullmatch(question):
        mark = "?" if _ASKS.match(question) else "." if _DEMANDS.match(question) else question[-1]
        question = sentence[1] + mark
    if rng.random() >= CARELESS:
        return question[:1].upper() + question[1:]
    question = re.sub(r"\bI\b", "i", question)
    return (question[:1] if question[1:2].isupper() else question[:1].lower()) + question[1:].rstrip(".?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with arguments.out.open("w", encoding="utf-8") as file:
        for turns in Ordinary(arguments.seed).different(arguments.count):
            file.write(json.dumps({"turns": turns}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
