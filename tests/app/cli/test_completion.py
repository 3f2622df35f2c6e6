"""Completion in a real shell, which sources the script and asks as it does after a key press."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.completion import UNSAFE
from storage import Store
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

HOSTILE = '\\" ; touch pwned ; \\" $(touch pwned) `touch pwned` \' \x1b]0;x\x07'


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `outrider`, as after an installation, and with its script for bash."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "outrider"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.start "$@"\n')
    command.chmod(0o755)
    script = subprocess.run([command, "completion", "bash"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    (folder / "completion.bash").write_bytes(script)
    return folder


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    own = {"OUTRIDER_HOME": str(tmp_path / "home"), "PATH": f"{installed}:{os.environ['PATH']}"}
    return {**os.environ, **own, "PYTHONPATH": str(REPOSITORY), "SCRIPT": str(installed / "completion.bash")}


@pytest.fixture
def stored(tmp_path: Path) -> tuple[str, str, str]:
    """Ids of two conversations and of what is queued."""
    with Store.open(tmp_path / "home" / "data" / "outrider.db") as store:
        first = store.conversations.create("unpack a tarball").id
        return first, store.conversations.create(HOSTILE).id, store.queue.add(first, "list files").id


def bash(environment: dict[str, str], folder: Path, *words: str) -> list[str]:
    """The completions that bash offers for the last of these words."""
    program = (
        'source "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_outrider_completion outrider; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", program, "bash", "outrider", *words],
        env=environment, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_is_offered_commands_options_and_choices(environment: dict[str, str], tmp_path: Path) -> None:
    assert {"ask", "chat", "doctor", "history", "log", "queue"} <= set(bash(environment, tmp_path, ""))
    assert bash(environment, tmp_path, "do") == ["doctor"]
    assert "--conversation" in bash(environment, tmp_path, "ask", "--con")
    assert bash(environment, tmp_path, "ask", "--mode", "o") == ["offline"]
    assert bash(environment, tmp_path, "ask", "--conversation", "") == []
    assert not (tmp_path / "home" / "data").exists()


def test_bash_is_offered_what_is_stored(
    environment: dict[str, str], tmp_path: Path, stored: tuple[str, str, str]
) -> None:
    first, second, queued = stored
    assert set(bash(environment, tmp_path, "ask", "--conversation", "")) == {first, second}
    assert bash(environment, tmp_path, "verify", first[:12]) == [first]
    assert bash(environment, tmp_path, "queue", "remove", "") == [queued]
    (tmp_path / "home" / "data" / "outrider.db").write_bytes(b"no database " * 1000)
    assert bash(environment, tmp_path, "verify", "") == []


def test_bash_is_offered_remotes_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "home" / "config" / "remotes.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[remotes.home]\nurl = "http://home.example:8000"\n[remotes.work]\nurl = "https://work.example"\n')
    assert bash(environment, tmp_path, "ask", "--remote", "") == ["home", "work", "bundled"]
    assert bash(environment, tmp_path, "remote", "use", "w") == ["work"]
    assert bash(environment, tmp_path, "remote", "remove", "") == ["home", "work"]
    file.write_text("remotes = 3")
    assert bash(environment, tmp_path, "ask", "--remote", "") == []


def test_no_title_can_give_a_shell_orders(
    environment: dict[str, str], tmp_path: Path, stored: tuple[str, str, str]
) -> None:
    """Titles with code in them are harmless: zsh evaluates the completions."""
    asks = {"_OUTRIDER_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "outrider verify "}
    ran = subprocess.run(
        ["outrider"], env={**environment, **asks}, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert f'"{stored[0]}":"unpack a tarball"' in ran.stdout
    assert f'"{stored[1]}":"touch pwned touch pwned touch pwned 0 x"' in ran.stdout
    assert UNSAFE.sub("", "\"'\\$`;&|<>(){}[]*?~#!:=\n\x1b") == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("way", ["in fpath", "sourced"])
def test_zsh_completes_at_the_first_press_of_the_key_and_at_each_after_it(
    environment: dict[str, str], tmp_path: Path, way: str
) -> None:
    functions = tmp_path / "functions"
    functions.mkdir()
    script = subprocess.run(["outrider", "completion", "zsh"], env=environment, capture_output=True, check=True).stdout
    (functions / "_outrider").write_bytes(script)
    first, then = (f"fpath=({functions} $fpath);", "") if way == "in fpath" else ("", f"source {functions}/_outrider;")
    begin = f"PS1='ready> '; {first} autoload -Uz compinit; compinit -u -d {tmp_path}/dump; {then} echo set''up\r"
    with Terminal(["zsh", "-f", "-i"], environment=environment, folder=tmp_path) as terminal:
        terminal.type(begin)
        terminal.wait_for("setup")
        terminal.wait_for(lambda: terminal.text.rpartition("setup")[2].count("ready>") > 0)
        terminal.type("outrider doct\t")
        terminal.wait_for("outrider doctor")
        terminal.type("--js\t")
        terminal.wait_for("--json")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_is_offered_commands_options_and_what_is_stored(
    environment: dict[str, str], tmp_path: Path, stored: tuple[str, str, str]
) -> None:
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    folder = tmp_path / "config" / "fish" / "completions"
    folder.mkdir(parents=True)
    script = subprocess.run(["outrider", "completion", "fish"], env=environment, capture_output=True, check=True).stdout
    (folder / "outrider.fish").write_bytes(script)

    def offered(line: str) -> set[str]:
        ran = subprocess.run(
            ["fish", "-c", 'complete -C "$argv"', line],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return {found.partition("\t")[0] for found in ran.stdout.splitlines()}

    assert offered("outrider doct") == {"doctor"}
    assert offered("outrider doctor --js") == {"--json"}
    assert offered("outrider verify ") == set(stored[:2])
