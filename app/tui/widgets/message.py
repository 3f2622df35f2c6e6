"""A question and its answer, as two widgets of the transcript."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from textual import events, on
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from app.attachments.renderer import described
from app.events import PageSource
from app.model_names import short_model
from app.sanitise import sanitise
from app.tui.block_notes import answer_notes, block_notes
from app.tui.line_pace import LinePace
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.notes import AnswerNotes
from app.tui.markdown.parser import leaves
from app.tui.textual_private import FewBytes, GrowingHeight
from app.tui.turn import NOTED, Turn
from app.tui.widgets.folded import Thoughts, ToolCalls
from app.tui.widgets.markdown_view import WAITING, MarkdownView, TextPlace

FLUSH_SECONDS = 0.08
"""Seconds between two draws of a running answer: fast enough to read along, and slow enough that rounds share a
draw."""
FILES = "files"
"""Marks the lines of a question that a click unfolds."""
FILE_STYLE = Style.parse("not bold") + Style.from_meta({FILES: True})
MOST_SHOWN = 20_000
"""Characters of a file that are drawn."""
REST = 4
"""The pause after a draw, in times that the draw took: one long paragraph takes longer with each word."""


class MessageView(Widget):
    """A message of the conversation, which a click chooses."""

    turn: Turn

    class Chosen(Message):
        """The person clicked on the message."""

        def __init__(self, message: MessageView) -> None:
            super().__init__()
            self.message = message

    def on_click(self) -> None:
        if not self.screen.selections:  # Else words were selected to copy, and the next letters are for the prompt.
            self.post_message(self.Chosen(self))

    def toggle(self, what: str) -> bool:
        """Show or hide what is folded of this message: files, thoughts or withdrawn text; False if it has none."""
        return False

    def place_at(self, row: int) -> TextPlace | None:
        """The text in this row; None if the row keeps its number at every width."""
        return None

    def row_of(self, place: TextPlace, width: int) -> int:
        """The row of that text if the message is `width` cells wide."""
        return 0


class QuestionView(Static, MessageView):
    """The question as typed, and its number if there are several versions of it."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(Content(turn.question), markup=False)
        self.turn = turn
        self._versions = turn.wordings

    def render(self) -> Content:
        place, count = self.turn.wordings
        text = Content(self.turn.question)
        if count > 1:
            text = Content.assemble(text, (f"  {place}/{count}", "$text-muted not bold"))
        return Content("\n").join([text, *file_lines(self.turn)])

    @on(events.Click)
    def unfold_clicked(self, event: events.Click) -> None:
        if FILES in event.style.meta and not self.screen.selections:
            self.toggle("files")

    def toggle(self, what: str) -> bool:
        if what != "files" or not self.turn.attachments:
            return False
        self.turn.files_unfolded = not self.turn.files_unfolded
        self.refresh(layout=True)
        return True

    def flush(self) -> None:
        if self._versions != self.turn.wordings:
            self._versions = self.turn.wordings
            self.refresh(layout=True)


