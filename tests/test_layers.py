"""The layers: who may import whom, read from the syntax trees, so imports in functions and for types count too.

A failure names file and line, and what to do. AGENTS.md tells why the layers are as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.import_graph import Import, circles, imported_names, imports, modules
from tests.support.serving import REPOSITORY

PACKAGES = {
    "app": {"drafter", "models", "remote", "storage"},
    "remote": {"drafter", "models"},
    "drafter": {"models"},
    "models": set(),
    "storage": set(),
}
"""The packages, and the others that each may import."""
GROUND = "ground"
GROUND_FILES = {"config", "events", "prompts", "sanitise", "titles", "invisible_text", "version", "files"}
GROUND_FILES |= {"concurrency", "editor", "system_prompts", "model_names", "own_process", "complete_markdown"}
LAYERS = (
    {GROUND},
    {"log"},
    {"attachments"},
    {"remotes", "archive", "commands"},
    {"drafting", "exits"},
    {"reply"},
    {"tui", "shell", "gateway"},
    {"cli"},
    {"start"},
)
"""The rooms of `app/`, lowest first. An import goes to a lower layer, or stays in its room."""
TRAINING = "drafter.training"
TRAINING_ROOMS = (
    *("drafter/training/", "app/cli/drafter_tools.py", "app/drafting/learning.py"),
    "remote/verifier/birth.py",
    "remote/verifier/learning/worker.py",
)
LIBRARIES = {
    "textual": ("app/tui/",),
    "torch": ("drafter/model/", "drafter/training/", "models/engines/", "models/gguf/", "remote/verifier/"),
}
LIBRARIES["tree_sitter"] = LIBRARIES["tree_sitter_bash"] = ("app/commands/",)
LIBRARIES["transformers"] = LIBRARIES["optimum"] = LIBRARIES["torch"]
"""Which files may import a library. What loads them is slow to start, or cannot be installed everywhere."""


@dataclass(frozen=True)
class Violation:
    """One broken rule: what breaks it, where it is, and what to do."""

    name: str
    place: str
    advice: str

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.advice}"


# ---- the rules -------------------------------------------------------------------------------------------------------


def package_violations(root: Path) -> Iterator[Violation]:
    """Imports from one of the four packages into another that it may not import."""
    for one in imports(root, *PACKAGES):
        package, needed = one.module.partition(".")[0], one.needs.partition(".")[0]
        if needed != package and needed not in PACKAGES[package]:
            allowed = ", ".join(sorted(PACKAGES[package])) or "no other package"
            yield violation(root, one, f"{package}/ may import {allowed}; move the piece down, or pass it in")


def layer_violations(root: Path) -> Iterator[Violation]:
    """Imports within `app/` that go up, or sideways into another room."""
    for one in imports(root, "app"):
        here, there = room(one.module), room(one.needs)
        if here == there:
            continue
        floor, needed = layer(here), layer(there)
        if floor is None or needed is None:
            unknown = here if floor is None else there
            yield violation(root, one, f"give {unknown} a place in LAYERS of tests/test_layers.py")
        elif needed >= floor:
            lower = sorted(name for below in LAYERS[:floor] for name in below)
            yield violation(root, one, f"{here} may import {', '.join(lower) or 'nothing'}; move the piece down")


def circle_violations(root: Path) -> Iterator[Violation]:
    """Files of a package that import one another, directly or by way of others."""
    for package in (*PACKAGES, "benchmarks", "recipes"):
        found = imports(root, package)
        edges: dict[str, set[str]] = {module: set() for module in modules(root, package)}
        for one in found:
            edges[one.module].add(one.needs)
        for circle in circles(edges):
            inside = [one for one in found if one.module in circle and one.needs in circle]
            common = os.path.commonprefix([[*module.split(".")] for module in circle])
            steps = "; ".join(f"{place(root, one)} needs {one.needs}" for one in inside)
            advice = f"these files import one another, so none can be read alone; break the circle: {steps}"
            yield Violation(f"circle in {'.'.join(common)}", place(root, inside[0]), advice)


def training_violations(root: Path) -> Iterator[Violation]:
    """Imports of training by code that runs without it."""
    for one in imports(root, *PACKAGES):
        into = one.needs == TRAINING or one.needs.startswith(f"{TRAINING}.")
        if into and not file_of(root, one.module).startswith(TRAINING_ROOMS):
            yield violation(root, one, f"only {' and '.join(TRAINING_ROOMS)} import training; move the piece out of it")


def library_violations(root: Path) -> Iterator[Violation]:
    """Imports of a library by a file that may not need it."""
    for module, path in modules(root, *PACKAGES).items():
        for name, line in imported_names(path):
            library = name.partition(".")[0]
            file = file_of(root, module)
            if library in LIBRARIES and not file.startswith(LIBRARIES[library]):
                allowed = ", ".join(LIBRARIES[library])
                yield Violation(f"{module} -> {library}", f"{file}:{line}", f"only {allowed} may import {library}")


def init_violations(root: Path) -> Iterator[Violation]:
    """`__init__.py` files in `app/` that hold anything: each import of a room would run it."""
    for path in sorted((root / "app").rglob("__init__.py")):
        if path.read_text(encoding="utf-8").strip():
            file = str(path.relative_to(root))
            yield Violation(f"{file} is not empty", f"{file}:1", "empty it: the first frame must not wait for it")


RULES = [
    package_violations,
    layer_violations,
    circle_violations,
    training_violations,
    library_violations,
    init_violations,
]


# ---- reading ---------------------------------------------------------------------------------------------------------


def room(module: str) -> str:
    """`app.remotes.check` is in `remotes`, `app.config` in `ground`, `app.log` in `log`."""
    name = (*module.split("."), "app")[1]
    return GROUND if name in GROUND_FILES else name


def layer(name: str) -> int | None:
    return next((number for number, rooms in enumerate(LAYERS) if name in rooms), None)


def file_of(root: Path, module: str) -> str:
    path = root / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.relative_to(root).as_posix()


def place(root: Path, one: Import) -> str:
    return f"{file_of(root, one.module)}:{one.line}"


def violation(root: Path, one: Import, advice: str) -> Violation:
    return Violation(f"{one.module} -> {one.needs}", place(root, one), advice)


# ---- the tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_layers_hold(rule: Callable[[Path], Iterator[Violation]]) -> None:
    found = list(rule(REPOSITORY))
    assert not found, "\n".join(map(str, found))


BROKEN = {
    "app/__init__.py": "x = 1",
    "app/config.py": "",
    "app/attic/__init__.py": "",
    "app/attic/box.py": "from app import config",
    "app/archive/__init__.py": "",
    "app/archive/paper.py": "import app.remotes.near",
    "app/remotes/__init__.py": "",
    "app/remotes/near.py": "def f():\n    from app.remotes import far",
    "app/remotes/far.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from app.remotes.near import X\n",
    "app/cli/__init__.py": "",
    "app/cli/door.py": "from drafter.training.loop import train\nimport torch",
    "app/log.py": "def f():\n    from app.cli.door import x",
    "drafter/__init__.py": "",
    "drafter/core.py": "from storage import shelf\nimport importlib\nimportlib.import_module('drafter.training.loop')",
    "drafter/training/__init__.py": "",
    "drafter/training/loop.py": "from drafter import core\nimport torch",
    "remote/__init__.py": "import textual.app",
    "storage/__init__.py": "",
    "storage/shelf.py": "",
}
"""A tree in which each rule is broken."""


def test_each_rule_can_fail(tmp_path: Path) -> None:
    for name, text in BROKEN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {rule.__name__: [(one.name, one.place) for one in rule(tmp_path)] for rule in RULES}
    assert found == {
        "package_violations": [("drafter.core -> storage.shelf", "drafter/core.py:1")],
        "layer_violations": [
            ("app.archive.paper -> app.remotes.near", "app/archive/paper.py:1"),
            ("app.attic.box -> app.config", "app/attic/box.py:1"),
            ("app.log -> app.cli.door", "app/log.py:2"),
        ],
        "circle_violations": [
            ("circle in app.remotes", "app/remotes/far.py:3"),
            ("circle in drafter", "drafter/core.py:3"),
        ],
        "training_violations": [
            ("app.cli.door -> drafter.training.loop", "app/cli/door.py:1"),
            ("drafter.core -> drafter.training.loop", "drafter/core.py:3"),
        ],
        "library_violations": [
            ("app.cli.door -> torch", "app/cli/door.py:2"),
            ("remote -> textual", "remote/__init__.py:1"),
        ],
        "init_violations": [("app/__init__.py is not empty", "app/__init__.py:1")],
    }


def test_no_import_is_relative() -> None:
    """The rules read absolute names only."""
    import ast

    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}: write the whole name"
        for path in modules(REPOSITORY, *PACKAGES).values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not found, "\n".join(found)
