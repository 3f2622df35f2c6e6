"""The turns of one conversation, of which only the last are mounted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual import on, work
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from app.tui.turn import Turn
from app.tui.widgets.message import Answer, Question
from app.tui.widgets.waiting import Waiting

PAGE = 8
"""Turns that are mounted at once: a few screenfuls. 300 Markdown messages take 5.5 s to mount."""
LIMIT = 24
"""Turns that may stay mounted: a stream under 300 Markdown messages is two to three times slower than under 50."""


class Older(Static):
    """The line that stands for the turns that are not mounted."""

    class Wanted(Message):
        """The person asked for older turns."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def count(self, turns: int) -> None:
        self.display = turns > 0
        self.update(f"↑ {turns} older {'question' if turns == 1 else 'questions'}")

    def on_click(self) -> None:
        self.post_message(self.Wanted())


class Transcript(VerticalScroll, can_focus=True):
    """Follows the end while text arrives, unless the person has scrolled up."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Turn] = []
        self._first = 0
        """Index of the first mounted turn."""
        self._busy = False
        self._reading: tuple[Widget, int] | None = None
        """The turn at the top of the view while older ones come in above it, and its distance from the top."""
        self._returning = False

    def compose(self) -> Iterator[Widget]:
        yield Older()
        yield Waiting()

    def on_mount(self) -> None:
        self._count_older()

    async def show(self, turns: Sequence[Turn]) -> None:
        """Replaces everything by the last page of `turns`."""
        self._busy = True
        self._reading = None
        self.turns = list(turns)
        self._first = max(0, len(self.turns) - PAGE)
        with self.app.batch_update():
            await self.query_children("Question, Answer").remove()
            await self.mount_all(self._widgets(self.turns[self._first :]), before=self.query_one(Waiting))
            self._count_older()
        self.anchor(False)
        self.call_after_refresh(self._settle)

    async def add(self, turn: Turn) -> None:
        """Appends a turn and moves to the end, where its answer will be."""
        self.turns.append(turn)
        await self.mount_all(self._widgets([turn]), before=self.query_one(Waiting))
        if len(self.turns) - self._first > LIMIT:
            await self._prune()
        self.scroll_end(animate=False)

    async def replace(self, old: Turn, new: Turn) -> None:
        """Puts another answer in the place of one; nothing happens where that one is not shown."""
        at = next((at for at, turn in enumerate(self.turns) if turn is old), None)
        if at is None:
            return
        self.turns[at] = new
        for answer in self.query_children(Answer):
            if answer.turn is old:
                await self.mount(Answer(new), after=answer)
                await answer.remove()
        if new is self.turns[-1]:
            self.scroll_end(animate=False)

    async def refresh_notes(self) -> None:
        """Draws what has changed of finished answers."""
        for answer in self.query_children(Answer):
            if answer.is_mounted:  # Else it draws everything as soon as it is.
                await answer.flush()

    @on(Older.Wanted)
    @work(exclusive=True, group="older")
    async def load_older(self) -> None:
        """Mounts one more page above, and stays at the line that is being read."""
        if self._busy or not self._first:
            return
        self._busy = True
        self._reading = self._at_top()
        first = max(0, self._first - PAGE)
        older = self.turns[first : self._first]
        self._first = first
        await self.mount_all(self._widgets(older), after=self.query_one(Older))
        self._count_older()
        self.call_after_refresh(self._settle)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._returning:
            self._reading = None
        if new_value <= 0 < old_value and self._first and not self._busy:
            self.load_older()

    def watch_virtual_size(self, size: Size) -> None:
        # A short conversation that is anchored would hang at the bottom of the window.
        overflows = size.height > self.size.height
        if overflows != self.is_anchored:
            self.anchor(overflows)
        if self._reading is not None:
            self.call_after_refresh(self._return)

    def on_resize(self) -> None:
        self.watch_virtual_size(self.virtual_size)

    def _at_top(self) -> tuple[Widget, int] | None:
        for widget in self.query_children("Question, Answer"):
            region = widget.virtual_region
            if region.bottom > self.scroll_y:
                return widget, region.y - round(self.scroll_y)
        return None

    def _return(self) -> None:
        """Moves back to what was being read. Markdown takes several layouts to find its height, and each calls this."""
        if self._reading is None:
            return
        widget, distance = self._reading
        self._returning = True
        try:
            self.scroll_to(y=widget.virtual_region.y - distance, animate=False, immediate=True)
        finally:
            self._returning = False

    def _settle(self) -> None:
        self._busy = False

    async def _prune(self) -> None:
        keep = len(self.turns) - PAGE
        mounted = [widget for widget in self.children if isinstance(widget, Question | Answer)]
        await self.remove_children(mounted[: 2 * (keep - self._first)])
        self._first = keep
        self._count_older()

    def _count_older(self) -> None:
        self.query_one(Older).count(self._first)

    @staticmethod
    def _widgets(turns: Sequence[Turn]) -> list[Widget]:
        return [widget for turn in turns for widget in (Question(turn.question), Answer(turn))]
