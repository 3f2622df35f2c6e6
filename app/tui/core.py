"""What the screen needs of the rest of Outrider. Any object of this shape can be behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from app.events import Event, ModeChanged
from storage import Attachment, Choices, Message, Queued, Store

if TYPE_CHECKING:
    from app.drafting.prompt import Context
    from app.remotes.offers import Offer
    from app.remotes.source import Source


class CoreOutbox(Protocol):
    """The queue of what waits for the verifier. All methods but `due` and `send` raise `StorageError`."""

    def enqueue(self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> Queued:
        """Queue a prompt, with what goes with it, until the verifier is there."""

    def enqueue_verification(self, message_id: str) -> Queued:
        """Queue an answer to be verified when the verifier is there."""

    def queued(self) -> list[Queued]:
        """What waits, in the order of sending; without what is being sent."""

    def unqueue(self, queued_id: str) -> Queued:
        """Take an entry out of the queue, and delete the conversation if it was begun for this entry."""

    def due(self) -> AsyncIterator[Queued]:
        """Each entry that is to be sent now, one after another; waits while there is none."""

    def send(self, queued: Queued) -> AsyncIterator[Event]:
        """The events of the entry's reply; none if another program has sent it already."""


class Core(Protocol):
    """The assistant as the screen sees it: `app.reply.assistant.Assistant`, or a script in a test."""

    @property
    def store(self) -> Store:
        """The store of conversations and messages. Replies write it; the screen reads and organises it."""

    @property
    def outbox(self) -> CoreOutbox:
        """The queue of what waits for the verifier."""

    def reply(self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> AsyncIterator[Event]:
        """Store a question and what goes with it, answer it, store the answer. The text in the events is sanitised."""

    def edit(self, message_id: str, text: str, attachments: Sequence[Attachment] = ()) -> AsyncIterator[Event]:
        """Ask an edited question, beside the old one. The new branch is the shown one from then on."""

    def regenerate(self, message_id: str) -> AsyncIterator[Event]:
        """Answer again, beside what is there. `message_id`: an answer or a question. The new answer is shown."""

    def resume(self, message_id: str) -> AsyncIterator[Event]:
        """Continue an answer that was cut off. The whole answer is stored beside the old one, and shown instead.

        `Judged`, before `Done`, tells what the target kept if part of the old answer was drafted.
        """

    def verify(self, message_id: str) -> AsyncIterator[Event]:
        """Verify a stored answer. The verified answer is stored beside it."""

    def context(self, conversation_id: str) -> Context | None:
        """How much of the context the shown branch takes, without a running reply; None while nothing can count it.

        Any thread may call it. Raises `StorageError`.
        """

    def use(self, source: Source | None) -> None:
        """Use another remote from now on; None: no remote. A running reply ends with the remote it began with."""

    def follow(self, choices: Choices) -> None:
        """A conversation with these choices is open now: connect to the server that was chosen for it."""

    @property
    def offer(self) -> Offer | None:
        """The small model that the open conversation's server offers, and that is not here."""

    async def fetch_offered(self, progress: Callable[[int, int], None]) -> None:
        """Fetch it, and draft with it. `progress`: bytes that are here, and bytes in all. Raises `Exception`."""

    async def news(self) -> list[tuple[str, str]]:
        """What the person is told once of the small models on this device: a name for it, and a sentence. Waits."""

    def stays_here(self) -> bool:
        """Whether what is asked stays on this device; False while that is not known."""

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Ranges of characters of an answer that nobody verified; none if that is unknown."""

    def stop(self) -> None:
        """End the running reply, which then yields `Done(stopped=True)`. Does nothing if none runs."""

    def status(self) -> ModeChanged:
        """The mode now, and why. Never waits: the window opens before the verifier is up."""

    def changes(self) -> AsyncIterator[ModeChanged]:
        """The mode as soon as somebody can answer, and each later change of it that is not an event of a reply."""
