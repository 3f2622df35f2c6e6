"""Mends for commands that failed: each is sure of what exists, and none is dangerous by mistake."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.shell.mends import Failure, mend
from tests.support.serving import REPOSITORY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with programs of its own, so that no test depends on what is installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ls", "cat", "make", "python3", "docker", "sudo", "apt", "mkdir", "cp", "less", "tar", "rm", "grep"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    for name in ("Documents/letters", "Downloads", "src"):
        (tmp_path / "here" / name).mkdir(parents=True)
    for name in ("README.md", "notes.txt", "src/main.py", "my file.txt"):
        (tmp_path / "here" / name).write_text("")
    return tmp_path


def mended(folder: Path, command: str, status: int | None = 1, error: str = "") -> str | None:
    found = mend(Failure(command, status, error, str(folder / "here"), str(folder / "bin")))
    return None if found is None else found.command


CASES = [json.loads(line) for line in (REPOSITORY / "tests/data/mends.jsonl").read_text("utf-8").splitlines()]
"""A command with its exit code and what it printed, and its mend; null: none. `git`: it is about a git repository."""


@pytest.mark.parametrize("case", [case for case in CASES if "git" not in case], ids=lambda case: case["command"])
def test_mends(folder: Path, case: dict[str, Any]) -> None:
    assert mended(folder, case["command"], case["status"], case["error"]) == case["mend"]


def test_a_sudo_that_is_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin" / "sudo").unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert mended(folder, "sudo apt install foo", 127) == "apt install foo"
    assert mended(folder, "sudo apt install foo", None) == "apt install foo"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert mended(folder, "sudo apt install foo", 127) is None


def test_a_script_that_is_not_executable(folder: Path) -> None:
    script = folder / "here" / "run.sh"
    script.write_text("#!/bin/sh\n")
    assert mended(folder, "./run.sh --fast", 126) == "chmod +x ./run.sh && ./run.sh --fast"
    script.chmod(0o755)
    assert mended(folder, "./run.sh --fast", 126) is None


def test_git_commands_and_aliases(folder: Path, tmp_path: Path) -> None:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["git", "init", "-q", "here"], cwd=tmp_path, check=True)
    subprocess.run(["git", "config", "alias.unstage", "reset"], cwd=tmp_path / "here", check=True)

    def git(command: str, error: str = "") -> str | None:
        found = mend(Failure(command, 1, error, str(tmp_path / "here"), path))
        return None if found is None else found.command

    for case in CASES:
        if "git" in case:
            assert git(case["command"]) == case["mend"], case["command"]
    said = "fatal: The current branch x has no upstream branch.\n\n    git push --set-upstream origin x\n"
    assert git("git push", said) == "git push --set-upstream origin x"
