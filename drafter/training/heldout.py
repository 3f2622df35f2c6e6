"""Questions that a drafter is measured on. They are set aside in the work folder before it learns from the others.

The file is a prompt file like any other. It stays the same when training runs again, also with more questions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from drafter.training.processes import processes

ANSWERS, HELD_OUT = "answers.jsonl", "held_out.jsonl"
"""Files of the work folder."""
MOST, SHARE = 64, 10
"""Most conversations that are set aside, and the largest share of all: one in ten."""
FEWEST = 8
"""With fewer, tau would say nothing, so none is set aside."""


def hold_out(questions: Sequence[Sequence[str]], work: Path) -> tuple[list[Sequence[str]], list[str]]:
    """The conversations to learn from, and the first questions of those that are set aside.

    Only questions that are asked once are set aside, spread evenly. Once `work` has answers the choice stays, because
    any other question may have been learnt from. If there are several processes, the main one writes.
    """
    path = work / HELD_OUT
    if (work / ANSWERS).exists():
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        held = [json.loads(line)["prompt"] for line in lines]
    else:
        held = _choose(questions)
        if processes().is_main_process:
            work.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps({"prompt": question}) + "\n" for question in held)
            path.write_text(text, encoding="utf-8")
    aside = {_plain(question) for question in held}
    return [turns for turns in questions if aside.isdisjoint(map(_plain, turns))], held


def _choose(questions: Sequence[Sequence[str]]) -> list[str]:
    asked = Counter(_plain(question) for turns in questions for question in turns)
    once = [turns[0] for turns in questions if asked[_plain(turns[0])] == 1]
    count = min(MOST, len(questions) // SHARE, len(once))
    return once[:: len(once) // count][:count] if count >= FEWEST else []


def _plain(question: str) -> str:
    return " ".join(question.split()).casefold()
