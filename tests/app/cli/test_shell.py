"""`outrider shell`, `fix` and `completion`: commands of their own, and completion in a real shell after a key press."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.completion import UNSAFE, conversations, known_remotes, queued, remotes
from app.cli.handover import COMMAND_FILE
from app.config import BUNDLED_DRAFTER
from app.shell.place import folder
from storage import Store
from tests.support.commands import Outrider, runner
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal


@pytest.fixture
def outrider(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Outrider:
    return runner(monkeypatch, capsys, tmp_path / "home", BUNDLED_DRAFTER)


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def test_the_script_is_valid_in_its_shell(outrider: Outrider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SHELL_COMMAND_KEY", "ctrl-x ctrl-m")
    monkeypatch.setenv("OUTRIDER_SHELL_GHOST", "true")
    for shell in filter(shutil.which, ("bash", "zsh", "fish")):
        script = outrider("shell", shell).out
        assert folder() in script and not re.search("@[A-Z_]+@", script)
        (tmp_path / "script").write_text(script)
        ran = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
        assert (ran.returncode, ran.stderr) == (0, ""), shell


def test_a_key_that_is_none_is_named(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SHELL_EXPLAIN_KEY", "hyper-q")
    told = outrider("shell", "bash")
    assert told.code == 2 and "OUTRIDER_SHELL_EXPLAIN_KEY" in told.err and "alt-m" in told.err


def test_fix_prints_or_hands_over_a_mend(outrider: Outrider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nötes.txt").write_text("")
    told = outrider("fix", "cat ntöes.txt", "--code", "1")
    assert (told.code, told.out) == (0, "cat 'nötes.txt'\n") and "there is nötes.txt" in told.err
    file = tmp_path / "next"
    monkeypatch.setenv(COMMAND_FILE, str(file))
    monkeypatch.setenv("OUTRIDER_LAST_COMMAND", "cat ntöes.txt 2>&1 | outrider fix")
    for before in ("", "a longer text of before, which must go away\n" * 3):
        if before:
            file.write_text(before)
        told = outrider("fix", stdin="cat: ntöes.txt: No such file or directory\n")
        assert (told.code, told.out) == (0, "")
        assert file.read_text(encoding="utf-8") == "cat 'nötes.txt'\n" and file.stat().st_mode & 0o077 == 0
    monkeypatch.setenv(COMMAND_FILE, str(tmp_path))
    told = outrider("fix", stdin="cat: ntöes.txt: No such file or directory\n")
    assert told.out == "cat 'nötes.txt'\n", "nothing is lost"
    assert str(tmp_path) in told.err and COMMAND_FILE in told.err


# ---- completion: a shell sources the script and asks as it does after a key press ------------------------------------


HOSTILE = '\\" ; touch pwned ; \\" $(touch pwned) `touch pwned` \' \x1b]0;x\x07'


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `outrider`, as after an installation."""
    command = tmp_path_factory.mktemp("bin") / "outrider"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.start "$@"\n')
    command.chmod(0o755)
    return command.parent


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    own = {"OUTRIDER_HOME": str(tmp_path / "home"), "PATH": f"{installed}:{os.environ['PATH']}"}
    return {**os.environ, **own, "PYTHONPATH": str(REPOSITORY)}


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """Ids of two conversations and of what is queued."""
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    with Store.open(tmp_path / "home" / "data" / "outrider.db") as store:
        first = store.conversations.create("unpack a tarball").id
        return first, store.conversations.create(HOSTILE).id, store.queue.add(first, "list files").id


def script(environment: dict[str, str], shell: str, file: Path) -> None:
    """Write the script for a shell, as its user does."""
    file.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["outrider", "completion", shell], env=environment, capture_output=True, check=True)
    file.write_bytes(made.stdout)


def test_bash_is_offered_commands_and_what_is_stored(
    environment: dict[str, str], tmp_path: Path, stored: tuple[str, str, str]
) -> None:
    script(environment, "bash", tmp_path / "script")

    def offered(*words: str) -> list[str]:
        program = (
            'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            '_outrider_completion outrider; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        ran = subprocess.run(
            ["bash", "--norc", "-c", program, "bash", "outrider", *words],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert ran.stderr == ""
        return ran.stdout.split()

    assert offered("do") == ["doctor"] and offered("ask", "--mode", "o") == ["offline"]
    assert set(offered("ask", "--conversation", "")) == set(stored[:2])


def test_what_is_stored_is_offered_and_looking_creates_nothing(
    stored: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, waits = stored
    assert conversations(first[:12]) == [(first, "unpack a tarball")] and [one for one, _ in queued("")] == [waits]
    file = tmp_path / "home" / "config" / "remotes.toml"
    file.parent.mkdir()
    file.write_text('[remotes.home]\nurl = "http://home.example:8000"\n[remotes.work]\nurl = "https://work.example"\n')
    assert [name for name, _ in remotes("")] == ["home", "work", "bundled"]
    assert [name for name, _ in known_remotes("")] == ["home", "work"]
    file.write_text("remotes = 3")
    assert remotes("") == []
    (tmp_path / "home" / "data" / "outrider.db").write_bytes(b"no database " * 1000)
    assert conversations("") == []
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "new"))
    assert conversations("") == [] and not (tmp_path / "new").exists()


def test_no_title_can_give_a_shell_orders(stored: tuple[str, str, str]) -> None:
    """zsh evaluates the completions."""
    assert (stored[1], "touch pwned touch pwned touch pwned 0 x") in conversations("")
    assert UNSAFE.sub("", "\"'\\$`;&|<>(){}[]*?~#!:=\n\x1b") == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_the_first_key_press_and_later(environment: dict[str, str], tmp_path: Path) -> None:
    functions = tmp_path / "functions"
    script(environment, "zsh", functions / "_outrider")
    load = f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump"
    begin = f"PS1='ready> '; {load}; echo set''up\r"
    with Terminal(["zsh", "-f", "-i"], environment=environment, folder=tmp_path) as terminal:
        terminal.type(begin)
        terminal.wait_for("setup")
        terminal.wait_for(lambda: terminal.text.rpartition("setup")[2].count("ready>") > 0)
        terminal.type("outrider doct\t")
        terminal.wait_for("outrider doctor")
        terminal.type("--js\t")
        terminal.wait_for("--json")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_is_offered_options_and_what_is_stored(
    environment: dict[str, str], tmp_path: Path, stored: tuple[str, str, str]
) -> None:
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    script(environment, "fish", tmp_path / "config" / "fish" / "completions" / "outrider.fish")

    def offered(line: str) -> set[str]:
        ran = subprocess.run(
            ["fish", "-c", 'complete -C "$argv"', line],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return {found.partition("\t")[0] for found in ran.stdout.splitlines()}

    assert offered("outrider doctor --js") == {"--json"}
    assert offered("outrider verify ") == set(stored[:2])
