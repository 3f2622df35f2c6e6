"""The list above the prompt of what can be completed at the cursor."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual import on
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.sanitise import sanitise
from app.tui.completion import Candidate, Completion

ROWS = 8
"""Candidates that are seen at once, at most."""
LABEL = 34
"""Columns for the candidates, at most; what is said about them stands behind."""
QUIET = "$foreground 60%"


class Completions(OptionList):
    """Lies over the lines above the prompt, never over the prompt, which keeps the focus and hears the keys."""

    DEFAULT_CSS = """
    Completions {
        overlay: screen;
        display: none;
        width: 1fr;
        max-width: 84;
        margin: 0 2;
        padding: 0 1;
        border: none;
        background: $panel;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
        & > .option-list--option { padding: 0; }
        & > .option-list--option-highlighted { background: $primary; color: auto 95%; text-style: none; }
    }
    """

    @dataclass
    class Chosen(Message):
        """The person clicked a candidate."""

        at: int

    can_focus = False

    def __init__(self) -> None:
        super().__init__(compact=True, markup=False)
        self.completion: Completion | None = None
        """What is shown."""

    def show(self, completion: Completion, room: int) -> None:
        """Show candidates; the one that was chosen stays so if they are the same. `room`: lines above the prompt."""
        before, self.completion = self.completion, completion
        if before is None or before.candidates != completion.candidates:
            width = min(LABEL, max(cell_len(one.label) for one in completion.candidates))
            self.set_options([Option(_line(one, width)) for one in completion.candidates])
            self.highlighted = 0 if completion.eager else None
        rows = min(len(completion.candidates), ROWS, room)
        self.styles.height = rows
        self.styles.offset = (0, -rows)
        self.display = rows > 0

    def hide(self) -> None:
        self.completion = None
        self.display = False

    def move(self, step: int) -> None:
        """Choose the next candidate, or the one before; behind the last one comes the first."""
        if self.completion is not None:
            count = len(self.completion.candidates)
            first = 0 if step > 0 else count - 1
            self.highlighted = first if self.highlighted is None else (self.highlighted + step) % count

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Chosen(event.option_index))


def _line(candidate: Candidate, width: int) -> Content:
    label = sanitise(candidate.label)
    if not candidate.help:
        return Content(label)
    return Content.assemble(label + " " * (width - cell_len(label)), (f"  {candidate.help}", QUIET))
