"""Reports are switched off before any library that sends them is imported."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.telemetry import OFF
from tests.support.serving import REPOSITORY

ORT = "models/ort.py"
ROOMS = ("app", "benchmarks", "docs", "drafter", "models", "recipes", "remote", "storage", "tests")
STARTED = {
    "outrider": "import sys; sys.argv = ['outrider']; from app.start import main; main()",
    "python -m app.cli": "import sys; sys.argv = ['outrider', 'keys']; from app.cli.__main__ import main; main()",
    "python -m benchmarks": "import benchmarks",
    "python -m recipes": "import recipes",
    "python -m pytest": "import tests",
    "a program that uses the drafter": "import models.ort",
}
TOLD = "\nfinally:\n import os, sys; print(*sorted(os.environ.items()), sep='\\n', file=sys.stderr)"


def sources() -> list[Path]:
    return sorted(file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py"))


def names(tree: ast.AST) -> Iterator[str]:
    """Names of modules that are imported anywhere in a file, also by a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "import_module",
            "__import__",
        ):
            yield from (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_one_module_imports_onnx_runtime() -> None:
    found = {
        str(file.relative_to(REPOSITORY))
        for file in sources()
        if any(name.partition(".")[0] == "onnxruntime" for name in names(ast.parse(file.read_text(encoding="utf-8"))))
    }
    assert found == {ORT}


@pytest.mark.parametrize("program", STARTED.values(), ids=STARTED.keys())
def test_every_way_in_switches_it_off(program: str, tmp_path: Path) -> None:
    """Reports are off whatever the environment says. ONNX Runtime reads it when it is imported; later is too late."""
    environment = {**os.environ, **dict.fromkeys(OFF, "wrong"), "OUTRIDER_HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", f"try:\n {program}{TOLD}"],
        cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    lines = told.stderr.splitlines()
    assert [line for line in lines if line.startswith("('ORT_DISABLE")] == ["('ORT_DISABLE_TELEMETRY', '1')"], (
        told.stderr
    )
    assert {str(item) for item in OFF.items()} <= set(lines)


def test_it_is_off_before_the_import_and_after_it() -> None:
    """The order of the file: the call, the import, and the library's own switch."""
    body = [ast.unparse(node) for node in ast.parse((REPOSITORY / ORT).read_text(encoding="utf-8")).body]
    places = [
        body.index(line) for line in ("switch_off()", "import onnxruntime", "onnxruntime.disable_telemetry_events()")
    ]
    assert places == sorted(places)
