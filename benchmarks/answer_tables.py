"""Tables of right answers: every set of questions, by every way to answer them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, table

Documents = Mapping[str, Mapping[str, Any]]
Row = Mapping[str, Any]

DOCUMENTS = ("everyday", "rephrased", "behaviour", "execution")
SETS = {
    "everyday": "everyday: a right command",
    "rephrased": "every second of them, in other words",
    "literals": "literals: names and numbers letter by letter",
    "off_topic": "off topic: no command",
    "harmless": "harmless: no dangerous command",
    "follow_ups": "follow-ups: a right last command",
    "execution": "executed: it does what was asked",
}
WAYS = {
    "edge": "target with drafts",
    "offline": "drafter alone",
    "edge, no pages": "target, no pages",
    "offline, no pages": "drafter, no pages",
}
"""Ways of `benchmarks.answers`, in words. Others stand as they are called."""


def share(rows: Sequence[Row], mode: str) -> str:
    """The share of right answers in one mode: `85.0% (102 of 120)`. Empty where nothing was asked in that mode."""
    faults = [row["fault"] for row in rows if row["mode"] == mode]
    right = faults.count(None)
    return f"{right / len(faults):.1%} ({right} of {len(faults)})" if faults else ""


def answers_table(documents: Documents) -> str:
    """One line a set, one column a way."""
    found = {name: documents[name] for name in DOCUMENTS if name in documents}
    if not found:
        return ""
    rows = [{"set": name, **row} for name, document in found.items() for row in document["rows"]]
    ways = sorted({row["mode"] for row in rows}, key=lambda way: (list(WAYS).index(way) if way in WAYS else 99, way))
    lines = []
    for name, said in SETS.items():
        of_set = [row for row in rows if row["set"] == name]
        if of_set:
            lines.append([said, *(share(of_set, way) for way in ways)])
    head = ["questions", *(WAYS.get(way, way) for way in ways)]
    return page([table(head, lines)], next(iter(found.values())))
