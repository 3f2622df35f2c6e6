"""The system prompt of the open conversation, as one line above its messages that can be unfolded."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from app.sanitise import sanitise
from app.system_prompts import SystemPrompt

QUIET = "$foreground 60%"


class SystemLine(VerticalScroll, can_focus=False):
    """Hidden without a system prompt. A click folds or unfolds it."""

    def __init__(self) -> None:
        super().__init__()
        self._prompt = SystemPrompt("")
        self._key = ""
        self._text = Static(markup=False)
        self.unfolded = False

    def compose(self) -> ComposeResult:
        yield self._text

    def on_mount(self) -> None:
        self._draw()

    def show(self, prompt: SystemPrompt, key: str = "") -> None:
        """Show this system prompt, folded if it is another one. `key`: unfolds it."""
        if prompt != self._prompt:
            self._prompt, self.unfolded = prompt, False
        self._key = key
        if self.is_mounted:
            self._draw()

    def toggle(self) -> None:
        self.unfolded = not self.unfolded
        self._draw()

    def on_click(self) -> None:
        self.toggle()

    def _draw(self) -> None:
        text = sanitise(self._prompt.text)
        self.display = bool(text)
        self.set_class(self.unfolded, "-unfolded")
        head = f"System prompt: {sanitise(self._prompt.name)}" if self._prompt.name else "System prompt"
        key = f" · {self._key} {'folds' if self.unfolded else 'unfolds'} it" if self._key else ""
        if self.unfolded:
            said = Content.assemble((f"{head}{key}", QUIET), "\n", text)
        else:
            said = Content.assemble((f"{head}{key} · ", QUIET), (" ".join(text.split()), "$foreground 40%"))
        self._text.update(said)
