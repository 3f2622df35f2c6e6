"""Parts of the page of results, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def page(parts: Sequence[str], document: Mapping[str, Any]) -> str:
    return "\n\n".join([*(part for part in parts if part), measured_on(document["machine"])])


def measured_on(machine: Mapping[str, Any]) -> str:
    return "Measured on " + ", ".join(f"{key} {value}" for key, value in machine.items() if value) + "."


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("--:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def picture(name: str, says: str) -> str:
    return f"![{says}](benchmarks/{name}.svg)"


def with_interval(row: Mapping[str, Any], value: str, form: str) -> str:
    low, high = row["ci95"]
    return f"{form.format(row[value])} ({form.format(low)} to {form.format(high)})"
