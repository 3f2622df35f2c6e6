"""Which turns of a conversation are mounted: those near the view, a slice at a time, or a page somewhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import events, on
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from app.tui.markdown.parser import leaves
from app.tui.textual_private import line_caches
from app.tui.turn import Turn
from app.tui.widgets.message import Answer, Question
from app.tui.widgets.scroll_anchor import Reading

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


class Mounting(Reading):
    """A window on `turns`, which moves with the view. An `Older` stands above it and a `Newer` below."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Turn] = []
        self._first = self._last = 0
        """The mounted turns are `turns[first:last]`."""
        self._jumps = 0
        """How often another page was wanted."""
        self._window = asyncio.Lock()
        """Held while turns are mounted or removed."""
        self.tending = False
        """Turns are being mounted or removed."""

    def on_mount(self) -> None:
        self._count()

    @property
    def _has_end(self) -> bool:
        return self._last == len(self.turns)

    def _mark(self) -> None:
        """Shows which message has the cursor; called when others were mounted, which may be it."""

    # ---- near the view -----------------------------------------------------------------------------------------------

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
        elif not self._has_end and below < NEAR * height:
            await self._mount(self._last, min(len(self.turns), self._last + SLICE), before=self.query_one(Newer))
        elif (gone := self._far(above - FAR * height, above + (FAR + 1) * height)) is not None:
            await self._unmount(*gone)
        else:
            return False
        return True

    @property
    def _whole(self) -> bool:
        """Whether all is there: where the window closes, messages go before what mounts others is called off."""
        return self._alive and len(self._messages()) == 2 * (self._last - self._first)

    @property
    def _alive(self) -> bool:
        """Whether the window is: where it closes, the two ends go before what waits for a thread is called off."""
        return self.is_attached and len(self.query_children(More)) == 2

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

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._tend()

    def watch_virtual_size(self, size: Size) -> None:
        super().watch_virtual_size(size)
        self._tend()

    # ---- somewhere else ----------------------------------------------------------------------------------------------

    def scroll_end(self, **options: Any) -> None:
        if not self._has_end:
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

    # ---- coming and going --------------------------------------------------------------------------------------------

    async def _mount(self, first: int, last: int, **place: Any) -> None:
        """Mounts `turns[first:last]` at either end of the others."""
        turns = self.turns[first:last]
        await self._prepare(turns)
        if not self._alive:
            return
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
        caches = line_caches(gone)
        await self.remove_children(gone)
        for cache in caches:
            cache.clear()

    async def _remount(self, first: int, last: int) -> None:
        """Mounts `turns[first:last]` and nothing else."""
        turns = self.turns[first:last]
        await self._prepare(turns)
        self._read_nothing()
        with self.app.batch_update():
            await self._remove(self._messages())
            if not self._alive:
                return
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

    def _count(self) -> None:
        self.query_one(Older).count(self._first)
        self.query_one(Newer).count(len(self.turns) - self._last)
        if not self._has_end:
            self.anchor(False)  # The end of what is mounted is not the end.


def _widgets(turns: Sequence[Turn]) -> list[Widget]:
    return [widget for turn in turns for widget in (Question(turn), Answer(turn))]
