"""Mends for commands that failed: each is sure of what exists, and none is dangerous by mistake."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from app.shell.mends import Failure, mend
from app.shell.spelling import distance, nearest

NOT_FOUND = 127


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


CASES = [
    ("sl -la", NOT_FOUND, "", "ls -la"),
    ("pyhton3 x.py", NOT_FOUND, "", "python3 x.py"),
    ("LANG=C mkae -j4 | less", NOT_FOUND, "", "LANG=C make -j4 | less"),
    ("cat README.md | grpe x", NOT_FOUND, "", "cat README.md | grep x"),
    ("sudo dokcer ps", 1, "sudo: dokcer: command not found", "sudo docker ps"),
    ("frobnicate now", NOT_FOUND, "", None),
    ("make", 2, "", None),
    ("$ ls", NOT_FOUND, "", "ls"),
    ("cd..", NOT_FOUND, "", "cd .."),
    ("cd Documnts", 1, "", "cd Documents"),
    ("cd Documnts/lettres", 1, "", "cd Documents/letters"),
    ("cd documents", 1, "", "cd Documents"),
    ("cd README.md", 1, "", "cd ."),
    ("cd nowhere-near", 1, "", None),
    ("cat REDAME.md", 1, "", "cat README.md"),
    ("cat 'my fiel.txt'", 1, "", "cat 'my file.txt'"),
    ("cat <notes.txt scr/main.py", 1, "", "cat <notes.txt src/main.py"),
    ("less src/mian.py # look", 1, "", "less src/main.py # look"),
    ("grep needle ntoes.txt", 2, "", "grep needle notes.txt"),
    ("grep ntoes README.md", 1, "", None),
    ("rm ntoes.txt", 1, "rm: cannot remove 'ntoes.txt': No such file or directory", None),
    ("tar -xf mian.py", 2, "tar: mian.py: Cannot open: No such file or directory", None),
    ("mkdir a/b/c", 1, "", "mkdir -p a/b/c"),
    ("mkdir new", 1, "", None),
    ("cp src there", 1, "cp: -r not specified; omitting directory 'src'", "cp -r src there"),
    ("apt install jq", 100, "E: Could not open lock file - are you root?", "sudo apt install jq"),
    ("cat x > /root/y", 1, "bash: /root/y: Permission denied", None),
    ("docker ssp", 1, "docker: 'ssp' is not a docker command.\n\nDid you mean this?\n\tps", None),
    ("docker pss", 1, "docker: 'pss' is not a docker command.\nDid you mean this? ps", "docker ps"),
    ("ls", 0, "", None),
]


@pytest.mark.parametrize("command, status, error, expected", CASES, ids=[case[0] for case in CASES])
def test_mends(folder: Path, command: str, status: int, error: str, expected: str | None) -> None:
    assert mended(folder, command, status, error) == expected


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

    assert git("git stauts -s") == "git status -s"
    assert git("git comit -m 'a b'") == "git commit -m 'a b'"
    assert git("git unstgae x") == "git unstage x"
    assert git("git status") is None
    said = "fatal: The current branch x has no upstream branch.\n\n    git push --set-upstream origin x\n"
    assert git("git push", said) == "git push --set-upstream origin x"


def test_distances() -> None:
    assert [distance(*pair) for pair in (("gti", "git"), ("grpe", "grep"), ("ls", "ls"), ("a", "bc"))] == [1, 1, 0, 2]
    assert nearest("ls", ["ls", "sl"]) is None
    assert nearest("xy", ["ls", "cd"]) is None
    assert nearest("gerp", ["grep", "perl"]) == "grep"
