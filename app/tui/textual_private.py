"""Wraps the private parts of Textual and Rich that the screen needs.

No other module imports a private name of the two, reads a private attribute or overrides a private method; ruff's
SLF001 and tests/app/tui/test_textual_private.py see to that. All tests of the screen pass with Textual 8.2.0 and 8.2.8;
the names have been there since 6.0.

| name here | private name | reason |
|---|---|---|
| `shown_notifications`, `drop_notification` | `App._notifications`, `._unnotify` | replace an identical toast |
| `drop_notification` | `ToastRack._toast_id` | leave no empty line where it was |
| `error_of` | `App._exception` | the log names the fatal error |
| `PlainCrashes` | `App._fatal_error`, `._exit_renderables`, `._close_messages_no_wait` | no secret in a traceback |
| `FewBytes` | `App._display`, `textual._compositor`, `Strip.render_ansi` | over SSH, send only the cells that differ |
| `write_to_terminal` | `App._driver` | copy with a sequence of our own |
| `line_of_option` | `OptionList._update_lines`, `._index_to_line` | a list that is filled again keeps its place |
| `XTermParser`, `BRACKETED_PASTE_...` | `textual._xterm_parser` | a paste is never read as keys |
| `outlive_terminal` | `LinuxDriver._file` | a terminal that has gone stops nothing |
| `LineCache`, `use_line_cache`, `line_caches` | `Widget._styles_cache`, caches of `Strip` | less garbage |
| `style_finder` | `Widget._get_style` | component classes inside of a `Content` |
| `GrowingHeight` | `Widget._size_updated`, `._size` | one more line draws one line |
| `AnchoredScroll` | `Widget._anchored`, `._anchor_released` | know whether the end is followed |
| `AnchoredScroll` | `Widget._size_updated`, `._scroll_to` | one layout for each line; no animation |
| `wrap_offsets` | `rich._wrap.divide_line` | wrap a line without making a `Text` of it |
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rich._wrap import divide_line
from rich.color import ColorSystem
from rich.console import Console
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual._xterm_parser import BRACKETED_PASTE_END as BRACKETED_PASTE_END
from textual._xterm_parser import BRACKETED_PASTE_START as BRACKETED_PASTE_START
from textual._xterm_parser import XTermParser as XTermParser
from textual.app import App
from textual.containers import VerticalScroll
from textual.geometry import Region, Size
from textual.notifications import Notification
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets._toast import ToastRack

from app.ssh import over_ssh
from app.tui.terminal_cells import Cell, TerminalCells, cells

# ---- the application -------------------------------------------------------------------------------------------------


def shown_notifications(app: App[Any]) -> Iterable[Notification]:
    return list(app._notifications)


def drop_notification(app: App[Any], notification: Notification) -> None:
    """Removes a notification and its toast. Textual alone would leave the toast's holder, which takes up a line."""
    app._unnotify(notification, refresh=False)
    for screen in app.screen_stack:
        screen.query(f"#{ToastRack._toast_id(notification)}").remove()


def error_of(app: App[Any]) -> Exception | None:
    return app._exception


class PlainCrashes(App[None]):
    """Prints the traceback of a crash without the values of variables: a token may be among them."""

    def _fatal_error(self) -> None:
        import rich  # Importing it takes 20 ms, which is not needed before a crash.
        from rich.segment import Segments
        from rich.traceback import Traceback

        self.bell()
        traceback = Traceback(width=None, suppress=[rich])
        self._exit_renderables.append(Segments(self.console.render(traceback, self.console.options)))
        self._close_messages_no_wait()


class _CellUpdate(CompositorUpdate):
    """A frame of Textual's, to be sent as the cells that differ."""

    def __init__(self, update: ChopsUpdate | LayoutUpdate, shown: TerminalCells) -> None:
        self._update, self._shown = update, shown

    def render_segments(self, console: Console) -> str:
        colours = console._color_system or ColorSystem.TRUECOLOR
        update = self._update
        if isinstance(update, LayoutUpdate):  # The whole screen: at the start, after another program, or on request.
            columns, lines = update.region.size
            self._shown.forget(lines, columns)
        else:
            columns, lines = max(ends[-1] for ends in update.chop_ends if ends), len(update.chops)
        pieces = ((x, y, _cells_of(strip, colours)) for x, y, strip in _strips(update))
        return self._shown.frame(pieces, lines, columns)


def _strips(update: ChopsUpdate | LayoutUpdate) -> Iterator[tuple[int, int, Strip]]:
    """The strips of a frame with their places, column first. As `render_segments` of the two finds them."""
    if isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips):
            x = 0
            for strip in line:
                yield x, y, strip
                x += strip.cell_length
        return
    for y, first, last in update.spans:
        for end, (x, piece) in zip(update.chop_ends[y], update.chops[y].items()):
            if piece is not None and x <= last and end > first:
                yield x, y, piece if end <= last else piece.crop(0, last - x)


