"""What the screen needs of the rest of Outrider, and nothing more: any object of this shape can sit behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from app.events import Event, ModeChanged
from storage import Message, Queued, Store

if TYPE_CHECKING:
    from app.drafting.prompt import Context
    from app.remotes.source import Source


class CoreOutbox(Protocol):
    """What waits for the target. All but `due` and `send` raise `StorageError`."""

    def enqueue(self, conversation_id: str, prompt: str) -> Queued:
        """Keeps a prompt until the verifier is there."""

    def enqueue_verification(self, message_id: str) -> Queued:
        """Has an answer verified when the verifier is there."""

    def queued(self) -> list[Queued]:
        """What waits, in its order; not what is being sent."""

    def unqueue(self, queued_id: str) -> Queued:
        """Takes it out, and the conversation along that was begun for it."""

    def due(self) -> AsyncIterator[Queued]:
        """What is to be sent now, one after another; waits while there is nothing."""

    def send(self, queued: Queued) -> AsyncIterator[Event]:
        """The events of its answer or verification; none where another program was faster."""


class Core(Protocol):
    """The assistant as the screen sees it: `app.reply.assistant.Assistant`, or a scripted stream in a test."""

    @property
    def store(self) -> Store:
        """Conversations and messages; `reply` writes them, the screen reads them and creates conversations."""

    @property
    def outbox(self) -> CoreOutbox:
        """What waits for the target."""

    def reply(self, conversation_id: str, prompt: str) -> AsyncIterator[Event]:
        """Stores the question, answers it, stores the answer. The text in the events is already sanitised."""

    def edit(self, message_id: str, text: str) -> AsyncIterator[Event]:
        """Asks a question in other words, beside it, and answers that; the new branch is shown from then on."""

    def regenerate(self, message_id: str) -> AsyncIterator[Event]:
        """Gives an answer again, or one to a question: beside what is there, and shown instead."""

    def resume(self, message_id: str) -> AsyncIterator[Event]:
        """Goes on with an answer that was cut off. What comes begins with it and is stored beside it; it is shown
        instead. `Judged`, before `Done`, tells what the target kept where part of it was drafted."""

    def verify(self, message_id: str) -> AsyncIterator[Event]:
        """Has a stored answer verified; what comes of it is stored beside it."""

    def context(self, conversation_id: str) -> Context | None:
        """How much of what can be read the shown branch takes, without an answer that is being written.

        None while nothing can count it. Any thread may ask. Raises `StorageError`.
        """

    def use(self, source: Source | None) -> None:
        """Ask another remote from now on; None: none at all. What is on its way is finished where it began."""

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Which characters of an answer nobody verified, as it is shown; none where that cannot be told."""

    def stop(self) -> None:
        """Ends the running reply, which then yields `Done(stopped=True)`; nothing happens where none runs."""

    def status(self) -> ModeChanged:
        """The mode now and why. Never waits: the window opens before the verifier is up."""

    def changes(self) -> AsyncIterator[ModeChanged]:
        """Each later change of the mode that no reply reports."""
