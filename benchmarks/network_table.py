"""Measurements of the network benchmark as tables of docs/benchmarks.md: speeds, ratios, bytes, dimmed text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, picture, table
from benchmarks.standings import GOALS, Standing, forward, standings

SHOWN = ("edge", "hosted", "auto", "plain", "eagle-2", "moa-float")
"""Modes in the table, besides the fastest fixed one."""
FEW = 8
"""Nodes a round below which a mode hardly drafts."""
LABELS = {"eagle-2": "EAGLE-2 in float", "moa-float": "MoA in float"}


def network_table(document: Mapping[str, Any]) -> str:
    """For each pacing: speeds, comparisons of modes, and passes, bytes and first words."""
    groups: dict[float, list[Standing]] = {}
    for standing in standings(document["rows"]):
        groups.setdefault(standing.paced_ms, []).append(standing)
    parts = [picture("network", "Tokens per second of each mode, by line")]
    for paced_ms, group in groups.items():
        modes = [mode for mode in SHOWN if any(mode in each.rows for each in group)]
        parts.append(f"Tokens per second, with their intervals; {forward(paced_ms)}:")
        lines = [
            [each.profile, *(_speed(each, mode) for mode in modes), _speed(each, each.best_fixed, named=True)]
            for each in group
        ]
        parts.append(table(["line", *(LABELS.get(mode, mode) for mode in modes), "best fixed"], lines))
        parts.append(_against(group))
        parts.append(
            "Forward passes per 100 tokens; bytes up, bytes down per token; seconds to the first drafted, checked word:"
        )
        told = [mode for mode in ("edge", "hosted", "auto", "plain", "eagle-2") if mode in modes]
        head = [LABELS.get(mode, mode) for mode in told]
        parts.append(table(["line", *head], [[each.profile, *(_cost(each, mode) for mode in told)] for each in group]))
    if counted := _counted(document["rows"]):
        parts.append(counted)
    return page([*parts, _asked(document)], document)


def equals_table(document: Mapping[str, Any]) -> str:
    """MoA and EAGLE-2 that learnt the same on equal terms: speed, tau and bytes on each line."""
    parts, modes = [], ("moa-float", "eagle-2")
    found = standings(document["rows"])
    head = ["line", "MoA, tokens a second", "EAGLE-2, tokens a second", f"MoA over EAGLE-2 (goal {GOALS['speed']})"]
    head += ["nodes a round", "tau of both", f"in tau (goal {GOALS['tau']})", "bytes down per token"]
    for paced_ms in sorted({each.paced_ms for each in found}):
        lines = []
        for each in found:
            if each.paced_ms != paced_ms or not all(mode in each.rows for mode in modes):
                continue
            nodes, taus, down = ([each.rows[mode][part] for mode in modes] for part in ("nodes", "tau", "bytes_down"))
            line = [each.profile, *(_speed(each, mode) for mode in modes), _ratio(each.ratio(*modes))]
            line += [_both(nodes, "{:.0f}"), _both(taus, "{:.2f}")]
            # Where one of them hardly drafts, as rounds without are faster there, its tau says nothing of it.
            line.append(_ratio(each.tau_ratio(*modes) if min(nodes) >= FEW else None))
            lines.append([*line, _both(down, "{:.0f}")])
        parts += [f"{forward(paced_ms).capitalize()}:", table(head, lines)]
    if counted := _counted(document["rows"]):
        parts.append(counted)
    return page([*parts, _asked(document)], document)


def withdrawn_table(document: Mapping[str, Any]) -> str:
    """The share of dimmed text that was withdrawn, of what was decided, and how much was never decided."""
    found = [each for each in standings(document["rows"]) if any("dimmed" in row for row in each.rows.values())]
    parts = []
    for paced_ms in sorted({each.paced_ms for each in found}):
        group = [each for each in found if each.paced_ms == paced_ms]
        modes = [mode for mode in ("edge", "hosted", "auto") if any(mode in each.rows for each in group)]
        parts.append(f"Withdrawn, of the dimmed characters that a verdict decided; {forward(paced_ms)}:")
        parts.append(
            table(["line", *modes], [[each.profile, *(_withdrawn(each, mode) for mode in modes)] for each in group])
        )
        parts.append(f"Tokens per second in the same run; {forward(paced_ms)}:")
        parts.append(
            table(["line", *modes], [[each.profile, *(_speed(each, mode) for mode in modes)] for each in group])
        )
    return page([*parts, _asked(document)], document)


def _asked(document: Mapping[str, Any]) -> str:
    return f"{document['plan']['limit']} prompts, answers of at most {document['plan']['max_tokens']} tokens."


def _withdrawn(standing: Standing, mode: str) -> str:
    dimmed = standing.rows[mode].get("dimmed") if mode in standing.rows else None
    if dimmed is None:
        return "–"
    shown, decided = dimmed["shown"], dimmed["confirmed"] + dimmed["withdrawn"]
    if dimmed["share"] is None:
        return f"none of {shown:,} decided" if shown else "nothing dimmed"
    low, high = dimmed["ci95"]
    said = f"{dimmed['share']:.1%} ({low:.1%} to {high:.1%}) of {decided:,}"
    return f"{said}; {1 - decided / shown:.0%} of {shown:,} never decided" if shown > 1.01 * decided else said


def _against(group: Sequence[Standing]) -> str:
    """Ratios of checked tokens a second.

    The paper's goals stand only where both drafters run under the same conditions.
    """
    alike = any("moa-float" in each.rows and "eagle-2" in each.rows for each in group)
    head = ["line", f"auto of the best (goal {GOALS['auto']})", "auto chose"]
    head += [f"edge of the best fixed (goal {GOALS['fixed']:g})"]
    if alike:
        head += [f"MoA over EAGLE-2, both in float (goal {GOALS['speed']})", f"in tau (goal {GOALS['tau']})"]
    head += ["edge in 8 bits over EAGLE-2 in float: no goal"]
    lines = []
    for each in group:
        chose = ", ".join(each.rows["auto"]["chose"]) if "auto" in each.rows else "–"
        line = [each.profile, _ratio(each.ratio("auto", each.best)), chose, _ratio(each.ratio("edge", each.best_fixed))]
        if alike:
            line += [_ratio(each.ratio("moa-float", "eagle-2")), _ratio(each.tau_ratio("moa-float", "eagle-2"))]
        lines.append([*line, _ratio(each.ratio("edge", "eagle-2"))])
    return table(head, lines)


def _speed(standing: Standing, mode: str | None, *, named: bool = False) -> str:
    if mode is None or mode not in standing.rows:
        return "–"
    low, high = standing.rows[mode]["ci95"]
    said = f"{standing.rows[mode]['tokens_per_second']:.1f} ({low:.0f} to {high:.0f})"
    if unchecked := standing.unchecked(mode):
        said += f", {unchecked:.0%} never checked"
    return f"{mode}: {said}" if named else said


def _cost(standing: Standing, mode: str) -> str:
    if mode not in standing.rows:
        return "–"
    row = standing.rows[mode]
    seconds = (row["first_drafted_seconds"], row["first_verified_seconds"])
    times = ", ".join("–" if each is None else f"{each:.2f}" for each in seconds)
    return f"{row['passes_per_100_tokens']:.0f}; {row['bytes_up']:.0f}, {row['bytes_down']:.0f}; {times}"


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    """What was not verified to its end."""
    found = [row for row in rows if row["unverified_tokens"] or row["failed"]]
    said = [
        f"{row['profile']}, {row['mode']}, {forward(row['paced_ms'])}: {row['unverified_tokens']} of {row['tokens']} "
        f"tokens drafted alone, {row['failed']} of {row['prompts']} answers broken off"
        for row in found
    ]
    return "\n".join(["Not verified to the end:", "", *(f"- {line}" for line in said)]) if said else ""


def _both(values: Sequence[float], form: str) -> str:
    return " and ".join(form.format(value) for value in values)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
