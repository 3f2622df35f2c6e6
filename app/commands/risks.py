"""Finds what a shell command may do that cannot be undone: parses the command, and tries every rule on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.commands.blocks import shell_blocks
from app.commands.conditions import left_out
from app.commands.known import page_programs, unknown_programs
from app.commands.risk import Kind, Risk, Severity
from app.commands.rules.registry import rules_for
from app.commands.rules.table import Finding
from app.commands.rules.unseen import downloaded_before
from app.commands.script import Script, SimpleCommand, Span
from app.commands.syntax import parse

FORK_BOMB = "starts copies of itself until the device hangs"
MAYBE_OUTPUT = (Kind.UNREADABLE, Kind.UNKNOWN)
"""Kinds that mean nothing for a block without a language."""
UNREADABLE = "does not parse as shell, so its effects are unknown"


def risks(command: str, path: str | None = None) -> tuple[Risk, ...]:
    """The risks of a command or script, in the order of the text.

    The list is not proof that a command is safe. Spans are in characters of `command`. `path`: the search path for
    programs, by default `PATH`.
    """
    script = parse(command)
    found = list(_risks(script))
    if (known := page_programs()) is not None:
        found += unknown_programs(command, script, known, path)
    found += [
        Risk(Kind.SHUTS_DOWN, Severity.DANGER, (command[slice(*span)],), FORK_BOMB, span) for span in script.forks
    ]
    if script.unreadable:
        found.append(Risk(Kind.UNREADABLE, Severity.NOTICE, (), UNREADABLE, _lines(command, script.unreadable)))
    found.sort(key=lambda risk: (risk.span, -risk.severity.rank))
    return tuple(dict.fromkeys(found))


def answer_risks(answer: str, question: str = "") -> tuple[Risk, ...]:
    """The risks of every shell block in an answer, and what of the question it leaves out. Spans are in characters of
    the answer.

    In a block without a language, anything that is not shell or runs no known program is left out: it may be a
    program's output.
    """
    found, blocks = list[Risk](), list(shell_blocks(answer))
    for block in blocks:
        for risk in risks(block.command):
            if risk.kind in MAYBE_OUTPUT and not block.language:
                continue
            found.append(replace(risk, span=block.span_in_answer(risk.span)))
    return (*found, *left_out(question, "\n".join(block.command for block in blocks), found))


def _lines(text: str, spans: Sequence[Span]) -> Span:
    """The whole lines from the first span to the last one."""
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    after = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if after < 0 else after


def _risks(script: Script) -> Iterator[Risk]:
    for command in script.commands:
        for rule in rules_for(command.program):
            for finding in rule.test(command):
                yield _risk(rule.kind, command, finding)
    for command, finding in downloaded_before(script.commands):
        yield _risk(Kind.UNSEEN, command, finding)


def _risk(kind: Kind, command: SimpleCommand, finding: Finding) -> Risk:
    sentence = finding.sentence + (", on another machine or in a container" if command.far else "")
    words = tuple(dict.fromkeys(word.value for word in finding.words))
    return Risk(kind, finding.severity, words, sentence, command.span)
