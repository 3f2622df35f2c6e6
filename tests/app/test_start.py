"""The console script's short ways: what they load, and that they do the same as the long way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import Outrider
from tests.support.serving import REPOSITORY

HEAVY = {"numpy", "onnxruntime", "httpx", "torch", "typer", "tokenizers", "jinja2", "tree_sitter_bash"}
"""Textual loads tree_sitter itself, if it is there. That takes 1 ms; the grammar of Bash takes 8 ms."""


SERVING = {"torch", "transformers", "optimum", "accelerate", "starlette", "uvicorn", "prometheus_client"}
CLIENT = "app.cli.ask, app.reply.assistant, app.cli.doctor, app.remotes.loopback, app.reply.bootstrap"
SERVER = "remote.verifier.serve, remote.verifier.http, remote.verifier.completions"
ENGINES = "models.engines.choice, models.engines.onnx_engine, models.engines.memory_encoder"
ARCHIVE = "app.cli.archive, app.archive.exporter, app.archive.importer, app.archive.html, app.archive.markdown"
COMMANDS = "app.commands.risks, app.commands.requests, app.commands.known"
COMMAND_LINE = {"textual", "numpy", "httpx", "onnxruntime", "sqlite_utils", "msgspec", "tree_sitter"}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "offline")


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


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        (f"{CLIENT}, drafter.runtime, drafter.search, remote.client, storage", SERVING | {"textual"}),
        (f"{SERVER}, {ENGINES}", {"torch", "transformers", "safetensors", "accelerate", "onnx", "httpx", "typer"}),
        ("app.cli.__main__", SERVING | COMMAND_LINE),
        (COMMANDS, {"tree_sitter", "markdown_it"}),
        (ARCHIVE, {"textual", "torch", "onnxruntime", "httpx", "numpy", "tokenizers"}),
        ("app.tui.app", SERVING),
    ],
    ids=["client", "server", "command line", "commands", "archive", "screen"],
)
def test_light_modules_stay_light(modules: str, without: set[str]) -> None:
    """The layers themselves are in .importlinter."""
    assert not {name.partition(".")[0] for name in loaded(f"import {modules}")} & without


def test_the_first_frame_needs_no_model_and_no_network() -> None:
    assert not loaded("import app.cli.chat, app.reply.bootstrap, app.tui.terminal, storage") & HEAVY
    assert not loaded("import app.remotes.own_server, app.cli.own_server") & HEAVY, "before its threads are set"


def test_a_question_needs_no_command_line(outrider: Outrider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = """
import sys
sys.argv = ["outrider", "ask", "list files"]
from app.start import main
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "8")
    modules = loaded(asking)
    assert "app.cli.ask" in modules and not modules & {"typer", "app.cli.__main__"}
    short, long = outrider("ask", "how", "do I list files"), outrider("ask", "--no-save", "how", "do I list files")
    assert (short.code, short.out) == (0, long.out) and short.out.strip()
    (tmp_path / ".env").write_text("KEY=1")
    monkeypatch.setenv("OUTRIDER_REMOTE", "https://192.0.2.1")
    monkeypatch.setenv("OUTRIDER_MODE", "auto")
    assert outrider("ask", f"what is in @{tmp_path}/.env").says(2, "outrider: Nothing was sent: ")
    assert outrider("ask", "--colour").code == outrider("ask", " ").code == 2


def test_without_a_terminal_the_chat_is_a_usage_error(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ([], ["chat", "--mode", "offline"]):
        ended = outrider(*arguments)
        assert ended.says(2, "needs a terminal") and ended.out == ""
    monkeypatch.setenv("OUTRIDER_MODE", "sometimes")
    assert outrider().says(2, "OUTRIDER_MODE")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted as Linux lists them")
def test_numpy_has_no_threads_of_its_own() -> None:
    """They would take a core from those of the model for a while after each product."""
    program = "import os; from models.cores import keep_cores_free; keep_cores_free(); import numpy; "
    program += "numpy.ones((300, 300)) @ numpy.ones((300, 300)); print(len(os.listdir('/proc/self/task')))"
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, check=True, cwd=REPOSITORY, env=kept).stdout == b"1\n"
