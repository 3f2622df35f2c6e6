"""Light modules stay light: `sys.modules` after an import. The layers themselves are in .importlinter."""

from __future__ import annotations

import subprocess
import sys

from tests.support.serving import REPOSITORY

HEAVY = {"torch", "transformers", "optimum", "accelerate", "starlette", "uvicorn", "prometheus_client"}
CLIENT_PATH = [
    "app.cli.ask",
    "app.reply.assistant",
    "app.cli.doctor",
    "app.remotes.loopback",
    "app.reply.bootstrap",
    "drafter.runtime",
    "drafter.search",
    "remote.client",
    "storage",
]


def loaded_by(modules: list[str]) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after it imported `modules`."""
    program = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    out = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_the_client_path_never_loads_torch() -> None:
    assert not loaded_by(CLIENT_PATH) & (HEAVY | {"textual"})


def test_a_server_needs_pytorch_only_for_the_engine_in_pytorch() -> None:
    server = [f"remote.verifier.{name}" for name in ("serve", "http", "completions")]
    engines = [f"models.engines.{name}" for name in ("choice", "onnx_engine", "memory_encoder")]
    assert not loaded_by(server + engines) & {
        "torch",
        "transformers",
        "safetensors",
        "accelerate",
        "onnx",
    }


def test_the_command_line_is_light() -> None:
    assert not loaded_by(["app.cli.__main__"]) & (
        HEAVY | {"textual", "numpy", "httpx", "onnxruntime", "sqlite_utils", "msgspec", "tree_sitter"}
    )


def test_the_parser_of_commands_is_loaded_by_the_first_command() -> None:
    assert not loaded_by(["app.commands.risks", "app.commands.requests", "app.commands.known"]) & {
        "tree_sitter",
        "markdown_it",
    }


def test_the_screen_never_loads_torch() -> None:
    assert not loaded_by(["app.tui.app"]) & HEAVY