def _cells_of(strip: Strip, colours: ColorSystem) -> list[Cell]:
    found: list[Cell] = []
    for text, style, _ in strip:
        codes = "" if style is None else style._ansi
        found += cells(text, Strip.render_ansi(style, colours) if codes is None else codes)
    return found


class FewBytes(App[None]):
    """Over SSH, sends the cells that differ from what the terminal shows, instead of each line that was drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.terminal_cells = TerminalCells() if over_ssh(os.environ) else None
        """What the terminal shows, if it is at the other end of a line."""

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if self.terminal_cells is not None and isinstance(renderable, ChopsUpdate | LayoutUpdate):
            renderable = _CellUpdate(renderable, self.terminal_cells)
        super()._display(screen, renderable)


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Writes a control sequence to the terminal, if the application has one."""
    if app._driver is not None:
        app._driver.write(sequence)


def line_of_option(options: OptionList, option_id: str) -> int | None:
    """The line on which an option begins, counted from the first; None before the list has a size.

    Raises `OptionDoesNotExist`.
    """
    options._update_lines()
    return options._index_to_line.get(options.get_option_index(option_id))


class _TerminalFile:
    """A file that ignores failed writes.

    A failed write would end Textual's writer thread, for which the screen waits.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with self._maybe_gone():
            self._file.write(text)

    def flush(self) -> None:
        with self._maybe_gone():
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    @contextmanager
    def _maybe_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno == errno.EIO:  # Hung up. Python flushes what is left once more at its end.
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._file.fileno())
                os.close(null)


def outlive_terminal(driver: Any) -> None:
    """Lets the driver of a Unix terminal write to it after it has gone."""
    driver._file = _TerminalFile(driver._file)


# ---- lines -----------------------------------------------------------------------------------------------------------


def wrap_offsets(line: str, width: int) -> list[int]:
    """Offsets at which a line is cut so that each piece fits into `width` cells. A longer word is cut too."""
    return divide_line(line, width, fold=True)


def style_finder(widget: Widget) -> Callable[[str | Style], Style]:
    """Finds the style of a component class such as ".code_inline", for `Content.render`."""
    return widget._get_style


class LineCache(StylesCache):
    """Keeps the drawn lines of a widget that are in view, and frees the others at once.

    Textual's own cache keeps every line that was ever in view, thirty objects each, and a full-width line refers to
    itself. In a chat that streams, collections of all that garbage took 100 ms each, once a second; without it they
    take 20 ms.
    """

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        for y in [y for y in self._cache if y in self._dirty_lines or y not in crop.line_range]:
            _break_cycles(self._cache.pop(y))
        return super().render_widget(widget, crop)

    def clear(self) -> None:
        for strip in self._cache.values():
            _break_cycles(strip)
        super().clear()


def _break_cycles(strip: Strip) -> None:
    """Breaks the cycles of a strip, and of the copies that were made of it to be drawn."""
    for copies in (strip._filter_cache._cache, strip._crop_cache._cache, strip._style_cache._cache):
        for copy in copies.values():
            copy._divide_cache.clear()
    strip._divide_cache.clear()


def use_line_cache(widget: Widget) -> None:
    """Gives a widget a `LineCache`."""
    widget._styles_cache = LineCache()


def line_caches(widgets: Iterable[Widget]) -> Sequence[StylesCache]:
    """The caches of drawn lines of these widgets and of all inside them, to be cleared once the widgets are gone.

    `StylesCache.get_inner_outer` remembers the last thousand caches with every line that they hold, and each garbage
    collection walks through all of that.
    """
    return [inner._styles_cache for widget in widgets for inner in widget.walk_children(Widget, with_self=True)]


# ---- sizes and scrolling ---------------------------------------------------------------------------------------------


class GrowingHeight(Widget):
    """Draws only what it refreshes itself when its height changes.

    Put it behind a container among the base classes: styles are inherited from the first one.
    """

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        if size.width == self._size.width:
            self._size = size  # Else Textual draws all rows again because there is one more.
        return super()._size_updated(size, virtual_size, container_size, layout=False)


class AnchoredScroll(VerticalScroll):
    """Scrolls at once, says when it is asked to, and is laid out once for each line that comes."""

    @property
    def follows_end(self) -> bool:
        return self._anchored and not self._anchor_released

    def release_end(self, *, until_reached: bool) -> None:
        """Stops following the end; `until_reached`: follows it again once somebody scrolls there."""
        self._anchored, self._anchor_released = until_reached, True

    def before_scroll(self) -> None:
        """Called when the person or the program is about to scroll; for subclasses."""

    def _scroll_to(self, *args: Any, **options: Any) -> bool:
        self.before_scroll()
        # A jump: widgets mounted above during an animation would shift its target, and each frame costs a redraw.
        return super()._scroll_to(*args, **{**options, "animate": False})

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual would lay everything out a second time for each new line, because there is one more to scroll.
        changed = virtual_size != self.virtual_size
        updated = super()._size_updated(size, virtual_size, container_size, layout=False)
        if changed:
            self.watch_virtual_size(virtual_size)
        return updated

    def watch_virtual_size(self, size: Size) -> None:
        """Called when there is more or less to scroll; for subclasses."""
