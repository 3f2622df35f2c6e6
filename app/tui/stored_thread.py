"""The shown branch of a conversation, read from the store as turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.system_prompts import SystemPrompt, in_force
from app.tui.turn import Turn
from storage import Choices, Message, Store
from storage.choices import NONE


@dataclass(frozen=True)
class StoredThread:
    """A conversation as it is stored. Without an id: a new conversation."""

    id: str | None = None
    title: str = ""
    turns: list[Turn] = field(default_factory=list)
    found: int | None = None
    """Place of the turn with the message that was looked for."""
    choices: Choices = NONE
    """What was chosen for it."""
    imported: SystemPrompt = SystemPrompt("")
    """The system message that it begins with, where it was imported."""


def read_thread(store: Store, conversation_id: str, message_id: str | None = None) -> StoredThread:
    """Read the shown branch. The branch with `message_id` is the shown one from then on. Raises `StorageError`.

    A thousand messages take 30 ms.
    """
    conversation = store.conversations.get(conversation_id)
    messages, thread = _branch(store, conversation_id)
    found = None
    if message_id is not None:
        if all(message.id != message_id for message in thread):
            store.branches.show(message_id)
            messages, thread = _branch(store, conversation_id)
        before = [message.id for message in thread].index(message_id)
        found = len(Turn.of_thread(thread[: before + 1])) - 1
    turns, imported = Turn.of_thread(thread, messages), in_force(NONE, thread)
    return StoredThread(conversation_id, conversation.title, turns, found, conversation.choices, imported)


def _branch(store: Store, conversation_id: str) -> tuple[list[Message], list[Message]]:
    """All messages of a conversation, and those of the shown branch."""
    tip = store.conversations.get(conversation_id).tip_id
    messages = store.messages.of(conversation_id)  # Read after the tip, which is among them.
    known = {message.id: message for message in messages}
    thread: list[Message] = []
    while tip is not None and (message := known.get(tip)) is not None:
        thread.append(message)
        tip = message.parent_id
    return messages, thread[::-1] if tip is None else store.branches.thread(conversation_id)
