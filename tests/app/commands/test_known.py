"""The programs that nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.commands.known import unknown_programs

PAGES = {"git", "tar", "sudo", "xargs", "docker", "ssh"}

CASES: dict[str, tuple[str, ...]] = {
    "tar xf a.tgz": (),
    "untarr a.tgz": ("untarr",),
    "cat a | frobnicate | frobnicate | sort": ("frobnicate",),
    "sudo frobnicate -x": ("frobnicate",),
    "echo $(frobnicate)": ("frobnicate",),
    "sh -c 'frobnicate; twiddle'": ("sh", "frobnicate", "twiddle"),
    "ls | xargs frobnicate": ("frobnicate",),
    "cd x && echo y || exit 1": (),
    "[ -f a ] && test -d b": (),
    "if true; then frobnicate; fi": ("frobnicate",),
    "f() { frobnicate; }; f": ("frobnicate",),
    "function g { ls; }; g": (),
    "alias ll='ls -l'; ll": (),
    "./build.sh; $EDITOR a; <command> b; {{command}} c": (),
    "gsed s/a/b/ f; gls": ("gsed",),
    "ssh host frobnicate": (),
    "docker exec web frobnicate": (),
    "A=1 frobnicate": ("frobnicate",),
    "> out.txt": (),
    "frobnicate (": (),
}


@pytest.mark.parametrize(("command", "expected"), CASES.items())
def test_programs_that_no_page_has(command: str, expected: tuple[str, ...]) -> None:
    assert unknown_programs(command, PAGES.__contains__, here=False) == expected


def test_this_device_knows_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "frobnicate"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert unknown_programs("frobnicate; twiddle", PAGES.__contains__) == ("twiddle",)
