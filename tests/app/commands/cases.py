"""The tables of commands and what they would do, one a line: `command => kind severity, kind severity`."""

from __future__ import annotations

from pathlib import Path

from app.commands.risk import Kind, Risk, Severity

NAMES = {
    "deletes": Kind.DELETES,
    "overwrites": Kind.OVERWRITES,
    "rewrites": Kind.REWRITES,
    "stops": Kind.SHUTS_DOWN,
    "rights": Kind.RIGHTS,
    "root": Kind.ROOT,
    "unseen": Kind.UNSEEN,
    "leaks": Kind.LEAKS,
    "unreadable": Kind.UNREADABLE,
}

Expected = set[tuple[Kind, Severity]]


def table(name: str) -> list[str]:
    """The lines of a table. `⏎` in a command is a new line."""
    text = (Path(__file__).parent / "tables" / f"{name}.txt").read_text(encoding="utf-8")
    return [line.replace("⏎", "\n") for line in text.splitlines()]


def cases(lines: list[str]) -> list[tuple[str, Expected]]:
    """The command of each line, and what stands behind the arrow."""
    found = []
    for line in lines:
        command, _, told = line.partition(" => ")
        pairs = [pair.split() for pair in told.split(",") if pair.strip()]
        found.append((command, {(NAMES[kind], Severity(severity)) for kind, severity in pairs}))
    return found


def kinds(risks: tuple[Risk, ...]) -> Expected:
    return {(risk.kind, risk.severity) for risk in risks}
