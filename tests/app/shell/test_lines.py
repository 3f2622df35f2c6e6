"""Reading lines and answers: words with their places, commands in Markdown, and what looks like a sentence."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.commands.risks import risks
from app.shell.answers import made_up, risk_notes
from app.shell.command_text import command_of, question_for, same_words
from app.shell.explanation import explanation, flag_meanings, risk_sentences, tldr_pages
from app.shell.ghost import reads_as_words
from app.shell.mends import Failure, mend
from app.shell.words import commands, replaced
from tests.support.serving import REPOSITORY


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1, max_size=5))
def test_quoted_words_come_back(words: list[str]) -> None:
    line = shlex.join(words)
    assert [[word.value for word in simple] for simple in commands(line)] == [words]


@given(st.text())
def test_any_line_can_be_read_and_changed(line: str) -> None:
    for simple in commands(line):
        for word in simple:
            assert 0 <= word.start < word.end <= len(line)
            changed = replaced(line, word, "x y")
            assert changed == line[: word.start] + "'x y'" + line[word.end :]


def test_another_command_is_about_the_same_things() -> None:
    assert same_words("sudo apt install foo", "sudo apt install -y foo") and same_words("cat fooo.txt", "cat foo.txt")
    for other in ("apt-get install foo", "sudo apt remove foo", "sudo apt install htop", "tar y"):
        assert not same_words("sudo apt install foo", other), other


ANSWERS = {
    "Use `tar` to extract:\n\n```sh\ntar xzf a.tar.gz\n```": "tar xzf a.tar.gz",
    "```\n$ cd x\n$ ls\n```": "cd x\nls",
    "~~~bash\nls\n~~~\nand\n```sh\nrm x\n```": "ls",
    "```python\nprint()\n```\n```sh\npython x.py\n```": "python x.py",
    "```sh\ncut sho": "cut sho",
    "`df -h`": "df -h",
    "I only know the command line.": None,
    "Use `tar` for that.": None,
    "```sh\n\n```": None,
}


@pytest.mark.parametrize("answer, command", ANSWERS.items())
def test_the_command_of_an_answer(answer: str, command: str | None) -> None:
    assert command_of(answer) == command


def test_the_bundled_pair_gets_the_words_alone() -> None:
    assert question_for("  list\n files ", "zsh", pair=True) == "list files"
    other = question_for("list files", "zsh", pair=False)
    assert other.endswith("list files") and "zsh" in other


def test_sentences_are_no_commands() -> None:
    assert reads_as_words("find all the large files") and reads_as_words("unpack this archive here")
    for line in ("ls", "git checkout main", "tar -x all the", "echo a | cat this", "cat the > file x"):
        assert not reads_as_words(line), line


def test_an_explanation_cannot_give_orders_to_the_terminal() -> None:
    shown = explanation([("The manual", "tar: a\x1b]0;x\x07b"), ("The manual", "ls: c"), ("A", "d " * 60)], 40)
    assert "\x1b" not in shown and shown.count("The manual:") == 1
    assert all(len(line) <= 40 for line in shown.splitlines())


def test_an_explanation_has_the_page_and_the_examples_that_are_like_the_command() -> None:
    lines = [text for who, text in tldr_pages("sudo tar -xzf a.tgz | frobnicate")]
    assert lines[0].startswith("tar: ") and "frobnicate" not in " ".join(lines)
    assert 1 < len(lines) <= 4 and "tar x" in lines[1]
    assert tldr_pages("frobnicate --now") == []


def test_an_explanation_has_each_flag() -> None:
    for command, flags in (
        ("sudo -u bob tar xzf a.tgz", ["tar -x: extracts", "tar -z: through gzip", "tar -f:"]),
        ("ls -lah | grep -rin x", ["ls -l:", "ls -a:", "ls -h:", "grep -r:", "grep -i:", "grep -n:"]),
        ("ps aux", ["ps aux: all processes of all users"]),
        ("frobnicate -x", []),
    ):
        told = [text for _, text in flag_meanings(command)]
        assert len(told) == len(flags) and all(one.startswith(flag) for one, flag in zip(told, flags))


def test_an_explanation_names_what_cannot_be_undone() -> None:
    (part,) = risk_sentences("rm -rf build", "")
    assert part[0] == "Care" and "deletes `build`" in part[1]
    assert risk_sentences("ls -la", "") == []


def test_what_nobody_asked_for_is_said() -> None:
    (surprise,) = risk_notes(risks("rm -rf build"), "list the files")
    assert "deletes `build`" in surprise and "did not ask" in surprise
    assert all("did not ask" not in one for one in risk_notes(risks("rm -rf build"), "delete the folder build"))
    assert risk_notes(risks("ls -la"), "list the files") == []


def test_a_program_that_nothing_knows_is_named() -> None:
    known, unknown = risks("sudo tar xf a.tar", path=""), risks("cat a | frobnicate --all", path="")
    assert (made_up(known), made_up(unknown)) == (None, "frobnicate")
    (note,) = risk_notes(unknown, "frobnicate all of it")
    assert note.startswith("warning: it runs `frobnicate`, which is neither installed here")


# ---- mends for commands that failed: each is sure of what exists, and none is dangerous by mistake -------------------


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


def test_a_mend_says_what_it_would_destroy(folder: Path) -> None:
    found = mend(Failure("mr -rf /", 127, "", str(folder / "here"), str(folder / "bin")))
    assert found is not None and "; danger: it deletes `/`" in found.why
    found = mend(Failure("cp src there", 1, "cp: omitting directory 'src'", str(folder / "here"), str(folder / "bin")))
    assert found is not None and found.why == "copies folders, too"
