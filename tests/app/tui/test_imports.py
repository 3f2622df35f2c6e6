from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

from tests.support.serving import REPOSITORY

SCREEN = REPOSITORY / "app" / "tui"


def test_the_screen_needs_neither_the_model_nor_the_network() -> None:
    code = (
        "import sys, app.tui.app; print([name for name in ('torch', 'transformers', 'httpx') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def imported(source: str) -> Iterator[str]:
    """Modules that a file imports, also inside functions and for types only."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_file_of_the_screen_is_in_a_circle_of_imports() -> None:
    files = {".".join(path.relative_to(REPOSITORY).with_suffix("").parts): path for path in SCREEN.rglob("*.py")}
    graph = {
        name: {module for module in imported(path.read_text(encoding="utf-8")) if module in files}
        for name, path in files.items()
    }
    assert graph["app.tui.app"], "the graph is not empty"
    TopologicalSorter(graph).prepare()  # Raises `CycleError`, which names the circle.
