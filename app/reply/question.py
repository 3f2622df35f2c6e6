"""Questions as they are stored, each with a pending answer, before anything is loaded or sent."""

from __future__ import annotations

from collections.abc import Sequence

from app.reply.errors import NoAnswer
from storage import Attachment, Message, Store


def ask(store: Store, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> Message:
    """Store a question after all that is shown, with what goes with it; returns its pending answer.

    Raises `StorageError`.
    """
    tip = store.conversations.get(conversation_id).tip_id
    return store.messages.ask(conversation_id, prompt, parent_id=tip, attachments=attachments)


def edit(store: Store, message_id: str, text: str, attachments: Sequence[Attachment] = ()) -> Message:
    """Store another wording of a question beside it; returns its pending answer. Raises `NoAnswer`, `StorageError`."""
    question = store.messages.get(message_id)
    if question.role != "user":
        raise NoAnswer("Only a question can be edited; ask for another answer instead.", "internal")
    return store.messages.ask(question.conversation_id, text, parent_id=question.parent_id, attachments=attachments)
