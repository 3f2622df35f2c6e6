"""The files that go with what is being written: one line each, above the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widgets import Static

from app.attachments.preview import PreviewLine


class PromptFiles(Static):
    """Hidden while there is nothing to say. A click on a file takes it out of the question."""

    @dataclass
    class Removed(Message):
        """The person does not want this path to go with the question."""

        raw: str

    def __init__(self) -> None:
        super().__init__(markup=False, id="files")
        self.lines: tuple[PreviewLine, ...] = ()

    def on_mount(self) -> None:
        self.display = False

    def show(self, lines: Sequence[PreviewLine]) -> None:
        """Replaces the lines."""
        if tuple(lines) != self.lines:
            self.lines = tuple(lines)
            self.display = bool(lines)
            self.update(Content("\n").join(self._line(at, line) for at, line in enumerate(self.lines)))

    def _line(self, at: int, line: PreviewLine) -> Content:
        if line.problem:
            return Content.assemble(("! ", "$text-warning"), (line.text, "$text-warning"))
        if line.raw is None:
            return Content.assemble(("  ", ""), (line.text, "$text-muted"))
        return Content.assemble(("+ ", "$text-primary"), line.text, ("  ✕", Style.from_meta({"file": at})))

    def on_click(self, event: events.Click) -> None:
        at = event.style.meta.get("file")
        if isinstance(at, int) and at < len(self.lines) and (raw := self.lines[at].raw) is not None:
            event.stop()
            self.post_message(self.Removed(raw))
