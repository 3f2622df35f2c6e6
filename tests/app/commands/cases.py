"""Tables of commands and what they would do, one a line: `command => kind severity, kind severity`."""

from __future__ import annotations

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


def cases(table: str) -> list[tuple[str, Expected]]:
    """The lines of a table. `⏎` in a command is a new line."""
    found = []
    for line in table.strip().splitlines():
        command, _, told = line.partition(" => ")
        pairs = [pair.split() for pair in told.split(",") if pair.strip()]
        found.append((command.replace("⏎", "\n"), {(NAMES[kind], Severity(severity)) for kind, severity in pairs}))
    return found


def kinds(risks: tuple[Risk, ...]) -> Expected:
    return {(risk.kind, risk.severity) for risk in risks}
