"""Screens over the chat: a panel in the middle, with a title above and keys below it."""

from __future__ import annotations

import time
from typing import TypeVar

from textual import events
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from app.sanitise import sanitise

Result = TypeVar("Result")
Panel = TypeVar("Panel", bound=Widget)

QUIET_SECONDS = 0.7
"""Time without a key before the first one counts: it may be a letter of a prompt that is being typed."""


class Dialog(ModalScreen[Result]):
    """Subclasses compose one widget that is `titled`. All their styles are in `dialogs.tcss`."""

    CSS_PATH = "dialogs.tcss"

    def __init__(self, *, unasked: bool = False) -> None:
        """`unasked`: it opens without a key, so the person may be typing. Escape counts at once: it is no typing."""
        super().__init__()
        self._unasked = unasked
        self._key_at = 0.0
        self._kept: tuple[Result] | None = None
        """What to close with as soon as no other screen is over this one."""

    def on_mount(self) -> None:
        self._key_at = time.monotonic()

    def on_key(self, event: events.Key) -> None:
        """Drops keys that were meant for the prompt."""
        now = time.monotonic()
        typed = event.is_printable or event.key == "enter"
        if self._unasked and typed and now - self._key_at < QUIET_SECONDS:
            event.stop()
            event.prevent_default()
        self._key_at = now

    def close(self, result: Result) -> None:
        """Close from a worker: once this screen is on top, for `dismiss` would close the screen that is over it.

        Does nothing if the person has closed it.
        """
        if self.is_active:
            self.dismiss(result)
        else:
            self._kept = (result,)

    def on_screen_resume(self) -> None:
        if self._kept is not None:
            self.close(*self._kept)

    def emptied(self, *parts: str) -> bool:
        """Whether one of these parts is gone: they are removed before the screen, while a worker may still go on."""
        return not self.is_attached or not all(len(self.query(part)) for part in parts)

    def say(self, sentence: str | None, line: str = "problem") -> None:
        """Show a sentence in the line with that id, or hide the line."""
        shown = self.query_one(f"#{line}", Static)
        shown.update(Content(sanitise(sentence or "")))
        shown.display = bool(sentence)


def titled(panel: Panel, title: str, keys: str) -> Panel:
    """The panel of a dialog. `keys`: what some of them do, as `hint` says it."""
    panel.add_class("panel")
    panel.border_title, panel.border_subtitle = title, keys
    return panel
