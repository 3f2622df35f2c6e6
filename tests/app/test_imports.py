"""Who may import whom: what is light stays light, and layers point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving import REPOSITORY

HEAVY = {"torch", "transformers", "optimum", "accelerate", "starlette", "uvicorn"}
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
FORBIDDEN = {
    "drafter": {"app", "remote", "storage", "textual"},
    "storage": {"app", "remote", "drafter", "textual", "torch"},
    "remote": {"app", "storage", "textual"},
    "app": {"torch", "transformers"},
}
TORCH_ROOMS = (
    "drafter/model/",
    "drafter/training/",
    "remote/verifier/",
)


def loaded_by(modules: list[str]) -> set[str]:
    """Top-level packages in `sys.modules` after a fresh interpreter imported `modules`."""
    program = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    out = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_the_client_path_never_loads_torch() -> None:
    assert not loaded_by(CLIENT_PATH) & (HEAVY | {"textual"})


def test_the_command_line_is_light() -> None:
    assert not loaded_by(["app.cli.__main__"]) & (
        HEAVY | {"textual", "numpy", "httpx", "onnxruntime", "sqlite_utils", "msgspec"}
    )


def test_the_screen_never_loads_torch() -> None:
    assert not loaded_by(["app.tui.app"]) & HEAVY


def imports(path: Path) -> Iterator[str]:
    """Top-level packages that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def sources() -> list[str]:
    return sorted(str(path.relative_to(REPOSITORY)) for room in FORBIDDEN for path in (REPOSITORY / room).rglob("*.py"))


@pytest.mark.parametrize("source", sources())
def test_imports_run_one_way(source: str) -> None:
    room = source.partition("/")[0]
    found = set(imports(REPOSITORY / source))
    assert not found & FORBIDDEN[room]
    if not source.startswith("app/tui/"):
        assert "textual" not in found
    if not source.startswith(TORCH_ROOMS):
        assert not found & {"torch", "transformers", "optimum"}