class WithdrawnLine(Static):
    """One line below the answer: how much of a draft was not kept. A click shows that text or hides it."""

    class Clicked(Message):
        """The person wants to see the text, or not any more."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(markup=False, classes="withdrawn")
        self.turn = turn
        said = " ".join(leaf.content.plain for one in turn.dropped for leaf in leaves(one.text))
        self._count = sum(any(map(str.isalnum, word)) for word in said.split())
        self.tell()

    def tell(self) -> None:
        one = self._count == 1
        if self.turn.answered_again:
            words = "1 word" if one else f"{self._count} words"
            said = f"{words} of the offline answer {'is' if one else 'are'} not in this one"
        else:
            words = "1 drafted word was" if one else f"{self._count} drafted words were"
            said = f"{words} not kept when the answer was checked"
        mark = "▾" if self.turn.withdrawn_shown else "▸"
        self.update(Content(f"{mark} {said}"))

    def on_click(self, event: events.Click) -> None:
        if not self.screen.selections:  # Otherwise words were selected to be copied.
            event.stop()
            self.post_message(self.Clicked())


class AnswerView(Vertical, MessageView, GrowingHeight):
    """The answer of a turn, drawn while it runs, with notes below it once it is finished.

    A stored answer without a note costs two widgets.
    """

    @dataclass
    class SourcesAsked(Message):
        """The person wants to see the pages that an answer came from."""

        sources: tuple[PageSource, ...]

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn
        self._revision = -1
        self._timer: Timer | None = None
        self._drawing = asyncio.Lock()
        self._rests_until = 0.0
        self._pace = LinePace(self._sent)
        self.prose = MarkdownView() if turn.running else MarkdownView(turn.text, notes=_notes(turn))
        self._noted: tuple[Leaf, ...] = ()
        """The code blocks of a running answer whose notes are drawn."""
        self._notes: dict[str, Static] = {}
        """The lines below the answer, by their CSS class."""
        self._withdrawn: WithdrawnLine | None = None
        self._thoughts = Thoughts(turn) if turn.thoughts else None
        self._calls = ToolCalls(turn) if turn.calls else None
        if not turn.running:
            self._revision = turn.revision
            self._draw_notes()

    def compose(self) -> list[Widget]:
        self.prose.display = bool(self.prose.source) or self.turn.running
        return [
            *([self._thoughts] if self._thoughts else []),
            *([self._calls] if self._calls else []),
            self.prose,
            *([self._withdrawn] if self._withdrawn else []),
            *self._notes.values(),
        ]

    async def on_mount(self) -> None:
        if self.turn.running or self.turn.revision != self._revision:
            self._timer = self.set_interval(FLUSH_SECONDS, self._flush_in_time)
            await self.flush()

    def render_line(self, y: int) -> Strip:
        """Draw a row that no child covers. Textual itself gives a new row another style than an old one."""
        return Strip.blank(self.size.width, self.visual_style.rich_style)

    @property
    def _top(self) -> int:
        """The first row of the answer itself, below what the model thought and its tool calls."""
        return 0 if self._thoughts is None and self._calls is None else self.prose.virtual_region.y

    def place_at(self, row: int) -> TextPlace | None:
        return None if row < self._top else self.prose.place_at(row - self._top)

    def row_of(self, place: TextPlace, width: int) -> int:
        return self._top + self.prose.row_of(place, width - self.gutter.width)

    @on(MarkdownView.SourcesClicked)
    def ask_for_sources(self, event: MarkdownView.SourcesClicked) -> None:
        event.stop()
        self.post_message(self.SourcesAsked(self.turn.sources))

    @property
    def drawn(self) -> bool:
        """Whether nothing has arrived since the last draw."""
        return self._revision == self.turn.revision and not self._drawing.locked()

    def rows_of_block(self, number: int) -> tuple[int, int] | None:
        """The first row of a code block in this message, and the row after its notes, or None if it is not drawn."""
        rows = self.prose.rows_of_block(number)
        top = self.prose.virtual_region.y
        return rows and (top + rows[0], top + rows[1])

    def toggle(self, what: str) -> bool:
        if what == "thoughts" and self._thoughts is not None:
            self._thoughts.toggle()
            return True
        if what == "calls" and self._calls is not None:
            self._calls.toggle()
            return True
        if what == "withdrawn" and self._withdrawn is not None:
            self.turn.withdrawn_shown = not self.turn.withdrawn_shown
            self._draw_withdrawn()
            return True
        return False

    @on(WithdrawnLine.Clicked)
    def show_or_hide_withdrawn(self, event: WithdrawnLine.Clicked) -> None:
        event.stop()
        self.toggle("withdrawn")

    def _sent(self) -> int:
        cells = self.app.terminal_cells if isinstance(self.app, FewBytes) else None
        return cells.sent if cells is not None else 0

    async def _flush_in_time(self) -> None:
        if not self.turn.running or (time.monotonic() >= self._rests_until and self._pace.due):
            self._pace.begin()
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
            # All at once: an answer may end while its thoughts are mounted, and is then drawn again.
            text, solid, running = turn.text, turn.solid, turn.running
            await self._draw_thoughts()
            await self._draw_calls()
            if running:
                await self.prose.grow(text or WAITING, solid)
                await self._note_blocks()
                return
            notes = await asyncio.to_thread(_notes, turn)
            with self.app.batch_update():
                if self.prose.growing:
                    self.prose.finish(text, notes)
                else:
                    self.prose.annotate(notes)
                self.prose.display = bool(text)
                self._draw_notes()
        if self._timer is not None:
            self._timer.stop()  # Last of all: this may be the timer's own task, which ends here.
            self._timer = None

    async def _note_blocks(self) -> None:
        blocks = self.prose.complete_blocks
        if blocks != self._noted:
            self._noted = blocks
            self.prose.annotate(await asyncio.to_thread(block_notes, self.turn.request, blocks))

    async def _draw_thoughts(self) -> None:
        if self._thoughts is not None:
            self._thoughts.draw()
        elif self.turn.thoughts:
            self._thoughts = Thoughts(self.turn)
            await self.mount(self._thoughts, before=self.prose)

    async def _draw_calls(self) -> None:
        if self._calls is not None:
            self._calls.draw()
        elif self.turn.calls:
            self._calls = ToolCalls(self.turn)
            await self.mount(self._calls, before=self.prose)

    def _draw_notes(self) -> None:
        turn = self.turn
        self.prose.shade(turn.unchecked)
        if turn.dropped and self._withdrawn is None:
            self._withdrawn = WithdrawnLine(turn)
            if self.is_attached:
                self.mount(self._withdrawn, after=self.prose)
        self._draw_withdrawn()
        self._draw_note("error", turn.error)
        self._draw_note("note", turn.note)
        self._draw_note("model", short_model(turn.model) if turn.text else "")
        self._draw_note(
            "summary", f"▴ The model reads this in place of the messages above:\n{turn.summary}" if turn.summary else ""
        )
        self.set_class(bool(turn.drafted or turn.unchecked), "-drafted")
        self.set_class(turn.outcome in NOTED, "-stopped")
        self.set_class(bool(turn.error), "-failed")
        self.set_class(bool(turn.note), "-noted")

    def _draw_withdrawn(self) -> None:
        """Strikes through withdrawn text at its place, if it is to be shown."""
        self.prose.strike(self.turn.struck)
        if self._withdrawn is not None:
            self._withdrawn.tell()

    def _draw_note(self, name: str, text: str) -> None:
        line = self._notes.get(name)
        if line is not None:
            line.update(Content(text))
            line.display = bool(text)
        elif text:
            line = self._notes[name] = Static(Content(text), classes=name, markup=False)
            if self.is_attached:
                self.mount(line)


def file_lines(turn: Turn) -> list[Content]:
    """The files of a question, one line each, with their text below if it is unfolded."""
    lines: list[Content] = []
    for file in turn.attachments:
        mark = "▾" if turn.files_unfolded and file.is_text else "▸" if file.is_text else "▪"
        lines.append(Content.styled(f"{mark} {described(file)}", FILE_STYLE))
        if turn.files_unfolded and file.is_text:
            text = sanitise(file.text[: MOST_SHOWN + 1])
            more = f"\n… only the first {MOST_SHOWN:,} characters; an export has all" if len(text) > MOST_SHOWN else ""
            lines.append(Content.styled(text[:MOST_SHOWN].rstrip("\n") + more, "$text-muted not bold"))
    return lines


def _notes(turn: Turn) -> AnswerNotes:
    return answer_notes(turn.request, turn.text, turn.sources)
