"""A text area that offers completions as you type, without getting in the way if you ignore them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual import events, on
from textual.actions import SkipAction
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import var
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from app.sanitise import sanitise
from app.tui.completion import Candidate, Completion, Provider
from app.tui.widgets.folding_text_area import FoldingTextArea

ROWS = 8
"""Maximum number of candidates in view."""
LABEL = 34
"""Maximum columns for the candidates; their descriptions follow."""
QUIET = "$foreground 60%"


class Completions(OptionList):
    """Covers the lines above the prompt, never the prompt itself, which keeps the focus and receives the keys."""

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
        """Choose the next or the previous candidate; after the last one comes the first."""
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


class CompletingTextArea(FoldingTextArea):
    """Asks each of its `providers` what can be completed at the cursor, and uses the first that returns something.

    `completions` is the list that shows it; whoever composes this widget puts it before it.
    """

    BINDINGS = [
        Binding("tab", "complete", "Complete a command or a path", id="prompt.complete"),
        Binding("escape", "close_completions", "Close the completions", id="prompt.close"),
    ]

    completing: var[bool] = var(False)
    """Completions are offered now."""

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder)
        self.completions = Completions()
        self.providers: list[Provider] = []
        self._typing = False
        """The last change was typed. What is pasted, recalled or written by the program opens no list."""
        self._dismissed: int | None = None
        """Start of the completion that the person has closed."""

    async def on_key(self, event: events.Key) -> None:
        self._typing = True

    def on_paste(self, event: events.Paste) -> None:
        self._typing = False

    def load_text(self, text: str) -> None:
        self._typing = False
        super().load_text(text)

    def on_blur(self) -> None:
        self._offer(None)

    @on(TextArea.Changed)
    @on(TextArea.SelectionChanged)
    def offer(self) -> None:
        """Show what can be completed at the cursor; nothing if nothing can."""
        completion = self._completion() if self._typing and self.has_focus and not self.selected_text else None
        if completion is None or completion.start != self._dismissed:
            self._dismissed = None
        self._offer(completion if self._dismissed is None else None)

    def _offer(self, completion: Completion | None) -> None:
        if completion is None or not completion.candidates:
            self.completions.hide()
        else:
            self.completions.show(completion, self.region.y)
        self.completing = self.completions.completion is not None

    def _completion(self) -> Completion | None:
        text, cursor = self.text, self._cursor
        found = (provider(text, cursor) for provider in self.providers)
        return next((completion for completion in found if completion is not None), None)

    @property
    def _cursor(self) -> int:
        """Characters before the cursor."""
        return len(self.get_text_range((0, 0), self.cursor_location))

    def take(self, at: int) -> None:
        """Put a candidate into the text."""
        completion = self.completions.completion
        if completion is not None and at < len(completion.candidates):
            (row, column), cursor = self.cursor_location, self._cursor
            start, end = (row, column + completion.start - cursor), (row, column + completion.end - cursor)
            self.replace(completion.candidates[at].text, start, end, maintain_selection_offset=False)

    def take_chosen(self) -> bool:
        """Complete the chosen candidate, as on Enter. Returns False if there is none or if it is already complete."""
        self.offer()  # Letters that came in the same burst count too.
        completion, chosen = self.completions.completion, self.completions.highlighted
        if completion is None or chosen is None:
            return False
        if completion.candidates[chosen].text.rstrip() == self.text[completion.start : completion.end]:
            return False
        self.take(chosen)
        return True

    def action_complete(self) -> None:
        self.offer()
        if not self.completing:
            raise SkipAction
        self.take(self.completions.highlighted or 0)

    def action_close_completions(self) -> None:
        self.offer()
        if self.completions.completion is None:
            raise SkipAction
        self._dismissed = self.completions.completion.start
        self._offer(None)

    def action_cursor_up(self, select: bool = False) -> None:
        if self.completing and not select:
            self.completions.move(-1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.completing and not select:
            self.completions.move(1)
        else:
            super().action_cursor_down(select)
