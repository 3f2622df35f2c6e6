"""Parts of the results page, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.pair import FORMER


def page(parts: Sequence[str], document: Mapping[str, Any]) -> str:
    """The parts of a result, and what it was measured on and with."""
    former = " These figures are of the pair that was bundled before." if document.get(FORMER) else ""
    return "\n\n".join([*(part for part in parts if part), measured_on(document["machine"]) + former])


def measured_on(machine: Mapping[str, Any]) -> str:
    """Processor, cores and system, then the versions that a figure can depend on."""
    cores, torch = machine["cores"], str(machine.get("torch", ""))
    where = [machine["processor"], f"{cores} core{'s' * (cores != 1)}", "no GPU" * torch.endswith("+cpu")]
    where.append(machine.get("system", ""))
    told = ("processor", "cores", "system", "platform")
    versions = [f"{name} {value}" for name, value in machine.items() if name not in told and value]
    return "Measured on " + ", ".join(part for part in (*where, *versions) if part) + "."


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("--:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def picture(name: str, says: str) -> str:
    return f"![{says}](benchmarks/{name}.svg)"


def with_interval(row: Mapping[str, Any], value: str, form: str) -> str:
    low, high = row["ci95"]
    return f"{form.format(row[value])} ({form.format(low)} to {form.format(high)})"
