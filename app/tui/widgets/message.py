"""A question and its answer, as two widgets of the transcript."""

from __future__ import annotations

import asyncio
import time

from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from app.tui.markdown.parser import leaves
from app.tui.textual_private import GrowingHeight
from app.tui.turn import Turn
from app.tui.widgets.markdown_view import WAITING, Prose
from app.tui.widgets.withdrawn import Withdrawn

FLUSH_SECONDS = 0.08
"""Between two draws of a running answer: fast enough to read along, and rounds of one link share a draw."""
REST = 4
"""Times that a draw took, from its end to the next one: one long paragraph takes longer with each word."""


class Chosen(Message):
    """The person clicked on a question or an answer."""

    def __init__(self, widget: Question | Answer) -> None:
        super().__init__()
        self.widget = widget


class Question(Static):
    """What the person asked, as typed, and which of its wordings it is where there are several."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(Content(turn.question), markup=False)
        self.turn = turn
        self._wordings = turn.wordings

    def render(self) -> Content:
        place, count = self.turn.wordings
        text = Content(self.turn.question)
        return text if count == 1 else Content.assemble(text, (f"  {place}/{count}", "$text-muted not bold"))

    def flush(self) -> None:
        """Draws what has changed."""
        if self._wordings != self.turn.wordings:
            self._wordings = self.turn.wordings
            self.refresh(layout=True)

    def on_click(self) -> None:
        if not self.screen.selections:  # Else words were marked to be copied, and the next letters are to be typed.
            self.post_message(Chosen(self))


class Answer(Vertical, GrowingHeight):
    """Draws a turn's answer while it runs and keeps what is to be said of it once it is finished.

    A stored answer costs two widgets; what there is to say of one is mounted where there is something.
    """

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        self._revision = -1
        self._timer: Timer | None = None
        self._drawing = asyncio.Lock()
        self._rests_until = 0.0
        self.prose = Prose("" if turn.running else turn.text)
        self._said: dict[str, Static] = {}
        """The lines beside the answer, by their class."""
        self._withdrawn: Withdrawn | None = None
        if not turn.running:
            self._revision = turn.revision
            self._mark()

    def on_click(self) -> None:
        if not self.screen.selections:  # Else words were marked to be copied, and the next letters are to be typed.
            self.post_message(Chosen(self))

    def compose(self) -> list[Widget]:
        self.prose.display = bool(self.prose.source) or self.turn.running
        return [self.prose, *([self._withdrawn] if self._withdrawn else []), *self._said.values()]

    async def on_mount(self) -> None:
        if self.turn.running or self.turn.revision != self._revision:
            self._timer = self.set_interval(FLUSH_SECONDS, self._flush_in_time)
            await self.flush()

    @property
    def drawn(self) -> bool:
        """Nothing has come since the last draw."""
        return self._revision == self.turn.revision and not self._drawing.locked()

    def toggle_withdrawn(self) -> bool:
        """Shows what was withdrawn of its draft, or puts it away; False where nothing was."""
        if self._withdrawn is not None:
            self._withdrawn.toggle()
        return self._withdrawn is not None

    async def _flush_in_time(self) -> None:
        if not self.turn.running or time.monotonic() >= self._rests_until:
            began = time.monotonic()
            await self.flush()
            now = time.monotonic()
            self._rests_until = now + REST * (now - began)

    async def flush(self) -> None:
        """Draws what has come since the last draw."""
        async with self._drawing:
            turn = self.turn
            if turn.revision == self._revision:
                return
            self._revision = turn.revision
            text, solid = turn.text, len(turn.reply.solid)
            if turn.running:
                await self.prose.grow(text or WAITING, solid)
                return
            if self.prose.growing:
                await asyncio.to_thread(leaves, text)
            with self.app.batch_update():
                if self.prose.growing:
                    self.prose.finish(text)
                self.prose.display = bool(text)
                self._mark()
        if self._timer is not None:
            self._timer.stop()  # At last: this may be its own task, and is cancelled by it.
            self._timer = None

    def _mark(self) -> None:
        """Says what there is to say of a finished answer."""
        turn = self.turn
        self.prose.shade(turn.shaded)
        if turn.dropped and self._withdrawn is None:
            self._withdrawn = Withdrawn(turn)
            if self.is_attached:
                self.mount(self._withdrawn, after=self.prose)
        self._say("error", turn.error)
        self._say("note", turn.note)
        self.set_class(bool(turn.drafted), "-drafted")
        self.set_class(turn.outcome == "stopped", "-stopped")
        self.set_class(bool(turn.error), "-failed")
        self.set_class(bool(turn.note), "-noted")

    def _say(self, name: str, text: str) -> None:
        said = self._said.get(name)
        if said is not None:
            said.update(Content(text))
            said.display = bool(text)
        elif text:
            said = self._said[name] = Static(Content(text), classes=name, markup=False)
            if self.is_attached:
                self.mount(said)
