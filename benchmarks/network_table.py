"""What the network benchmark measured, as tables of docs/benchmarks.md: speeds, standings, bytes and first words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, picture, table
from benchmarks.standings import GOALS, Standing, forward, standings

SHOWN = ("edge", "hosted", "auto", "plain", "eagle-2", "moa-float")
"""Modes, besides the fastest fixed one."""
LABELS = {"eagle-2": "EAGLE-2", "moa-float": "MoA in float"}


def network_table(document: Mapping[str, Any]) -> str:
    """For each pacing: speeds and passes, how modes stand against each other, and bytes and first words."""
    groups: dict[float, list[Standing]] = {}
    for standing in standings(document["rows"]):
        groups.setdefault(standing.paced_ms, []).append(standing)
    parts = [picture("network", "Tokens per second of each mode, by line")]
    for paced_ms, group in groups.items():
        modes = [mode for mode in SHOWN if any(mode in each.rows for each in group)]
        parts.append(f"Tokens per second, and the target's forward passes per 100 tokens; {forward(paced_ms)}:")
        lines = [
            [each.profile, *(_speed(each, mode) for mode in modes), _speed(each, each.best_fixed, named=True)]
            for each in group
        ]
        parts.append(table(["line", *(LABELS.get(mode, mode) for mode in modes), "best fixed"], lines))
        head = [
            f"auto of the best (goal {GOALS['auto']})",
            "auto chose",
            f"edge of the best fixed (goal {GOALS['fixed']:g})",
        ]
        head += [f"edge over EAGLE-2 (goal {GOALS['speed']})", f"in tau (goal {GOALS['tau']})"]
        lines = [
            [
                each.profile,
                _ratio(each.ratio("auto", each.best)),
                ", ".join(each.rows["auto"]["chose"]) if "auto" in each.rows else "–",
                _ratio(each.ratio("edge", each.best_fixed)),
                _ratio(each.ratio("edge", "eagle-2")),
                _ratio(each.tau_ratio("edge", "eagle-2")),
            ]
            for each in group
        ]
        parts.append(table(["line", *head], lines))
        parts.append("Bytes up and down per token, and seconds to the first drafted and the first verified word:")
        told = [mode for mode in ("edge", "hosted", "plain") if mode in modes]
        head = [f"{mode}, {what}" for mode in told for what in ("bytes", "seconds")]
        lines = [[each.profile, *(cell for mode in told for cell in _traffic(each, mode))] for each in group]
        parts.append(table(["line", *head], lines))
    if counted := _counted(document["rows"]):
        parts.append(counted)
    said = f"{document['plan']['limit']} prompts, answers of at most {document['plan']['max_tokens']} tokens."
    return page([*parts, said], document)


def _speed(standing: Standing, mode: str | None, *, named: bool = False) -> str:
    if mode not in standing.rows:
        return "–"
    said = f"{standing.rate(mode):.1f}, {standing.rows[mode]['passes_per_100_tokens']:.0f}"
    return f"{mode}: {said}" if named else said


def _traffic(standing: Standing, mode: str) -> tuple[str, str]:
    if mode not in standing.rows:
        return "–", "–"
    row = standing.rows[mode]
    seconds = (row["first_drafted_seconds"], row["first_verified_seconds"])
    times = ", ".join("–" if each is None else f"{each:.2f}" for each in seconds)
    return f"{row['bytes_up']:.0f}, {row['bytes_down']:.0f}", times


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was not verified to its end."""
    found = [row for row in rows if row["unverified_tokens"] or row["failed"]]
    said = [
        f"{row['profile']}, {row['mode']}, {forward(row['paced_ms'])}: {row['unverified_tokens']} of {row['tokens']} "
        f"tokens drafted alone, {row['failed']} of {row['prompts']} answers broken off"
        for row in found
    ]
    return "\n".join(["Not verified to the end:", "", *(f"- {line}" for line in said)]) if said else ""


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
