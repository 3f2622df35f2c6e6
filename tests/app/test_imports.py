"""Light modules stay light: `sys.modules` after an import. The layers themselves are in .importlinter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.serving import REPOSITORY

HEAVY = {"torch", "transformers", "optimum", "accelerate", "starlette", "uvicorn", "prometheus_client"}
CLIENT = "app.cli.ask, app.reply.assistant, app.cli.doctor, app.remotes.loopback, app.reply.bootstrap"
SERVER = "remote.verifier.serve, remote.verifier.http, remote.verifier.completions"
ENGINES = "models.engines.choice, models.engines.onnx_engine, models.engines.memory_encoder"
ARCHIVE = "app.cli.archive, app.archive.exporter, app.archive.importer, app.archive.html, app.archive.markdown"
COMMANDS = "app.commands.risks, app.commands.requests, app.commands.known"
COMMAND_LINE = {"textual", "numpy", "httpx", "onnxruntime", "sqlite_utils", "msgspec", "tree_sitter"}


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        (f"{CLIENT}, drafter.runtime, drafter.search, remote.client, storage", HEAVY | {"textual"}),
        (f"{SERVER}, {ENGINES}", {"torch", "transformers", "safetensors", "accelerate", "onnx"}),
        ("app.cli.__main__", HEAVY | COMMAND_LINE),
        (COMMANDS, {"tree_sitter", "markdown_it"}),
        (ARCHIVE, {"textual", "torch", "onnxruntime", "httpx", "numpy", "tokenizers"}),
        ("app.tui.app", HEAVY),
    ],
    ids=["client", "server", "command line", "commands", "archive", "screen"],
)
def test_what_a_fresh_interpreter_has_not_loaded(modules: str, without: set[str]) -> None:
    program = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    out = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert not set(out.stdout.split()) & without
