"""A text area that shows a long paste as one short mark, which can be unfolded."""

from __future__ import annotations

import re

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location

from app.attachments.mentions import disarmed
from app.sanitise import sanitise_paste

FOLDED_LINES, FOLDED_CHARACTERS = 20, 2000
"""A paste with this many lines or more characters is folded: the prompt grows to 12 lines at most."""
MOST_PASTES = 32
"""Pastes that are folded again."""
MARK = re.compile("⟦pasted [^⟧]*⟧")


class FoldingTextArea(TextArea):
    """Folds long pastes. A mark is deleted, cut and moved over as if it were one character.

    Each mark keeps its text until `load_text`, so that undo brings the mark and its text back. A text that is loaded
    with a paste in it shows that folded again, unless the person has unfolded it.
    """

    BINDINGS = [Binding("ctrl+o", "unfold", "Unfold the paste", id="prompt.unfold", priority=True)]

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder=placeholder, tab_behavior="focus", highlight_cursor_line=False)
        self._folded: dict[str, str] = {}
        self._pastes: dict[str, None] = {}
        """What was pasted and folded, oldest first."""

    @property
    def full_text(self) -> str:
        """The text with each mark replaced by its paste."""
        return self._unfolded(self.text)

    @property
    def selected_text(self) -> str:
        return self._unfolded(super().selected_text)

    def load_text(self, text: str) -> None:
        self._folded.clear()
        for paste in sorted(self._pastes, key=len, reverse=True):  # A long one may contain another.
            if paste in text:
                text = text.replace(paste, self._mark(paste, text), 1)
        super().load_text(text)

    def take_over(self, text: str) -> None:
        """Replace the text by one that another program wrote: it names no files and is no command.

        So a backslash is put before each `@` that could name something. That holds when it is unfolded, and after a
        restart.
        """
        text = disarmed(text)
        if text.startswith("/"):
            text = f" {text}"
        if _is_long(text):
            self._pastes[text] = None
        self.text = text
        self.move_cursor(self.document.end)

    def _unfolded(self, text: str) -> str:
        return MARK.sub(lambda mark: self._folded.get(mark[0], mark[0]), text)

    def _mark(self, text: str, within: str) -> str:
        """Makes a new mark for a paste, which is not in the text `within`."""
        lines = text.count("\n") + 1
        size = f"{lines} lines" if lines > 1 else f"{len(text):,} characters"
        number, mark = 1, f"⟦pasted {size}⟧"
        while mark in self._folded or mark in within:
            number += 1
            mark = f"⟦pasted {size} · {number}⟧"
        self._folded[mark] = text
        self._pastes = dict.fromkeys([*self._pastes, text][-MOST_PASTES:])
        return mark

    def _spans(self, line: int) -> list[tuple[int, int]]:
        """The columns at which the marks of a line begin and end."""
        if not self._folded:
            return []
        return [mark.span() for mark in MARK.finditer(self.document.get_line(line)) if mark[0] in self._folded]

    def _outside(self, location: Location, *, after: bool) -> Location:
        """The location, moved to the start of the mark that it lies in, or to the end if `after`."""
        row, column = location
        for start, end in self._spans(row):
            if start < column < end:
                return row, end if after else start
        return location

    def edit(self, edit: Edit) -> EditResult:
        if self._folded:
            empty = edit.top == edit.bottom
            top, bottom = self._outside(edit.top, after=empty), self._outside(edit.bottom, after=True)
            edit = Edit(edit.text, top, bottom, edit.maintain_selection_offset)
        return super().edit(edit)

    def get_cursor_left_location(self) -> Location:
        return self._outside(super().get_cursor_left_location(), after=False)

    def get_cursor_right_location(self) -> Location:
        return self._outside(super().get_cursor_right_location(), after=True)

    def get_line(self, line_index: int) -> Text:
        line = super().get_line(line_index)
        for start, end in self._spans(line_index):
            line.stylize("italic underline", start, end)
        return line

    def action_unfold(self) -> None:
        """Replaces the mark at the cursor by its paste; the last mark if there is none at the cursor."""
        row, column = self.cursor_location
        here = [(row, span) for span in self._spans(row) if span[0] <= column <= span[1]]
        rows = range(self.document.line_count if self._folded else 0)
        marks = here or [(row, span) for row in rows for span in self._spans(row)]
        if marks:
            self._unfold(*marks[-1])

    def _unfold(self, row: int, span: tuple[int, int]) -> None:
        start, end = (row, span[0]), (row, span[1])
        paste = self._folded[self.get_text_range(start, end)]
        self._pastes.pop(paste, None)
        self.replace(paste, start, end)

    def on_click(self, event: events.Click) -> None:
        row, column = self.get_target_document_location(event)
        for start, end in self._spans(row):
            if start <= column < end:
                self._unfold(row, (start, end))

    def on_paste(self, event: events.Paste) -> None:
        # A paste is drawn, so it must be as clean as an answer. TextArea's handler inserts it next.
        event.stop()
        text = sanitise_paste(event.text)
        if _is_long(text):
            text = self._mark(text, self.text)
        event.text = text


def _is_long(text: str) -> bool:
    return text.count("\n") >= FOLDED_LINES or len(text) > FOLDED_CHARACTERS
