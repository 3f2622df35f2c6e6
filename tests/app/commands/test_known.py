"""The programs that nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.commands.known import unknown_programs
from app.commands.requests import unasked
from app.commands.risk import Kind
from app.commands.risks import answer_risks, risks
from app.commands.syntax import parse

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
