"""The turns of one conversation, of which only those near the view are mounted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from textual import events, on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.message import Message
from textual.scrollbar import ScrollBar
from textual.widget import Widget
from textual.widgets import Static

from app.tui.markdown import leaves
from app.tui.turn import Turn
from app.tui.widgets.lines import Lines
from app.tui.widgets.message import Answer, Chosen, Question
from app.tui.widgets.prose import Place
from app.tui.widgets.waiting import Waiting

Part = Literal["question", "answer"]

PAGE = 6
"""Turns that are shown at first: more than a screenful of most."""
SLICE = 2
"""Turns that are mounted at once; then the loop is let go. One takes 4 ms."""
NEAR, FAR = 2, 4
"""Heights of the view within which turns are mounted, and beyond which they are not kept."""


class More(Static):
    """The line that stands for the turns that are not mounted."""

    @dataclass
    class Wanted(Message):
        """The person asked for them."""

        older: bool

    OLDER = True

    def __init__(self) -> None:
        super().__init__(markup=False)

    def count(self, turns: int) -> None:
        self.display = turns > 0
        which = "↑ {} older" if self.OLDER else "↓ {} newer"
        self.update(f"{which.format(turns)} {'question' if turns == 1 else 'questions'}")

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Wanted(self.OLDER))


class Older(More):
    """Above those that are mounted."""


class Newer(More):
    """Below them."""

    OLDER = False


class Transcript(VerticalScroll, can_focus=True):
    """Follows the end while text arrives, unless the person has scrolled up; then the line that is read stays."""

    FOCUS_ON_CLICK = False
    """A message takes the focus when it is chosen; who marks words goes on typing."""
    BINDINGS = [
        Binding("c", "screen.copy_message", "Copy the message", id="message.copy"),
        Binding("e", "screen.edit_question", "Ask it in other words", id="message.edit"),
        Binding("r", "screen.regenerate", "Another answer", id="message.regenerate"),
        Binding("left_square_bracket", "screen.walk_versions(-1)", "The version before", id="message.before"),
        Binding("right_square_bracket", "screen.walk_versions(1)", "The version after", id="message.after"),
        Binding("g", "screen.go_on", "Go on with an answer that was stopped", id="message.go_on"),
        Binding("v", "screen.verify", "Verify the drafted answer, now or later", id="message.verify"),
        Binding("p", "screen.shade", "Shade what nobody verified", id="message.shade"),
        Binding("f", "screen.fork", "A new conversation from here", id="message.fork"),
        Binding("d", "screen.delete_message", "Delete the message and what follows", id="message.delete"),
        Binding("u", "screen.undelete_message", "Take the deletion back", id="message.undelete"),
        *(
            Binding(str(n), f"screen.copy_block({n})", f"Copy its code block {n}", id=f"message.block{n}")
            for n in range(1, 10)
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.vertical_scrollbar._styles_cache = Lines()
        self.turns: list[Turn] = []
        self.cursor: tuple[Turn, Part] | None = None
        """The question or answer that keys act on."""
        self._first = self._last = 0
        """The mounted turns are `turns[first:last]`."""
        self._reading: tuple[Widget, int] | None = None
        """The message at the top of the view, and its distance from the top; None while the end is followed."""
        self._held = False
        """That message stays where it is until somebody scrolls, whatever else moves the view."""
        self._wrapped = 0
        """The width that the messages are placed in."""
        self._jumps = 0
        """How often another page was wanted."""
        self._window = asyncio.Lock()
        """Held while turns are mounted or removed."""
        self.tending = False
        """Turns are being mounted or removed."""

    def compose(self) -> Iterator[Widget]:
        yield Older()
        yield Newer()
        yield Waiting()

    def on_mount(self) -> None:
        self._count()

    # ---- the conversation --------------------------------------------------------------------------------------------

    async def show(self, turns: Sequence[Turn]) -> None:
        """Replaces everything by the end of `turns`."""
        self._jumps += 1  # What was on its way belongs to the one before.
        async with self._window:
            self.turns = list(turns)
            self.cursor = None
            await self._remount(max(0, len(self.turns) - PAGE), len(self.turns))
            self.anchor(False)
        self._tend()

    async def add(self, turn: Turn) -> None:
        """Appends a turn and moves to the end, where its answer will be."""
        async with self._window:
            self.turns.append(turn)
            if self._last < len(self.turns) - 1:
                await self._remount(max(0, len(self.turns) - PAGE), len(self.turns))
            else:
                await self._mount(len(self.turns) - 1, len(self.turns), before=self.query_one(Newer))
        self.scroll_end(animate=False)
        self._tend()

    async def replace(self, old: Turn, new: Turn) -> None:
        """Puts another answer in the place of one; nothing happens where that one is not shown."""
        async with self._window:
            at = next((at for at, turn in enumerate(self.turns) if turn is old), None)
            if at is None:
                return
            self.turns[at] = new
            for answer in self.query_children(Answer):
                if answer.turn is old:
                    fresh = Answer(new)
                    if self._reading is not None and self._reading[0] is answer:
                        self._reading = fresh, self._reading[1]
                    if self.cursor == (old, "answer"):
                        self.cursor = new, "answer"
                    with self.app.batch_update():
                        await self.mount(fresh, after=answer)
                        await self._remove([answer])
            self._mark()
            if new is self.turns[-1]:
                self.scroll_end(animate=False)

    def go_to(self, at: int) -> None:
        """Moves to the turn at this place, whose question becomes the first line in view; soon, and not at once."""
        self._jump(at, lambda: self._read_on(at, "question"))

    async def refresh_notes(self) -> None:
        """Draws what has changed of questions and finished answers."""
        for question in self.query_children(Question):
            question.flush()
        for answer in self.query_children(Answer):
            if answer.is_mounted:  # Else it draws everything as soon as it is.
                await answer.flush()

    # ---- the cursor --------------------------------------------------------------------------------------------------

    async def choose(self, at: int, part: Part) -> None:
        """Puts the cursor on the question or the answer of `turns[at]`, and that into view."""
        self.cursor = self.turns[at], part
        if self._first <= at < self._last:
            async with self._window:
                self._show_cursor(at, part)
            self._tend()
        else:
            self._jump(at - PAGE // 2, lambda: self._read_on(at, part))

    def _read_on(self, at: int, part: Part) -> None:
        """Makes this message the first line in view, and keeps it there while others come in above it."""
        self._mark()
        self._anchored, self._anchor_released = self._last == len(self.turns), True
        self._reading, self._held = (self._widget(at, part), 0), True
        self.refresh(layout=True)

    def _show_cursor(self, at: int, part: Part) -> None:
        self._mark()
        widget = self._widget(at, part)
        tall = widget.virtual_region.height > self.size.height
        self.scroll_to_widget(widget, animate=False, immediate=True, top=tall)

    def _widget(self, at: int, part: Part) -> Question | Answer:
        """What shows `turns[at]`, which is mounted."""
        return self._messages()[2 * (at - self._first) + (part == "answer")]

    async def move_cursor(self, step: int) -> None:
        """To the message before or after; from nowhere, to the last one."""
        if not self.turns:
            return
        at = 2 * len(self.turns) - 1
        if self.cursor is not None:
            turn, part = self.cursor
            at = 2 * self._index(turn) + (part == "answer") + step
        if 0 <= at < 2 * len(self.turns):
            await self.choose(at // 2, "answer" if at % 2 else "question")

    def let_go(self) -> None:
        """No message has the cursor."""
        self.cursor = None
        self._mark()

    def _index(self, turn: Turn) -> int:
        return next(at for at, one in enumerate(self.turns) if one is turn)

    def _mark(self) -> None:
        turn, part = self.cursor or (None, None)
        for widget in self._messages():
            here = widget.turn is turn and (part == "answer") == isinstance(widget, Answer)
            widget.set_class(here, "-cursor")

    @on(Chosen)
    async def choose_clicked(self, event: Chosen) -> None:
        event.stop()
        self.focus(scroll_visible=False)
        self.cursor = event.widget.turn, "answer" if isinstance(event.widget, Answer) else "question"
        self._mark()

    # ---- what is mounted ---------------------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Mounts what has come near the view and removes what is far from it, a slice at a time."""
        if not self.tending and self.is_attached:
            self.tending = True
            self.run_worker(self._tend_window(), group="window")

    async def _tend_window(self) -> None:
        try:
            while self.is_attached:
                await self._laid_out()
                async with self._window:
                    if not self._whole or not await self._tend_once():
                        return
        finally:
            self.tending = False

    async def _tend_once(self) -> bool:
        """One slice; False where all is as it should be."""
        height = self.size.height
        above, below = self.scroll_y, self.max_scroll_y - self.scroll_y
        if not height:
            return False
        if self._first and above < NEAR * height:
            first = max(0, self._first - SLICE)
            await self._mount(first, self._first, after=self.query_one(Older))
        elif self._last < len(self.turns) and below < NEAR * height:
            await self._mount(self._last, min(len(self.turns), self._last + SLICE), before=self.query_one(Newer))
        elif (gone := self._far(above - FAR * height, above + (FAR + 1) * height)) is not None:
            await self._unmount(*gone)
        else:
            return False
        return True

    @property
    def _whole(self) -> bool:
        """Whether all is there: where the window closes, messages go before what mounts others is called off."""
        ends = len(self.query_children(More)) == 2
        return self.is_attached and ends and len(self._messages()) == 2 * (self._last - self._first)

    def _far(self, top: float, bottom: float) -> tuple[int, int] | None:
        """The mounted turns at either end that lie outside of these lines wholly, but for the last one."""
        mounted = self._messages()
        first, last = self._first, self._last
        while first < last - 1 and mounted[2 * (first - self._first) + 1].virtual_region.bottom < top:
            first += 1
        while last > first + 1 and mounted[2 * (last - 1 - self._first)].virtual_region.y > bottom:
            last -= 1
        if last == self._last - 1 == len(self.turns) - 1:
            last = self._last  # A turn that is just being added.
        return (first, last) if (first, last) != (self._first, self._last) else None

    async def _mount(self, first: int, last: int, **place: Any) -> None:
        """Mounts `turns[first:last]` at either end of the others."""
        turns = self.turns[first:last]
        await self._prepare(turns)
        self._keep_reading()
        widgets = _widgets(turns)
        self._first, self._last = min(first, self._first), max(last, self._last)
        self._count()
        with self.app.batch_update():
            await self.mount_all(widgets, **place)
        self._mark()

    async def _unmount(self, first: int, last: int) -> None:
        """Keeps `turns[first:last]` of the mounted ones."""
        self._keep_reading()
        mounted = self._messages()
        gone = mounted[: 2 * (first - self._first)] + mounted[2 * (last - self._first) :]
        self._first, self._last = first, last
        self._count()
        with self.app.batch_update():
            await self._remove(gone)

    async def _remove(self, gone: Sequence[Widget]) -> None:
        lines = [widget._styles_cache for message in gone for widget in message.walk_children(Widget, with_self=True)]
        await self.remove_children(gone)
        # Textual's `StylesCache.get_inner_outer` remembers the last thousand caches with every line that they hold,
        # and each garbage collection walks through all of that.
        for cache in lines:
            cache.clear()

    async def _remount(self, first: int, last: int) -> None:
        """Mounts `turns[first:last]` and nothing else."""
        turns = self.turns[first:last]
        await self._prepare(turns)
        self._reading, self._held = None, False
        with self.app.batch_update():
            await self._remove(self._messages())
            self._first, self._last = first, last
            self._count()
            await self.mount_all(_widgets(turns), before=self.query_one(Newer))
        self._mark()

    @staticmethod
    async def _prepare(turns: Sequence[Turn]) -> None:
        """Parses what will be drawn, in a thread: that takes as long as the rest."""
        for turn in turns:
            if not turn.running:
                await asyncio.to_thread(leaves, turn.text)

    async def _laid_out(self) -> None:
        """Returns when all that was mounted has its place."""
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()

    def _messages(self) -> list[Question | Answer]:
        return [widget for widget in self.children if isinstance(widget, Question | Answer)]

    def _count(self) -> None:
        self.query_one(Older).count(self._first)
        self.query_one(Newer).count(len(self.turns) - self._last)
        if self._last < len(self.turns):
            self.anchor(False)  # The end of what is mounted is not the end.

    # ---- where the person reads --------------------------------------------------------------------------------------

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Places the messages, so that the line that is read stays where it is on the screen."""
        place = self._place_read(size.width)
        result = super().arrange(size, optimal)
        if self._reading is not None and not self._follows:
            widget, distance = self._reading
            region = next((placement.region for placement in result.placements if placement.widget is widget), None)
            if region is not None:
                if place is not None and isinstance(widget, Answer):
                    distance = -widget.prose.row_of(place, region.width - widget.gutter.width)
                    self._reading = widget, distance
                most = max(0, result.spatial_map.total_region.bottom - size.height)
                y = min(max(0, region.y - distance), most)
                if y != self.scroll_y:
                    self.set_reactive(Widget.scroll_y, y)
                    self.set_reactive(Widget.scroll_target_y, y)
                    self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        return result

    def _place_read(self, width: int) -> Place | None:
        """What of an answer is at the top of the view, where everything is about to be wrapped to another width."""
        changed, self._wrapped = width != self._wrapped, width
        if not changed or self._reading is None or self._follows:
            return None
        widget, distance = self._reading
        if not isinstance(widget, Answer) or widget.turn.dropped:
            return None  # Above the text of such an answer are other rows.
        return widget.prose.place_at(-distance)

    @property
    def _follows(self) -> bool:
        return self._anchored and not self._anchor_released

    def _keep_reading(self) -> None:
        if self._reading is None and not self._follows:
            self._reading = self._at_top()

    def _at_top(self) -> tuple[Widget, int] | None:
        for widget in self._messages():
            region = widget.virtual_region
            if region.bottom > self.scroll_y and region.height:
                return widget, region.y - round(self.scroll_y)
        return None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._held:
            self._reading = None if self._follows else self._at_top()
        self._tend()

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual would lay everything out a second time for each line that comes, because there is one more to scroll.
        changed = virtual_size != self.virtual_size
        updated = super()._size_updated(size, virtual_size, container_size, layout=False)
        if changed:
            self.watch_virtual_size(virtual_size)
        return updated

    def watch_virtual_size(self, size: Size) -> None:
        # A short conversation that is anchored would hang at the bottom of the window.
        overflows = size.height > self.size.height and self._last == len(self.turns)
        if overflows != self.is_anchored:
            self.anchor(overflows)
        self._tend()

    def on_resize(self) -> None:
        self.watch_virtual_size(self.virtual_size)

    def _scroll_to(self, *args: Any, **options: Any) -> bool:
        self._held = False
        # A jump: what is mounted above while it moves would shift where it moves to, and each frame costs a redraw.
        return super()._scroll_to(*args, **{**options, "animate": False})

    def scroll_end(self, **options: Any) -> None:
        if self._last < len(self.turns):
            self._jump(len(self.turns), lambda: self.scroll_end(immediate=True))
        else:
            super().scroll_end(**{**options, "animate": False})

    def scroll_home(self, **options: Any) -> None:
        if self._first:
            self._jump(0, lambda: self.scroll_home(immediate=True))
        else:
            super().scroll_home(**{**options, "animate": False})

    def _jump(self, at: int, then: Callable[[], None]) -> None:
        """Mounts the page of turns that begins here, and does `then` when each has its place.

        A place is known after the screen's next refresh, for which neither a handler of the screen's messages nor who
        holds the window may wait: such a handler may be waiting for the window.
        """

        self._jumps += 1
        wanted = self._jumps

        async def jump() -> None:
            async with self._window:
                if wanted != self._jumps or not self._whole:
                    return
                first = max(0, min(at, len(self.turns) - PAGE))
                await self._remount(first, min(len(self.turns), first + PAGE))
            await self._laid_out()
            async with self._window:
                if wanted == self._jumps and self._whole:
                    then()
            self._tend()

        # Not exclusive: to be called off in the middle of mounting would leave half a page.
        self.run_worker(jump(), group="jump")

    @on(More.Wanted)
    def show_more(self, event: More.Wanted) -> None:
        event.stop()
        if event.older:
            self.scroll_home()
        else:
            self.scroll_end()


def _widgets(turns: Sequence[Turn]) -> list[Widget]:
    return [widget for turn in turns for widget in (Question(turn), Answer(turn))]
