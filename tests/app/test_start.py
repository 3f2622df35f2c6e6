"""The console script's short ways: what they load, and that they do the same as the long way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serving import REPOSITORY

HEAVY = {"numpy", "onnxruntime", "httpx", "torch", "typer", "tokenizers", "jinja2", "tree_sitter_bash"}
"""Textual loads tree_sitter itself, if it is there. That takes 1 ms; the grammar of Bash takes 8 ms."""


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app.start", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment},
    )  # fmt: skip


def loaded(program: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after `program`."""
    out = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print('\\n', *sys.modules)"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(out.stdout.splitlines()[-1].split())


def test_the_version_loads_next_to_nothing() -> None:
    modules = loaded("import sys; sys.argv = ['outrider', '--version']; from app.start import main; main()")
    bare = loaded("import importlib.metadata, importlib.metadata._adapters, email.utils")
    ours = {name for name in modules if name.partition(".")[0] in ("app", "drafter", "remote", "storage")}
    assert ours == {"app", "app.start", "app.exits", "app.version"}
    assert not modules & (HEAVY | {"asyncio", "logging", "textual", "sqlite3"})
    assert len(modules - bare - ours) < 20, modules - bare


def test_both_ways_say_the_same_version() -> None:
    short = start("--version")
    long = subprocess.run(
        [sys.executable, "-m", "app.cli", "--version"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert (short.returncode, short.stdout) == (0, long.stdout) and short.stdout.startswith("outrider")
    assert start("-V").stdout == short.stdout


def test_the_first_frame_needs_no_model_and_no_network() -> None:
    assert not loaded("import app.cli.chat, app.reply.bootstrap, app.tui.terminal, storage") & HEAVY


def test_a_question_needs_no_command_line(tmp_path: Path) -> None:
    asking = f"""
import os, sys
os.environ.update(OUTRIDER_HOME={str(tmp_path)!r}, OUTRIDER_MODE="offline")
sys.argv = ["outrider", "ask", "list files"]
from app.start import main
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""
    modules = loaded(asking)
    assert "app.cli.ask" in modules and not modules & {"typer", "app.cli.__main__"}
    home = {"OUTRIDER_HOME": str(tmp_path), "OUTRIDER_MODE": "offline"}
    short = start("ask", "how", "do I list files", **home)
    long = start("ask", "--no-save", "how", "do I list files", **home)
    assert (short.returncode, short.stdout) == (0, long.stdout) and short.stdout.strip()
    (tmp_path / ".env").write_text("KEY=1")
    elsewhere = {"OUTRIDER_HOME": str(tmp_path), "OUTRIDER_REMOTE": "https://192.0.2.1"}
    refused = start("ask", f"what is in @{tmp_path}/.env", **elsewhere)
    assert refused.returncode == 2 and refused.stderr.startswith("outrider: Nothing was sent: ")
    assert start("ask", "--colour").returncode == start("ask", " ").returncode == 2


def test_without_a_terminal_both_ways_to_the_chat_are_usage_errors(tmp_path: Path) -> None:
    for arguments in ([], ["chat"], ["chat", "--mode", "offline"]):
        ended = start(*arguments, OUTRIDER_HOME=str(tmp_path))
        assert ended.returncode == 2 and "needs a terminal" in ended.stderr and ended.stdout == ""


def test_a_bad_setting_ends_the_short_way_in_a_sentence(tmp_path: Path) -> None:
    ended = start(OUTRIDER_HOME=str(tmp_path), OUTRIDER_MODE="sometimes")
    assert ended.returncode == 2 and "OUTRIDER_MODE" in ended.stderr and "Traceback" not in ended.stderr


def test_other_arguments_reach_the_command_line() -> None:
    assert "doctor" in start("--help").stdout
    assert start("remote", "rm", "-h").stdout == start("remote", "rm", "--help").stdout != ""
    assert start("--colour").returncode == 2


@pytest.mark.parametrize("first", ["app.start", "app.cli.own_server", "app.cli.__main__"])
def test_numpy_is_not_loaded_before_its_threads_are_set(first: str) -> None:
    assert "numpy" not in loaded(f"import {first}")


def test_the_command_line_sets_the_threads_of_numpy() -> None:
    program = (
        "import sys, os; sys.argv = ['outrider', 'doctor', '--help']; from app.cli.__main__ import main\ntry: main()\n"
    )
    program += "except SystemExit: print(os.environ['OPENBLAS_NUM_THREADS'])"
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    for given, wanted in ({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2"):
        out = subprocess.run(
            [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, env={**kept, **given}
        )
        assert out.stdout.splitlines()[-1] == wanted, out.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted as Linux lists them")
def test_numpy_has_no_threads_of_its_own() -> None:
    """They would take a core from those of the model for a while after each product."""
    program = "import os; from models.cores import keep_cores_free; keep_cores_free(); import numpy; "
    program += "numpy.ones((300, 300)) @ numpy.ones((300, 300)); print(len(os.listdir('/proc/self/task')))"

    def threads(**given: str) -> int:
        kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        out = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=REPOSITORY,
            env={**kept, **given},
        )  # fmt: skip
        return int(out.stdout)

    assert threads() == 1
    if (os.cpu_count() or 1) > 1:
        assert threads(OPENBLAS_NUM_THREADS="2") == 2
