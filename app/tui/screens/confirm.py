"""A question to be answered with yes or no, over the screen that asks it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.tui.keymap import key_of
from app.tui.screens.dialog import Dialog


class Confirm(Dialog[bool]):
    BINDINGS = [
        Binding("y,enter", "dismiss(True)", "Yes", id="confirm.yes"),
        Binding("n,escape,q", "dismiss(False)", "No", id="confirm.no"),
    ]

    def __init__(self, question: str, *, unasked: bool = False) -> None:
        super().__init__(unasked=unasked)
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="panel"):
            yield Static(Content(self._question), markup=False)
            answers = (("confirm.yes", " yes   "), ("confirm.no", " no"))
            parts = [part for name, word in answers for part in ((key_of(self, name), "bold"), word)]
            yield Static(Content.assemble(*parts), id="hint", markup=False)
