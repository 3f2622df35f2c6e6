"""Measurements of texts, faults and clients as tables of docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import page, table

Documents = Mapping[str, Mapping[str, Any]]
FAULTS = {"kill": "the verifier is killed (SIGKILL)", "silence": "the line swallows everything"}


def exactness_table(documents: Documents) -> str:
    if "exactness" not in documents:
        return ""
    rows = documents["exactness"]["rows"]
    lines = [[row["check"], f"{row['equal']} of {row['of']}", f"{row['tokens']:,}"] for row in rows]
    return page([table(["answers compared", "equal", "tokens"], lines)], documents["exactness"])


def handover_table(documents: Documents) -> str:
    """Seconds to the next word, for each fault and line."""
    if "handover" not in documents:
        return ""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in documents["handover"]["rows"]:
        groups.setdefault((row["fault"], row["line"]), []).append(row["seconds"])
    lines = [
        [FAULTS[fault], line, f"{statistics.median(seconds):.3f} s", f"{max(seconds):.3f} s", str(len(seconds))]
        for (fault, line), seconds in groups.items()
    ]
    return page([table(["fault", "line", "median", "slowest", "times"], lines)], documents["handover"])


def chaos_table(documents: Documents) -> str:
    """All runs together, in one row."""
    if "chaos" not in documents:
        return ""
    runs = [row for row in documents["chaos"]["rows"] if row["run"] != "all"]
    faults = sum(sum(row["faults"].values()) for row in runs)
    tokens, verified = (sum(row[name] for row in runs) for name in ("tokens", "verified"))
    lost = sum(bool(row["violations"]) for row in runs)
    line = [f"{len(runs)}", f"{faults}", f"{tokens:,}", f"{verified:,}", f"{lost}"]
    head = ["runs", "faults", "tokens", "of them checked", "runs that lost or doubled one"]
    return page([table(head, [line])], documents["chaos"])


def clients_table(documents: Documents) -> str:
    """What each client gets, by the parameter."""
    if "clients" not in documents:
        return ""
    rows = documents["clients"]["rows"]
    head = ["", *(f"{row['client']} {row['version']}" for row in rows)]
    lines = [[case, *(row["results"][case] for row in rows)] for case in rows[0]["results"]]
    return page([table(head, lines)], documents["clients"])
