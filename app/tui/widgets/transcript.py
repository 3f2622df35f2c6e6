"""The turns of one conversation: those that are shown, and the one message that keys act on.

Which of them are mounted is told in `mounting.py`, and where the person reads in `reading.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual import on
from textual.widget import Widget

from app.tui.turn import Part, Turn
from app.tui.widgets.line_cache import Lines
from app.tui.widgets.message import Answer, Chosen, Question
from app.tui.widgets.queued_prompts import Waiting
from app.tui.widgets.virtual_list import PAGE, Mounting, Newer, Older


class Transcript(Mounting, can_focus=True):
    """The turns that are shown, in which a cursor stands on the message that keys act on."""

    FOCUS_ON_CLICK = False
    """A message takes the focus when it is chosen; who marks words goes on typing."""

    def __init__(self) -> None:
        super().__init__()
        self.vertical_scrollbar._styles_cache = Lines()
        self.cursor: tuple[Turn, Part] | None = None
        """The question or answer that keys act on."""

    def compose(self) -> Iterator[Widget]:
        yield Older()
        yield Newer()
        yield Waiting()

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
                    self._read_instead(answer, fresh)
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
        """Moves to this message, which is mounted by now."""
        self._mark()
        self._read_from(self._widget(at, part))

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

    def toggle_withdrawn(self, turn: Turn) -> bool:
        """Shows what was withdrawn of this answer's draft, or puts it away; False where there is nothing to show."""
        return any(answer.toggle_withdrawn() for answer in self.query_children(Answer) if answer.turn is turn)

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
