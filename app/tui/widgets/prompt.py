"""Where the person writes."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import var
from textual.widgets import TextArea

from app.sanitise import sanitise

HINT = "enter send · shift+enter new line · f1 keys"
HINT_RUNNING = "esc stop · f1 keys"
HINT_OFFLINE = "enter ask the drafter · ctrl+l queue for the verifier · f1 keys"
HINT_VERIFIABLE = "enter send · ctrl+t verify the drafted answer · f1 keys"


class Prompt(TextArea):
    """A few lines that grow with the text. Up and Down recall earlier prompts while nothing else is typed."""

    BINDINGS = [
        Binding("enter", "submit", "Send", id="prompt.send", priority=True),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="prompt.newline", priority=True),
        Binding("ctrl+l", "keep", "Queue for the verifier; empty: take it back", id="prompt.keep", priority=True),
        Binding("pageup", "scroll_transcript(-1)", "Scroll up", id="prompt.page_up", priority=True),
        Binding("pagedown", "scroll_transcript(1)", "Scroll down", id="prompt.page_down", priority=True),
    ]

    @dataclass
    class Submitted(Message):
        """The person sent a prompt."""

        text: str

    @dataclass
    class Kept(Message):
        """The person put a prompt off until the verifier is there."""

        text: str

    class Recalled(Message):
        """The person wants the last prompt back that was put off."""

    @dataclass
    class Paged(Message):
        """The person wants to read on without leaving the prompt."""

        pages: int

    class Left(Message):
        """Up in an empty prompt that has nothing to recall."""

    class HelpWanted(Message):
        """A question mark in an empty prompt."""

    answering: var[bool] = var(False, toggle_class="-answering")
    """An answer is running: the hint says how to stop it."""

    offline: var[bool] = var(False)
    """Only the drafter would answer: the hint says how to wait for the verifier."""
    verifiable: var[bool] = var(False)
    """There is an answer to verify: the hint says how."""

    def __init__(self) -> None:
        super().__init__(placeholder="How do I …?", tab_behavior="focus", highlight_cursor_line=False)
        self.cursor_blink = False  # A blink would wake an idle laptop twice a second.
        self.earlier: list[str] = []
        """Earlier prompts, oldest first."""
        self._recalled: int | None = None

    def on_mount(self) -> None:
        self._hint()

    def watch_answering(self) -> None:
        self._hint()

    def watch_offline(self) -> None:
        self._hint()

    def watch_verifiable(self) -> None:
        self._hint()

    def _hint(self) -> None:
        if self.answering:
            self.border_subtitle = HINT_RUNNING
        elif self.offline:
            self.border_subtitle = HINT_OFFLINE
        else:
            self.border_subtitle = HINT_VERIFIABLE if self.verifiable else HINT

    def write(self, text: str) -> None:
        """Replaces what is there; the cursor goes to the end."""
        self.text = text
        self.move_cursor(self.document.end)

    # The app runs these three itself, ahead of the letters that wait in this widget's queue when text and Enter come in
    # one burst, as from `tmux send-keys`. So each takes its turn in the queue.

    def action_submit(self) -> None:
        self.call_later(self._submit)

    def action_keep(self) -> None:
        self.call_later(self._keep)

    def action_newline(self) -> None:
        self.call_later(self.insert, "\n")

    def _submit(self) -> None:
        text = self.text.strip()
        if text:
            self._recalled = None
            self.post_message(self.Submitted(text))

    def _keep(self) -> None:
        self._recalled = None
        text = self.text.strip()
        self.post_message(self.Kept(text) if text else self.Recalled())

    def action_scroll_transcript(self, pages: int) -> None:
        self.post_message(self.Paged(pages))

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self._recall(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self._recall(1):
            super().action_cursor_down(select)

    def _recall(self, step: int) -> bool:
        """Moves through `earlier`; False where the person has typed something of their own."""
        at = self._recalled
        if at is None or at >= len(self.earlier) or self.text != self.earlier[at]:
            if self.text:
                return False
            at = len(self.earlier)
        at += step
        if at >= len(self.earlier):
            self._recalled = None
            self.write("")
        elif at >= 0:
            self._recalled = at
            self.write(self.earlier[at])
        elif not self.text:
            self.post_message(self.Left())
        return True

    async def _on_key(self, event: events.Key) -> None:
        if event.character == "?" and not self.text:
            event.stop()
            event.prevent_default()
            self.post_message(self.HelpWanted())

    async def _on_paste(self, event: events.Paste) -> None:
        # What is pasted is drawn, so it must be as clean as an answer. TextArea's own handler would run after this one.
        event.stop()
        event.prevent_default()
        text = sanitise(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        await super()._on_paste(events.Paste(text))
