"""Searches earlier prompts: those of all conversations, newest first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.tui.keymap import hint
from app.tui.screens.dialog import Dialog, titled
from app.tui.widgets.conversation_list import marked_line

SHOWN = 200
"""Maximum number of prompts in the list. Searching finds the others."""


class RecallScreen(Dialog[str | None]):
    """Closes with the prompt that was chosen, or None. `asked`: prompts, the oldest first."""

    BINDINGS = [
        Binding("down,ctrl+r", "move(1)", "An older one", id="asked.down", priority=True),
        Binding("up", "move(-1)", "A newer one", id="asked.up", priority=True),
        Binding("enter", "choose", "Put it into the prompt", id="asked.choose", priority=True),
        Binding("escape", "dismiss", "Close", id="asked.close", priority=True),
    ]

    def __init__(self, asked: Sequence[str]) -> None:
        super().__init__()
        self._asked = list(dict.fromkeys(reversed(asked)))
        self._found: list[str] = []

    def compose(self) -> ComposeResult:
        keys = (("asked.choose", "into the prompt"), ("asked.down", "older"), ("asked.close", "close"))
        with titled(Vertical(), "Earlier questions", hint(self, *keys, between=" · ")):
            yield Input(placeholder="Words to search for", compact=True)
            prompts = OptionList(markup=False, compact=True)
            prompts.can_focus = False  # The words are typed while the list is moved through.
            yield prompts

    def on_mount(self) -> None:
        self._fill()

    @on(Input.Changed)
    def _fill(self) -> None:
        words = self.query_one(Input).value.casefold().split()
        matching = (text for text in self._asked if all(word in text.casefold() for word in words))
        self._found = [text for text, _ in zip(matching, range(SHOWN))]
        prompts = self.query_one(OptionList)
        prompts.set_options([Option(marked_line(text, _places(text, words))) for text in self._found])
        if not self._found:
            nothing = "No question has these words." if words else "No questions yet."
            prompts.add_option(Option(Content(nothing), disabled=True))
        prompts.highlighted = 0 if self._found else None

    def action_move(self, step: int) -> None:
        prompts = self.query_one(OptionList)
        if prompts.highlighted is not None:
            prompts.highlighted = min(max(prompts.highlighted + step, 0), len(self._found) - 1)

    def action_choose(self) -> None:
        at = self.query_one(OptionList).highlighted
        self.dismiss(None if at is None else self._found[at])

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index])


def _places(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    if not words:
        return []
    longest_first = sorted(words, key=len, reverse=True)
    return [found.span() for found in re.finditer("|".join(map(re.escape, longest_first)), text, re.IGNORECASE)]
