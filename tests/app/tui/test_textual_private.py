"""What `app/tui/textual_private.py` needs of Textual and Rich: names, parameters, and what they do.

Each test has the name of what a new release has moved or changed.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from rich._wrap import divide_line
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual._styles_cache import StylesCache
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.events import MouseScrollUp
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget
from textual.widgets import OptionList, Static

from app.tui import textual_private
from app.tui.bracketed_paste import PasteDriver, with_whole_pastes
from app.tui.textual_private import AnchoredScroll, GrowingHeight, LineCache
from tests.app.tui.scripted import wait_until

LINES = 60
BOLD = RichStyle(bold=True)


class Growing(GrowingHeight):
    """Lines that are drawn one by one, and counted."""

    COMPONENT_CLASSES = {"strong"}
    DEFAULT_CSS = "Growing { height: auto; } Growing > .strong { text-style: bold; }"

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

    def __init__(self, *children: Widget) -> None:
        super().__init__(*children)
        self.asked = 0
        self.heights: list[int] = []
        self.arranged = 0

    def before_scroll(self) -> None:
        self.asked += 1

    def watch_virtual_size(self, size: Size) -> None:
        self.heights.append(size.height)

    def arrange(self, size: Size, optimal: bool = False) -> Any:
        self.arranged += 1
        return super().arrange(size, optimal)


class Host(App[None]):
    BINDINGS = [Binding("f5", "bell", "Ring", id="host.ring")]

    def compose(self) -> ComposeResult:
        yield Scroll(Growing())

    @property
    def scroll(self) -> Scroll:
        return self.query_one(Scroll)

    @property
    def growing(self) -> Growing:
        return self.query_one(Growing)


# ---- names -----------------------------------------------------------------------------------------------------------

METHODS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (App._unnotify, ("notification", "refresh")),
    (OptionList._update_lines, ()),
    (Widget._get_style, ("style",)),
    (Widget._size_updated, ("size", "virtual_size", "container_size", "layout")),
    (Widget._scroll_to, ("x", "y", "animate", "release_anchor")),
    (StylesCache.render_widget, ("widget", "crop")),
    (StylesCache.clear, ()),
    (XTermParser.__init__, ("debug",)),
    (XTermParser.feed, ("data",)),
    (XTermParser.tick, ()),
    (divide_line, ("text", "width", "fold")),
]


@pytest.mark.parametrize(("method", "parameters"), METHODS, ids=lambda one: getattr(one, "__qualname__", ""))
def test_a_private_method_takes(method: Callable[..., Any], parameters: tuple[str, ...]) -> None:
    known = inspect.signature(method).parameters
    assert set(parameters) <= set(known)
    needed = [name for name, one in known.items() if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    assert set(needed) <= {"self", *parameters}


@pytest.mark.parametrize("name", ["_size_updated", "_scroll_to", "_get_style"])
@pytest.mark.parametrize("container", [VerticalScroll.__mro__[1], VerticalScroll])
def test_no_container_overrides(container: type[Widget], name: str) -> None:
    assert name not in vars(container), "A mixin of ours stands behind the containers."


@pytest.mark.parametrize(
    ("owner", "name", "kind"),
    [
        (App, "_keymap", dict),
        (App, "_clipboard", str),
        (App, "_driver", object),
        (App, "_exception", type(None)),
        (App, "_notifications", object),
        (DOMNode, "_bindings", object),
        (Widget, "_styles_cache", StylesCache),
        (Widget, "_size", Size),
        (Widget, "_anchored", bool),
        (Widget, "_anchor_released", bool),
        (StylesCache, "_cache", dict),
        (StylesCache, "_dirty_lines", set),
        (Strip, "_filter_cache", object),
        (Strip, "_crop_cache", object),
        (Strip, "_style_cache", object),
        (Strip, "_divide_cache", object),
    ],
)
async def test_a_private_attribute_is_there(owner: type, name: str, kind: type) -> None:
    app = Host()
    async with app.run_test():
        live: dict[type, object] = {App: app, DOMNode: app, Widget: app.screen, StylesCache: StylesCache()}
        value = getattr(live.get(owner, Strip([Segment("x")])), name)
        assert isinstance(value, kind)
        if owner is Strip:
            value.clear()
            assert name == "_divide_cache" or list(value._cache.values()) == []


# ---- the application -------------------------------------------------------------------------------------------------


async def test_keymap_and_bindings() -> None:
    app = Host()
    app.set_keymap({"host.ring": "f9"})
    async with app.run_test():
        assert textual_private.keymap_of(app) == {"host.ring": "f9"}
        bindings = textual_private.bindings_of(app)
        assert {binding.id: binding.key for _, binding in bindings}["host.ring"] == "f5"
        bindings.apply_keymap(textual_private.keymap_of(app))
        assert {binding.id: binding.key for _, binding in bindings}["host.ring"] == "f9"
        assert "host.ring" in {binding.id for _, binding in textual_private.bindings_of(app) if binding.key == "f5"}


async def test_notifications() -> None:
    app = Host()
    async with app.run_test() as pilot:
        app.notify("one")
        app.notify("two")
        await wait_until(pilot, lambda: len(list(textual_private.shown_notifications(app))) == 2)
        for shown in textual_private.shown_notifications(app):
            if shown.message == "one":
                textual_private.drop_notification(app, shown)
        assert [one.message for one in textual_private.shown_notifications(app)] == ["two"]


async def test_the_error_that_ended_the_application() -> None:
    app = Host()

    def fail() -> None:
        raise ArithmeticError("broken")

    with pytest.raises(ArithmeticError):
        async with app.run_test() as pilot:
            assert textual_private.error_of(app) is None
            app.call_later(fail)
            await pilot.pause()
    assert isinstance(textual_private.error_of(app), ArithmeticError)


async def test_the_clipboard_and_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Host()
    written: list[str] = []
    async with app.run_test():
        monkeypatch.setattr(app._driver, "write", written.append)
        textual_private.keep_as_clipboard(app, "words")
        assert app.clipboard == "words" and written == []
        textual_private.write_to_terminal(app, "\a")
        assert written == ["\a"]
    textual_private.write_to_terminal(Host(), "\a")  # Before it has a terminal nothing happens.


async def test_the_line_of_an_option() -> None:
    class Listing(App[None]):
        def compose(self) -> ComposeResult:
            yield OptionList("one\nmore", "two", id="list")

    app = Listing()
    async with app.run_test():
        options = app.query_one(OptionList)
        options.add_option(textual_option("last\nline", "last"))
        assert textual_private.line_of_option(options, "last") == 3


def textual_option(text: str, name: str) -> Any:
    from textual.widgets.option_list import Option

    return Option(text, id=name)


def test_a_terminal_that_has_gone_can_be_written_to() -> None:
    assert with_whole_pastes(LinuxDriver) is PasteDriver
    assert "_file" in LinuxDriver.start_application_mode.__code__.co_names
    for name in ("write", "flush"):
        assert name in WriterThread.run.__code__.co_names
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


async def test_a_crash_shows_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(textual_private.PlainCrashes):
        def on_mount(self) -> None:
            token = "S3cret"
            raise LookupError(len(token))

    broken = Broken()
    with pytest.raises(LookupError):
        async with broken.run_test():
            pass
    assert "S3cret" not in capsys.readouterr().err.replace('token = "S3cret"', "")


# ---- lines -----------------------------------------------------------------------------------------------------------


def test_where_a_line_is_cut() -> None:
    assert textual_private.wrap_offsets("one two three", 8) == [8]
    assert textual_private.wrap_offsets("x" * 10, 4) == [4, 8]
    assert textual_private.wrap_offsets("日本語", 4) == [2]


async def test_the_style_of_a_component_class() -> None:
    app = Host()
    async with app.run_test():
        find = textual_private.style_finder(app.growing)
        plain = Style(italic=True)
        assert find(".strong").bold and find(plain) is plain
        (text, style), *_ = Content.styled("x", ".strong").render(Style(), end="", parse_style=find)
        assert text == "x" and style.bold


async def test_drawn_lines_out_of_view_are_forgotten_and_those_in_view_kept() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
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
        assert [len(strip._divide_cache) for strip in drawn] == [0] * len(drawn)


# ---- sizes and scrolling ---------------------------------------------------------------------------------------------


async def test_a_line_more_draws_one_line() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        growing = app.growing
        growing.lines = 4
        growing.refresh(layout=True)
        await wait_until(pilot, lambda: growing.size.height == 4)
        await pilot.pause()
        growing.drawn.clear()
        growing.grow()
        await wait_until(pilot, lambda: growing.size.height == 5 and bool(growing.drawn))
        await pilot.pause()
        assert growing.drawn == [4]


async def test_more_to_scroll_is_told_and_laid_out_once() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        await wait_until(pilot, lambda: app.scroll.virtual_size.height == LINES)
        await pilot.pause()
        app.scroll.heights.clear()
        app.scroll.arranged = 0
        app.growing.grow()
        await wait_until(pilot, lambda: app.scroll.heights == [LINES + 1])
        await pilot.pause()
        assert app.scroll.virtual_size.height == LINES + 1 and app.scroll.heights == [LINES + 1]
        once = app.scroll.arranged
        app.growing.grow()
        await wait_until(pilot, lambda: app.scroll.heights[-1] == LINES + 2)
        await pilot.pause()
        assert app.scroll.arranged == 2 * once


async def test_the_end_is_followed_until_somebody_scrolls_and_again_from_there() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
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


async def test_each_way_to_scroll_is_announced_and_jumps() -> None:
    app = Host()
    async with app.run_test(size=(40, 10)) as pilot:
        scroll = app.scroll
        scroll.focus()
        scroll.scroll_to(y=40)
        await wait_until(pilot, lambda: scroll.scroll_y == 40)
        for number, (move, place) in enumerate(
            [
                (lambda: scroll.post_message(wheel(scroll)), 40 - app.scroll_sensitivity_y),
                (lambda: scroll.scroll_relative(y=10, immediate=True), 50 - app.scroll_sensitivity_y),
                (lambda: scroll.scroll_home(), 0),
                (lambda: scroll.scroll_end(), LINES - 10),
                (lambda: scroll.scroll_up(), LINES - 11),
                (lambda: scroll.scroll_page_up(), LINES - 21),
            ]
        ):
            asked, seen = scroll.asked, set()
            move()
            await wait_until(pilot, lambda: seen.add(scroll.scroll_y) or scroll.scroll_y == place)  # noqa: B023
            assert scroll.asked > asked, number
            assert len(seen) <= 2, "a jump has no places between"


def wheel(widget: Widget) -> MouseScrollUp:
    return MouseScrollUp(widget, 3, 3, 0, 0, 0, False, False, False, screen_x=3, screen_y=3)


async def test_styles_reach_what_has_a_mixin_behind_its_container() -> None:
    class Boxed(VerticalScroll, GrowingHeight):
        pass

    class Showing(App[None]):
        CSS = "VerticalScroll { padding: 1 2; } GrowingHeight { padding: 3; }"

        def compose(self) -> ComposeResult:
            yield Boxed(Static("x"))

    app = Showing()
    async with app.run_test():
        assert app.query_one(Boxed).styles.padding == (1, 2, 1, 2)
