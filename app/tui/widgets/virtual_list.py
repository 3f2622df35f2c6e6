"""Manages which turns of a conversation are mounted, and which line stays in view while they come and go.

The turns near the view are mounted, a slice at a time, or a page somewhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from app.tui.background import begin
from app.tui.block_notes import answer_notes
from app.tui.textual_private import AnchoredScroll, line_caches
from app.tui.turn import Turn
from app.tui.widgets.markdown_view import TextPlace
from app.tui.widgets.message import AnswerView, MessageView, QuestionView


class ScrollAnchor:
    """Remembers which message is at the top of the view and where, so that each layout can put it there again.

    It knows no screen. All lines are counted from the first line of the conversation.
    """

    def __init__(self) -> None:
        self.item: MessageView | None = None
        """The message at the top of the view; None while the end is followed."""
        self.distance = 0
        """Lines from the top of the view down to the message's first line; negative where that is above the view."""
        self.held = False
        """Whether the message stays until somebody scrolls, whatever else moves the view."""
        self._width = 0
        self._place: TextPlace | None = None

    def take(self, spans: Iterable[tuple[MessageView, int, int]], top: float) -> None:
        """Anchors the first message that reaches below the line `top`.

        `spans`: each message in order, its first line and the line after its last.
        """
        self.item = None
        for item, first, end in spans:
            if end > top and end > first:
                self.item, self.distance = item, first - round(top)
                return

    def hold(self, item: MessageView) -> None:
        """Anchors the first line of a message, and keeps it until somebody scrolls."""
        self.item, self.distance, self.held = item, 0, True

    def replace(self, old: MessageView, new: MessageView) -> None:
        """Anchors `new` at the place of `old`, if `old` is the message at the top."""
        if self.item is old:
            self.item = new

    def clear(self) -> None:
        self.item, self.held = None, False

    def before_layout(self, width: int) -> None:
        """Notes the text at the top of the view if all text is about to be wrapped to another width, in cells."""
        changed, self._width = width != self._width, width
        self._place = self.item.place_at(-self.distance) if changed and self.item is not None else None

    def top_after_layout(self, first: int, width: int) -> int:
        """The line to show at the top, now that the message begins at line `first` and is `width` cells wide."""
        if self._place is not None and self.item is not None:
            self.distance = -self.item.row_of(self._place, width)
        return first - self.distance


PAGE = 6
"""Turns that are mounted together at a new place: more than a screenful of most."""
SLICE = 2
"""Turns that are mounted in one step; other tasks run between two steps. One turn takes 4 ms."""
NEAR, FAR = 2, 4
"""Heights of the view: nearer turns are mounted, and turns that are farther away are removed."""

Range = tuple[int, int]
"""The first of some turns, and the one after the last."""


class MoreTurns(Static):
    """A line that says how many turns are not mounted on one side. A click asks for them."""

    @dataclass
    class Wanted(Message):
        """The person asked for the turns."""

        older: bool

    def __init__(self, *, older: bool) -> None:
        super().__init__(markup=False)
        self._are_older = older

    def count(self, turns: int) -> None:
        """Shows the line, with this number, unless it is 0."""
        self.display = turns > 0
        which = f"↑ {turns} older" if self._are_older else f"↓ {turns} newer"
        self.update(f"{which} {'question' if turns == 1 else 'questions'}")

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Wanted(self._are_older))


def grown_range(mounted: Range, count: int, *, above: float, below: float, height: int) -> Range | None:
    """The mounted turns and a slice more, of `count` turns; None if enough of them are mounted on both sides.

    `above`, `below`: lines that are mounted over and under the view, which is `height` lines high.
    """
    first, last = mounted
    if first and above < NEAR * height:
        return max(0, first - SLICE), last
    if last < count and below < NEAR * height:
        return first, min(count, last + SLICE)
    return None


