"""The log of the program, as it grows."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import Log, Static

from app.config import Folders
from app.log import LogFile
from app.tui.keymap import hint
from app.tui.screens.dialog import Dialog, titled

LOOK_SECONDS = 0.5
"""Seconds between two looks for new lines."""


class LogScreen(Dialog[None]):
    """Shows the end of the log, and follows it unless the person scrolls up. `path`: another file to show."""

    BINDINGS = [
        Binding("escape,q", "dismiss", "Close", id="log.close"),
        Binding("y", "copy_path", "Copy its path", id="log.copy"),
    ]

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path or Folders.locate().log
        self._file = LogFile(self.path)

    def compose(self) -> ComposeResult:
        yield titled(Log(), "Log", hint(self, ("log.copy", "copy its path"), ("log.close", "close")))
        yield Static(str(self.path), id="path", markup=False)

    def on_mount(self) -> None:
        self.query_one(Log).focus()
        self._look()
        self.set_interval(LOOK_SECONDS, self._look)

    def action_copy_path(self) -> None:
        self.app.copy_to_clipboard(str(self.path))

    def _look(self) -> None:
        try:
            new = self._file.new()
        except OSError as error:
            self.query_one("#path", Static).update(f"{self.path} cannot be read: {error.strerror}")
            return
        if new:
            self.query_one(Log).write_lines(new)
