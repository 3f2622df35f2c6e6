"""What the screen needs of the rest of Outrider, and nothing more: any object of this shape can sit behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from app.events import Event, ModeChanged
from storage import Store


class Core(Protocol):
    """The assistant as the screen sees it. `app.assistant.Assistant` is one; a scripted stream in a test is another."""

    @property
    def store(self) -> Store:
        """Conversations and messages; `reply` writes them, the screen reads them and creates conversations."""

    def reply(self, conversation_id: str, prompt: str) -> AsyncIterator[Event]:
        """Stores the question, answers it, stores the answer. The text in the events is already sanitised."""

    def stop(self) -> None:
        """Ends the running reply, which then yields `Done(stopped=True)`; nothing happens where none runs."""

    def status(self) -> ModeChanged:
        """The mode now and why. Never waits: the window opens before the verifier is up."""

    def changes(self) -> AsyncIterator[ModeChanged]:
        """Each later change of the mode that no reply reports."""
