"""Reports the risks of shell commands in an answer, for `outrider ask`: lines on stderr, and a field of its JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.cli.output import coloured, in_colour
from app.commands.requests import unasked
from app.commands.risk import Risk, Severity
from app.commands.risks import answer_risks
from app.sanitise import sanitise

LONGEST = 60
"""Characters of a command in a line."""
COLOURS = {Severity.NOTICE: "36", Severity.WARNING: "33", Severity.DANGER: "1;31"}
"""SGR parameters of ECMA-48: cyan, yellow, bold red."""


@dataclass(frozen=True)
class ToldRisk:
    """A risk of an answer, with its command and whether the question asked for it."""

    risk: Risk
    command: str
    asked: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.risk.kind.value,
            "severity": self.risk.severity.value,
            "words": list(self.risk.words),
            "sentence": self.risk.sentence,
            "span": list(self.risk.span),
            "asked": self.asked,
        }


def told_risks(question: str, answer: str) -> tuple[ToldRisk, ...]:
    """The risks in the shell blocks of an answer. Spans are in characters of the answer."""
    found = answer_risks(answer, question)
    surprises = set(unasked(question, found))
    return tuple(ToldRisk(risk, answer[slice(*risk.span)], risk not in surprises) for risk in found)


def complain_of(risks: Sequence[ToldRisk]) -> None:
    """Print a line on stderr for each risk, except notices that were asked for."""
    colours = in_colour(sys.stderr)
    for told in risks:
        if told.asked and told.risk.severity is Severity.NOTICE:
            continue
        severity = told.risk.severity
        mark = coloured(str(severity), COLOURS[severity]) if colours else str(severity)
        line = f"`{_shortened(told.command)}` {told.risk.sentence}"
        asked = "" if told.asked else " (your question did not ask for it)"
        print(f"outrider: {mark}: {sanitise(line)}{asked}", file=sys.stderr, flush=True)


def _shortened(command: str) -> str:
    text = " ".join(command.split())
    return f"{text[: LONGEST - 1]}…" if len(text) > LONGEST else text
