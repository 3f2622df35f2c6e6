"""What the rules say of each command in `tables/`: `command => kind severity, kind severity`, and nothing else.

And the programs that nobody knows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from app.commands.known import unknown_programs
from app.commands.requests import unasked
from app.commands.risk import Kind, Severity
from app.commands.risks import answer_risks, risks
from app.commands.rules.registry import RULES, rules_for
from app.commands.syntax import parse

NAMES = {
    "deletes": Kind.DELETES, "overwrites": Kind.OVERWRITES, "rewrites": Kind.REWRITES, "stops": Kind.SHUTS_DOWN,
    "rights": Kind.RIGHTS, "root": Kind.ROOT, "unseen": Kind.UNSEEN, "leaks": Kind.LEAKS, "unreadable": Kind.UNREADABLE,
}  # fmt: skip
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


TABLES = ("deletions", "overwrites", "history", "shutdowns", "rights", "root", "unseen", "leaks", "nested")


@pytest.mark.parametrize("name", TABLES)
def test_a_command_does_what_the_table_says(name: str) -> None:
    said = lambda command: {(risk.kind, risk.severity) for risk in risks(command)}  # noqa: E731
    found = {command: (said(command), expected) for command, expected in cases(table(name))}
    assert {command: both for command, both in found.items() if both[0] != both[1]} == {}


def test_the_tables_try_every_rule() -> None:
    """A rule that no command of the tables fits may be broken, or be for no command at all."""
    commands = [one for name in TABLES for command, _ in cases(table(name)) for one in parse(command).commands]
    tried = {rule for one in commands for rule in rules_for(one.program) if any(True for _ in rule.test(one))}
    assert [rule for rule in RULES if rule not in tried] == []


def test_a_program_without_words_never_breaks_a_rule() -> None:
    for program in {program for rule in RULES for program in rule.programs}:
        for words in ("", " -", " --", " -x", " a", " --force --delete", " '' ''"):
            risks(program + words)


def test_nothing_is_said_of_a_harmless_command() -> None:
    """A warning that comes too often is not read."""
    assert {command: risks(command) for command in table("harmless") if risks(command)} == {}


FOUND = {
    "find . -type d -empty -delete": "deletes all empty folders in this folder and below",
    "find . -type f -name '*.log' -mtime +30 -delete": (
        "deletes the files in this folder and below that match `-name *.log -mtime +30`"
    ),
    "find a b -xtype l -delete": "deletes the files and folders in `a` and `b` and below that match `-xtype l`",
    "find . ! -name '*.txt' -delete": "deletes what matches `! -name *.txt` in this folder and below",
    "find . -delete -name x": "deletes everything in this folder and below; the tests after `-delete` come too late",
    "find / -type f -exec rm -f {} +": "deletes all files in `/` and below, without asking",
    "find . -type d -empty -exec rmdir {} +": "deletes what `find` finds, if it is empty",
}


def test_what_find_deletes_is_what_it_finds() -> None:
    assert {command: [risk.sentence for risk in risks(command)] for command in FOUND} == {
        command: [sentence] for command, sentence in FOUND.items()
    }


# ---- programs that nobody knows --------------------------------------------------------------------------------------


PAGES = {"git", "tar", "sudo", "xargs", "docker", "ssh"}

CASES: dict[str, tuple[str, ...]] = {
    "untarr a.tgz": ("untarr",),
    "cat a | frobnicate | frobnicate | sort": ("frobnicate",),
    "echo $(frobnicate)": ("frobnicate",),
    "sh -c 'frobnicate; twiddle'": ("frobnicate", "twiddle"),
    "ls | xargs frobnicate": ("frobnicate",),
    "cd x && echo y || exit 1": (),
    "f() { frobnicate; }; f": ("frobnicate",),
    "alias ll='ls -l'; ll": (),
    "./build.sh; $EDITOR a; <command> b; {{command}} c": (),
    "gfrobnicate; gls": ("gfrobnicate",),
    "ssh host frobnicate": (),
    "frobnicate (": (),
}


@pytest.mark.parametrize(("command", "expected"), CASES.items())
def test_programs_that_no_page_has(command: str, expected: tuple[str, ...]) -> None:
    found = unknown_programs(command, parse(command), PAGES.__contains__, path="")
    assert tuple(risk.words[0] for risk in found) == expected
    assert all(risk.words[0] in command[slice(*risk.span)] for risk in found)


def test_this_device_knows_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "frobnicate"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = "frobnicate; twiddle"
    for path in (None, str(tmp_path)):
        (risk,) = unknown_programs(text, parse(text), PAGES.__contains__, path)
        assert (risk.words, text[slice(*risk.span)]) == (("twiddle",), "twiddle")


def test_the_pages_that_travel_with_the_program_are_looked_at() -> None:
    (risk,) = risks("sudo ncdu -x / && frobnicate --all")[1:]
    assert (risk.kind, risk.words) == (Kind.UNKNOWN, ("frobnicate",))
    assert unasked("frobnicate all of it", [risk]) == (), "asked for or not, there is no such program"
    fenced = "```{}\nfrobnicate --all\n```"
    assert [one.kind for one in answer_risks(fenced.format("sh"))] == [Kind.UNKNOWN]
    assert answer_risks(fenced.format("")) == (), "it may be what a program printed"
