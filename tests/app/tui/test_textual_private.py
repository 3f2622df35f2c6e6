"""What `app/tui/textual_private.py` does with Textual and Rich, and that no other module uses what they keep private.

ruff's SLF001 forbids private attributes of other objects everywhere in `app/`; here are private imports, and private
names that a class of ours shares with a base class of theirs.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest
from textual.containers import Vertical

import app
from app.tui import textual_private


@cache
def private(kind: type) -> frozenset[str]:
    """The private names that a class defines, or reads or sets of `self`, `cls` or `super()`."""
    names = r"(?:\b(?:self|cls|super\(\))\.|def |^    )(_(?!_)\w+)"
    return frozenset(re.findall(names, inspect.getsource(kind), re.MULTILINE))


def borrowed(kind: type) -> set[str]:
    """Those that a class of Textual or Rich, among its bases, has too."""
    theirs = [base for base in kind.__mro__ if base.__module__.split(".")[0] in ("textual", "rich")]
    return {name for base in theirs for name in private(kind) & private(base)}


class Borrower(Vertical):
    def _size_updated(self, *args: object) -> bool:
        return self._size is None


def test_no_class_overrides_or_reads_what_its_textual_bases_keep_private() -> None:
    assert borrowed(Borrower) == {"_size", "_size_updated"}
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(app.tui.__path__, "app.tui.")]
    for module in modules:
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == module.__name__ != textual_private.__name__:
                assert not borrowed(kind), kind


def test_no_other_file_imports_a_private_module_or_name() -> None:
    files = [path for path in Path(app.__path__[0]).rglob("*.py") if path != Path(textual_private.__file__)]
    hidden = re.compile(r"^\s*((from|import) (textual|rich)[\w.]*\._|from (textual|rich).* import _)")
    assert [path for path in files for line in path.read_text("utf-8").splitlines() if hidden.match(line)] == []


async def test_a_crash_shows_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(textual_private.PlainCrashes):
        def on_mount(self) -> None:
            token = "S3cret"
            raise LookupError(len(token))

    broken = Broken()
    with pytest.raises(LookupError):
        async with broken.run_test():
            pass
    assert isinstance(textual_private.error_of(broken), LookupError)
    assert "S3cret" not in capsys.readouterr().err.replace('token = "S3cret"', "")
