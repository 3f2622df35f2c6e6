"""What `app/tui/textual_private.py` does with Textual and Rich, and that no other module uses what they keep private.

ruff's SLF001 forbids private attributes of other objects everywhere in `app/`; here are private imports, and private
names that a class of ours shares with a base class of theirs.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import os
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.events import MouseScrollUp
from textual.geometry import Region, Size
from textual.strip import Strip

import app
from app.tui import textual_private
from app.tui.bracketed_paste import PasteDriver, with_whole_pastes
from app.tui.textual_private import AnchoredScroll, GrowingHeight, LineCache
from tests.app.tui.scripted import wait_until
from tests.app.tui.window import started

# ---- nobody else -----------------------------------------------------------------------------------------------------


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


@cache
def names_of(kind: type) -> frozenset[str]:
    """The private names that a class defines, or reads or sets of `self`, `cls` or `super()`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    fields = [node.target for node in body if isinstance(node, ast.AnnAssign)]
    fields += [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    found = {field.id for field in fields if isinstance(field, ast.Name)}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                found.add(name)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                found.add(name)
    return frozenset(filter(private, found))


def theirs(kind: type) -> bool:
    return kind.__module__.split(".")[0] in ("textual", "rich")


def borrowed(kind: type) -> list[str]:
    """The private names of a class that a class of Textual or Rich, among its bases, has too."""
    known = {name: base.__name__ for base in kind.__mro__ if theirs(base) for name in names_of(base)}
    return sorted(f"{kind.__qualname__}.{name} of {known[name]}" for name in names_of(kind) & set(known))


def own_classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(app.tui.__path__, "app.tui."):
        for kind in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(kind) and kind.__module__ == module.name != textual_private.__name__:
                yield kind


def test_no_class_overrides_or_reads_what_its_textual_bases_keep_private() -> None:
    classes = [kind for kind in own_classes() if any(map(theirs, kind.__mro__))]
    assert len(classes) > 30
    assert [name for kind in classes for name in borrowed(kind)] == []


class Borrower(Vertical):
    """Does what no class of ours may."""

    def _size_updated(self, *args: object) -> bool:
        return self._size is None


def test_the_rule_sees_what_it_forbids() -> None:
    assert borrowed(Borrower) == ["Borrower._size of Widget", "Borrower._size_updated of Widget"]


def test_no_other_file_imports_a_private_module_or_name() -> None:
    files = [path for path in Path(app.__path__[0]).rglob("*.py") if path != Path(textual_private.__file__)]
    hidden = re.compile(
        r"^\s*(from (textual|rich)[\w.]*\._|import (textual|rich)[\w.]*\._|from (textual|rich).* import _)"
    )
    assert [path for path in files for line in path.read_text("utf-8").splitlines() if hidden.match(line)] == []


# ---- what it does ----------------------------------------------------------------------------------------------------

LINES = 60
BOLD = RichStyle(bold=True)


class Growing(GrowingHeight):
    """Lines that are drawn one by one, and counted."""

    DEFAULT_CSS = "Growing { height: auto; }"

    def __init__(self) -> None:
        super().__init__()
        textual_private.use_line_cache(self)
        self.lines = LINES
        self.drawn: list[int] = []

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.lines

    def render_line(self, y: int) -> Strip:
        self.drawn.append(y)
        return Strip([Segment(f"line {y}")]).adjust_cell_length(self.size.width)

    def grow(self) -> None:
        self.lines += 1
        self.refresh(Region(0, self.lines - 1, self.size.width, 1), layout=True)


class Scroll(AnchoredScroll):
    """Counts what it is told."""

    asked = arranged = 0

    def before_scroll(self) -> None:
        self.asked += 1

    def arrange(self, size: Size, optimal: bool = False) -> Any:
        self.arranged += 1
        return super().arrange(size, optimal)


class Host(App[None]):
    def compose(self) -> ComposeResult:
        yield Scroll(Growing())

    @property
    def scroll(self) -> Scroll:
        return self.query_one(Scroll)

    @property
    def growing(self) -> Growing:
        return self.query_one(Growing)


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


def test_a_terminal_that_has_gone_can_be_written_to() -> None:
    assert with_whole_pastes(LinuxDriver) is PasteDriver
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.suppress(BrokenPipeError), open(writer, "w") as file:
        driver = SimpleNamespace(_file=file)
        textual_private.outlive_terminal(driver)
        thread = WriterThread(driver._file)
        thread.start()
        for _ in range(100):
            thread.write("x")
        thread.stop()


async def test_drawn_lines_out_of_view_are_forgotten_and_those_in_view_kept() -> None:
    async with started(Host(), (40, 10)) as (app, pilot):
        cache = app.growing._styles_cache
        assert isinstance(cache, LineCache)
        for y in (5, 20, 50, 30):
            app.scroll.scroll_to(y=y, immediate=True)
            await wait_until(pilot, lambda: sorted(cache._cache) == list(range(y, y + 10)))  # noqa: B023
        drawn = [copy for strip in cache._cache.values() for copy in (strip, strip.crop(0, 5), strip.apply_style(BOLD))]
        for strip in drawn:
            assert strip.divide([strip.cell_length]) and len(strip._divide_cache) > 0
        caches = textual_private.line_caches([app.scroll])
        assert caches == [app.scroll._styles_cache, cache]
        for one in caches:
            one.clear()
        assert cache._cache == {}
        assert [len(strip._divide_cache) for strip in drawn] == [0] * len(drawn), (
            "a strip that refers to itself is garbage"
        )


async def test_a_line_more_draws_one_line_and_is_laid_out_once() -> None:
    async with started(Host(), (40, 10)) as (app, pilot):
        growing, scroll = app.growing, app.scroll
        for lines in (4, LINES):
            growing.lines = lines
            growing.refresh(layout=True)
            await wait_until(pilot, lambda: growing.size.height == lines)  # noqa: B023
            await pilot.pause()
            growing.drawn.clear()
            rounds = []
            for _ in range(2):
                scroll.arranged = 0
                growing.grow()
                await wait_until(pilot, lambda: growing.size.height == growing.lines)
                await pilot.pause()
                rounds.append(scroll.arranged)
            assert rounds[0] == rounds[1] and scroll.virtual_size.height == max(10, growing.lines)
            assert growing.drawn == ([4, 5] if lines == 4 else []), "what is out of view is not drawn at all"


async def test_the_end_is_followed_until_somebody_scrolls_and_each_way_to_scroll_jumps_and_is_announced() -> None:
    async with started(Host(), (40, 10)) as (app, pilot):
        scroll = app.scroll
        assert not scroll.follows_end and not scroll.is_anchored
        scroll.anchor(True)
        await wait_until(pilot, lambda: scroll.follows_end and scroll.scroll_y == scroll.max_scroll_y > 0)
        app.growing.grow()
        await wait_until(pilot, lambda: scroll.max_scroll_y == LINES + 1 - 10 == scroll.scroll_y)
        scroll.scroll_to(y=20, immediate=True)
        assert not scroll.follows_end and scroll.is_anchored
        scroll.scroll_end(immediate=True)
        await wait_until(pilot, lambda: scroll.follows_end)
        scroll.release_end(until_reached=False)
        assert not scroll.follows_end and not scroll.is_anchored
        scroll.release_end(until_reached=True)
        assert not scroll.follows_end and scroll.is_anchored
        scroll.scroll_to(y=40)
        await wait_until(pilot, lambda: scroll.scroll_y == 40)
        wheel = MouseScrollUp(scroll, 3, 3, 0, 0, 0, False, False, False, screen_x=3, screen_y=3)
        end = LINES + 1 - 10
        for move, place in (
            (lambda: scroll.post_message(wheel), 40 - app.scroll_sensitivity_y),
            (lambda: scroll.scroll_relative(y=10, immediate=True), 50 - app.scroll_sensitivity_y),
            (lambda: scroll.scroll_home(), 0),
            (lambda: scroll.scroll_end(), end),
            (lambda: scroll.scroll_up(), end - 1),
            (lambda: scroll.scroll_page_up(), end - 11),
        ):
            asked, seen = scroll.asked, set()
            move()
            await wait_until(pilot, lambda: seen.add(scroll.scroll_y) or scroll.scroll_y == place)  # noqa: B023
            # What is anchored may have reached the end a moment before it jumps there.
            await wait_until(pilot, lambda: scroll.asked > asked)  # noqa: B023
            assert len(seen) <= 2, "a jump has no places between"
