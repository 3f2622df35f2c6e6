"""A question and its answer, as two widgets of the transcript."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

from app.tui.blocks import closed_length, split
from app.tui.turn import Turn
from app.tui.widgets.tail import Tail, highlighted, preview

FLUSH_SECONDS = 0.08
"""Between two draws of a running answer: fast enough to read along, and rounds of one link share a draw."""


class Question(Static):
    """What the person asked, as typed."""

    def __init__(self, text: str) -> None:
        super().__init__(Content(text), markup=False)


class Code(MarkdownFence):
    """A complete code block."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        if ansi:
            return super().highlight(code, language or "text", ansi, dark)
        return highlighted(code, language or "text")


class Prose(Markdown):
    """The part of an answer that will not change. Links only show where they lead: an answer must not open pages."""

    def get_block_class(self, block_name: str) -> type[MarkdownBlock]:
        return Code if block_name in ("fence", "code_block") else super().get_block_class(block_name)

    @on(Markdown.LinkClicked)
    def show_link(self, event: Markdown.LinkClicked) -> None:
        self.app.copy_to_clipboard(event.href)
        self.notify(event.href, title="Link copied", markup=False)


class Answer(Vertical):
    """Draws a turn's answer while it runs and keeps what is to be said of it once it is finished."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        self._shown = 0
        """Characters of the answer that the Markdown widget has."""
        self._revision = -1
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        stored = "" if self.turn.running else self.turn.text
        self._shown = len(stored)
        yield Prose(stored, open_links=False)
        yield Tail()
        yield Static(classes="dropped", markup=False)
        yield Static(classes="error", markup=False)
        yield Static(classes="note", markup=False)

    async def on_mount(self) -> None:
        self._timer = self.set_interval(FLUSH_SECONDS, self.flush)
        await self.flush()

    async def flush(self) -> None:
        """Draws what has come since the last draw."""
        turn = self.turn
        if turn.revision == self._revision:
            return
        self._revision = turn.revision
        text, solid = turn.text, len(turn.reply.solid)
        end = closed_length(turn.reply.solid) if turn.running else len(text)
        with self.app.batch_update():
            tail = self.query_one(Tail)
            if turn.running and not text:
                tail.wait()
            else:
                tail.show(text[end:], solid - end)
            if end > self._shown:
                fresh, self._shown = text[self._shown : end], end
                await self.query_one(Prose).append(fresh)
            if not turn.running:
                self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self.query_one(Tail).display = False
        self.query_one(Prose).display = bool(self.turn.text)
        dropped = self.turn.dropped
        blocks = [preview(dropped, block, len(dropped)) for block in split(dropped)]
        self.query_one(".dropped", Static).update(Content("\n").join(blocks))
        self.query_one(".error", Static).update(Content(self.turn.error))
        self.query_one(".note", Static).update(Content(self.turn.note))
        self.set_class(bool(self.turn.drafted), "-drafted")
        self.set_class(self.turn.outcome == "stopped", "-stopped")
        self.set_class(bool(self.turn.dropped), "-judged")
        self.set_class(bool(self.turn.error), "-failed")
        self.set_class(bool(self.turn.note), "-noted")