def kept_range(mounted: Range, count: int, spans: Sequence[Range], *, top: float, bottom: float) -> Range | None:
    """The mounted turns without those at either end that lie wholly outside of these lines; None if all are kept.

    At least one turn is kept. The newest of all `count` turns does not go alone: it may be just being added.
    `spans`: the lines of each mounted message, two messages for a turn.
    """
    first, last = mounted
    while first < last - 1 and spans[2 * (first - mounted[0]) + 1][1] < top:
        first += 1
    while last > first + 1 and spans[2 * (last - 1 - mounted[0])][0] > bottom:
        last -= 1
    if last == mounted[1] - 1 == count - 1:
        last = mounted[1]
    return (first, last) if (first, last) != mounted else None


class VirtualList:
    """Mounts those of its turns that are near the view, between the lines `older` and `newer`.

    `view`: the widget that scrolls and holds the messages. `anchor`: the line that is read there. `on_mounted`: called
    when other messages were mounted.

    A handler of the screen's messages may take the lock, and places are known only after the screen's next refresh. So
    nobody who holds the lock may wait for a refresh.
    """

    def __init__(self, view: AnchoredScroll, anchor: ScrollAnchor, on_mounted: Callable[[], None]) -> None:
        self.turns: list[Turn] = []
        self.first = self.last = 0
        """`turns[first:last]` are mounted."""
        self.older, self.newer = MoreTurns(older=True), MoreTurns(older=False)
        self.lock = asyncio.Lock()
        """Held while turns are mounted or removed; taken by callers of `extend`, `show_page` and `remove`."""
        self._view, self._anchor, self._on_mounted = view, anchor, on_mounted
        self._jumps = 0
        """Counts the requests for another page: only the last one is fulfilled."""
        self._landing = 0
        """The number of the request whose page is mounted and not scrolled to yet; 0: none."""
        self._tending = False

    @property
    def has_end(self) -> bool:
        return self.last == len(self.turns)

    @property
    def settled(self) -> bool:
        """Whether nothing is being mounted or removed."""
        return not self._tending and not self._landing and not self.lock.locked()

    @property
    def messages(self) -> list[MessageView]:
        """The mounted messages: a question and an answer for each turn."""
        return [widget for widget in self._view.children if isinstance(widget, MessageView)]

    def spans(self) -> Iterator[tuple[MessageView, int, int]]:
        """Each mounted message, its first line and the line after its last."""
        for message in self.messages:
            region = message.virtual_region
            yield message, region.y, region.bottom

    def index(self, turn: Turn) -> int | None:
        """The place of a turn among all of them."""
        return next((at for at, one in enumerate(self.turns) if one is turn), None)

    def message(self, at: int, *, answer: bool) -> MessageView:
        """The question or the answer of `turns[at]`, which is mounted."""
        return self.messages[2 * (at - self.first) + answer]

    # ---- near the view -----------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """Begins to mount what has come near the view and to remove what is far from it, a slice at a time."""
        if not self._tending and self._view.is_attached:
            self._tending = True
            begin(self._view, self._tend, group="window")

    async def _tend(self) -> None:
        try:
            while self._view.is_attached:
                await self.laid_out()
                async with self.lock:
                    if not self._whole or not await self._step():
                        return
        finally:
            self._tending = False

    async def _step(self) -> bool:
        """Mounts or removes one slice; False if nothing is to be done."""
        view, mounted, count = self._view, (self.first, self.last), len(self.turns)
        height, above, below = view.size.height, view.scroll_y, view.max_scroll_y - view.scroll_y
        if not height or self._landing:  # What is near the view is known only when it is there.
            return False
        if (grown := grown_range(mounted, count, above=above, below=below, height=height)) is not None:
            await self.extend(*grown)
            return True
        spans = [(top, bottom) for _, top, bottom in self.spans()]
        top, bottom = above - FAR * height, above + (FAR + 1) * height
        if (kept := kept_range(mounted, count, spans, top=top, bottom=bottom)) is not None:
            await self._trim(*kept)
            return True
        return False

    async def laid_out(self) -> None:
        """Returns when everything that was mounted has its place."""
        drawn = asyncio.Event()
        self._view.call_after_refresh(drawn.set)
        await drawn.wait()

    @property
    def _whole(self) -> bool:
        """Whether all messages are there. A closing screen removes them before it cancels the workers."""
        return self._alive and len(self.messages) == 2 * (self.last - self.first)

    @property
    def _alive(self) -> bool:
        """Whether the two lines are there. A closing screen removes them before it cancels the workers."""
        return self._view.is_attached and len(self._view.query_children(MoreTurns)) == 2

    # ---- somewhere else ----------------------------------------------------------------------------------------------

    def jump(self, at: int, then: Callable[[], None]) -> None:
        """Begins to mount the page of turns that starts at `at`; calls `then` when each has its place."""
        self.cancel_jump()
        wanted = self._jumps

        async def jump() -> None:
            async with self.lock:
                if wanted != self._jumps or not self._whole:
                    return
                self._landing = wanted
                await self.show_page(at)
            await self.laid_out()
            async with self.lock:
                if wanted == self._jumps and self._whole:
                    then()
            await self.laid_out()

        async def land() -> None:
            try:
                await jump()
            finally:
                if self._landing == wanted:
                    self._landing = 0
            self.tend()

        # Not exclusive: a worker that is cancelled while it mounts would leave half a page.
        begin(self._view, land, group="jump")

    def cancel_jump(self) -> None:
        """Forgets the page that was wanted last, if it is not there yet."""
        self._jumps += 1

    # ---- mounting ----------------------------------------------------------------------------------------------------

    async def extend(self, first: int, last: int) -> None:
        """Mounts the turns that `turns[first:last]` has more than the mounted ones, at one end."""
        older = first < self.first
        turns = self.turns[first : self.first] if older else self.turns[self.last : last]
        await _parse(turns)
        if not self._alive:
            return
        self._keep_line()
        place: dict[str, Any] = {"after": self.older} if older else {"before": self.newer}
        self._set(min(first, self.first), max(last, self.last))
        with self._view.app.batch_update():
            await self._view.mount_all(_messages(turns), **place)
        self._on_mounted()

    async def _trim(self, first: int, last: int) -> None:
        """Removes all mounted turns but `turns[first:last]`."""
        self._keep_line()
        messages = self.messages
        gone = messages[: 2 * (first - self.first)] + messages[2 * (last - self.first) :]
        self._set(first, last)
        with self._view.app.batch_update():
            await self.remove(gone)

    async def show_page(self, at: int) -> None:
        """Mounts a page of turns from `at`, or from as near to it as a whole page fits, and removes all others."""
        first = max(0, min(at, len(self.turns) - PAGE))
        turns = self.turns[first : first + PAGE]
        await _parse(turns)
        self._anchor.clear()
        with self._view.app.batch_update():
            await self.remove(self.messages)
            if not self._alive:
                return
            self._set(first, first + len(turns))
            await self._view.mount_all(_messages(turns), before=self.newer)
        self._on_mounted()

    async def remove(self, messages: Sequence[Widget]) -> None:
        """Removes messages, with the lines that were drawn of them."""
        caches = line_caches(messages)
        await self._view.remove_children(messages)
        for cache in caches:
            cache.clear()

    def count(self) -> None:
        """Shows above and below how many turns are not mounted."""
        self.older.count(self.first)
        self.newer.count(len(self.turns) - self.last)
        if not self.has_end:
            self._view.anchor(False)  # The end of what is mounted is not the conversation's end.

    def _set(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.count()

    def _keep_line(self) -> None:
        """Anchors the line that is read, before messages come or go."""
        if self._anchor.item is None and not self._view.follows_end:
            self._anchor.take(self.spans(), self._view.scroll_y)


async def _parse(turns: Sequence[Turn]) -> None:
    """Reads the finished answers in a thread, before they are mounted: that takes as long as the rest."""
    for turn in turns:
        if not turn.running:
            await asyncio.to_thread(answer_notes, turn.request, turn.text, turn.sources)


def _messages(turns: Sequence[Turn]) -> list[MessageView]:
    return [message for turn in turns for message in (QuestionView(turn), AnswerView(turn))]
