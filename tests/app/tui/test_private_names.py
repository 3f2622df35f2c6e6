"""Only `app/tui/textual_private.py` may use what Textual and Rich keep private."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import rich
import textual
from textual.containers import Vertical

import app
import app.tui
from app.tui import textual_private

LIBRARIES = ("textual", "rich")
PUBLIC_BY_CONVENTION = {"_replace", "_asdict", "_fields", "_make"}
"""Methods of every named tuple, whose underscore keeps them apart from its fields."""
OWN_FILES = [path for path in sorted(Path(app.__path__[0]).rglob("*.py")) if path != Path(textual_private.__file__)]


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def touched(tree: ast.AST) -> Iterator[str]:
    """Private names that a class defines, or reads or sets of `self`, `cls` or `super()`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                yield name
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                yield name


@cache
def names_of(kind: type) -> frozenset[str]:
    """The private names in the source of a class, and those of its body."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    assigned = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    assigned += [node.target for node in body if isinstance(node, ast.AnnAssign)]
    fields = {target.id for target in assigned if isinstance(target, ast.Name)}
    return frozenset(name for name in {*touched(tree), *fields} if private(name))


def theirs(kind: type) -> bool:
    return kind.__module__.split(".")[0] in LIBRARIES


def borrowed(kind: type) -> list[str]:
    """The private names of a class that a class of Textual or Rich, among its bases, has too."""
    bases = [base for base in kind.__mro__ if theirs(base)]
    known = {name: base.__name__ for base in bases for name in {*vars(base), *names_of(base)}}
    return [f"{kind.__module__}.{kind.__qualname__}.{name} of {known[name]}" for name in names_of(kind) & set(known)]


def own_classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(app.tui.__path__, f"{app.tui.__name__}."):
        for kind in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(kind) and kind.__module__ == module.name != textual_private.__name__:
                yield kind
                yield from (inner for inner in vars(kind).values() if inspect.isclass(inner) and not theirs(inner))


@cache
def declared_private() -> frozenset[str]:
    """Every private method and attribute in the source of Textual and Rich."""
    files = [path for library in (textual, rich) for path in Path(library.__path__[0]).rglob("*.py")]
    return frozenset(name for path in files for name in touched(ast.parse(path.read_text("utf-8"))) if private(name))


def reached(tree: ast.AST) -> Iterator[str]:
    """Private imports from the two libraries, and their private attributes read of any object but `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if foreign(one.name) and any(map(private, one.name.split("."))))
            case ast.ImportFrom(module=str(module), names=names, level=0) if foreign(module):
                parts = [*module.split("."), *(one.name for one in names)]
                yield from (f"{module}: {part}" for part in parts if private(part))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if private(name) and name not in PUBLIC_BY_CONVENTION:
                if name in declared_private():
                    yield f"{ast.unparse(node)} in line {node.lineno}"


def foreign(module: str) -> bool:
    return module.split(".")[0] in LIBRARIES


def test_no_class_overrides_or_reads_what_its_textual_bases_keep_private() -> None:
    classes = {kind for kind in own_classes() if any(map(theirs, kind.__mro__))}
    assert len(classes) > 30
    assert [name for kind in classes for name in borrowed(kind)] == []


@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: str(path.relative_to(app.__path__[0])))
def test_no_file_reaches_into_textual_or_rich(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    if any(foreign(module) for module in imported(tree)):
        assert list(reached(tree)) == []


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(module)):
                yield module


class Borrower(Vertical):
    """Does what no class of ours may."""

    def _size_updated(self, *args: object) -> bool:
        return self._size is None


def test_the_rule_sees_what_it_forbids() -> None:
    assert sorted(name.split(".")[-1] for name in borrowed(Borrower)) == [
        "_size of Widget",
        "_size_updated of Widget",
    ]
    assert "_keymap" in declared_private()
    code = (
        "import textual._wrap\nfrom rich._wrap import divide_line\nfrom textual import _wrap\napp._keymap\nself._keymap"
    )
    assert list(reached(ast.parse(code))) == [
        "textual._wrap",
        "rich._wrap: _wrap",
        "textual: _wrap",
        "app._keymap in line 4",
    ]
