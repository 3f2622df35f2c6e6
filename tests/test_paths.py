"""Every file, folder, module and class that a document or a comment names is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from app.tui.bindings import actions
from tests.support.prose import comments, docstrings
from tests.support.serving import REPOSITORY
from tests.test_documents import NAMES, text

TOPS = ("app", "benchmarks", "docs", "drafter", "models", "recipes", "remote", "storage", "tests")
PACKAGES = ("app", "drafter", "models", "remote", "storage")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(TOPS)})/[\w./*-]*")
DOTTED = re.compile(rf"`((?:{'|'.join(TOPS)})(?:\.\w+)+)`|-m ((?:{'|'.join(TOPS)})(?:\.\w+)*)")
CLASS = re.compile(r"`([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)*\.\w+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+)`")
ENDINGS = {"onnx", "safetensors", "py", "md", "toml", "json"}
"""A dotted name that ends so is the name of a file, as `drafter.onnx`."""
OTHERS = {"SessionCreation", "ModalScreen"}
"""Classes of other programs."""


@cache
def ignored() -> tuple[str, ...]:
    """The folders that git ignores: programs make them."""
    lines = (REPOSITORY / ".gitignore").read_text().splitlines()
    return tuple(line.strip("/") for line in lines if line.startswith("/") and line.endswith("/"))


def is_there(path: str) -> bool:
    """`NAME`, `DIR` and `NNN` stand for anything; a `*` for any part of a name."""
    path = path.rstrip("./-")
    if any(path == folder or path.startswith(f"{folder}/") for folder in ignored()):
        return True
    if re.search(r"NAME|DIR|NNN", path):
        return (REPOSITORY / path).parent.exists()
    if "*" in path:
        return any(REPOSITORY.glob(path))
    return (REPOSITORY / path).exists()


def module(dotted: str) -> Path | None:
    file = REPOSITORY / dotted.replace(".", "/")
    return next((one for one in (file.with_suffix(".py"), file / "__init__.py") if one.exists()), None)


def resolves(dotted: str) -> bool:
    """A module, or a name in one."""
    known, _, name = dotted, "", ""
    while known and module(known) is None:
        known, _, name = known.rpartition(".")
    if not known or (REPOSITORY / dotted.replace(".", "/")).is_dir():
        return bool(known)
    return dotted == known or name in words(module(known) or REPOSITORY)


@cache
def words(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", path.read_text(encoding="utf-8")))


@cache
def all_words() -> frozenset[str]:
    """Every word in the code of the packages, the recipes and the benchmarks."""
    rooms = (*PACKAGES, "recipes", "benchmarks")
    return frozenset[str]().union(*(words(path) for room in rooms for path in (REPOSITORY / room).rglob("*.py")))


@pytest.mark.parametrize("name", NAMES)
def test_paths_in_documents_are_there(name: str) -> None:
    page = re.sub(r"\]\([^)]*\)|https?://\S+|remote/verifier/pretrained/\S+", "", text(REPOSITORY / name))
    assert [path for path in PATH.findall(page) if not is_there(path)] == []


@pytest.mark.parametrize("name", NAMES)
def test_modules_in_documents_are_there(name: str) -> None:
    ids = {action.id for action in actions({})}
    found = [quoted or run for quoted, run in DOTTED.findall(text(REPOSITORY / name))]
    modules = {dotted for dotted in found if dotted not in ids and not ENDINGS & set(dotted.split("."))}
    assert [dotted for dotted in sorted(modules) if not resolves(dotted)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("CHANGELOG.md", "docs/comparison.md")])
def test_classes_in_documents_are_there(name: str) -> None:
    found = set(CLASS.findall(text(REPOSITORY / name))) - OTHERS
    assert [one for one in sorted(found) if not set(one.split(".")) <= all_words() | ENDINGS] == []


@pytest.mark.parametrize("top", (*PACKAGES, "benchmarks", "docs", "recipes"))
def test_paths_in_docstrings_and_comments_are_there(top: str) -> None:
    wrong = {}
    for source in (REPOSITORY / top).rglob("*.py"):
        page = "\n".join(words.text for words in (*docstrings(source), *comments(source)))
        if missing := [path for path in PATH.findall(page) if not is_there(path)]:
            wrong[str(source.relative_to(REPOSITORY))] = missing
    assert wrong == {}


def test_the_map_has_every_room() -> None:
    page = text(REPOSITORY / "AGENTS.md").partition("### Rooms")[2].partition("\n##")[0]
    rooms = {
        path.parent.relative_to(REPOSITORY).as_posix() for top in PACKAGES for path in (REPOSITORY / top).rglob("*.py")
    }
    assert rooms <= set(re.findall(r"`([\w/]+)/`", page))


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md"])
def test_names_in_brackets_are_in_the_file_before_them(name: str) -> None:
    """A reader finds `Settings` in "`app/config.py` (`Settings`)"."""
    found = re.findall(r"`([\w/]+\.py)` \(`(\w+)`", text(REPOSITORY / name))
    assert found
    assert [(path, word) for path, word in found if word not in words(REPOSITORY / path)] == []
