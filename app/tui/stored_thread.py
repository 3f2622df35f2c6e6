"""The shown branch of a conversation, read from the store as turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from app.sanitise import sanitise
from app.system_prompts import SystemPrompt, in_force
from app.tui.turn import Turn
from storage import Choices, Message, Store
from storage.choices import NONE


class Summed(NamedTuple):
    """The older part of a conversation, which the model reads as a summary."""

    turns: int = 0
    messages: int = 0
    text: str = ""
    version: int = 0
    """Version of the conversation's summaries; see `Summaries.version`."""


@dataclass(frozen=True)
class StoredThread:
    """A conversation as it is stored. Without an id: a new conversation."""

    id: str | None = None
    title: str = ""
    turns: list[Turn] = field(default_factory=list)
    found: int | None = None
    """Place of the turn with the message that was looked for."""
    choices: Choices = NONE
    imported: SystemPrompt = SystemPrompt("")
    """The system message that it begins with, where it was imported."""
    summed: Summed = Summed()


def read_thread(store: Store, conversation_id: str, message_id: str | None = None) -> StoredThread:
    """Read the shown branch. The branch with `message_id` becomes the shown one. Raises `StorageError`.

    A thousand messages take 30 ms.
    """
    conversation, version = store.conversations.get(conversation_id), store.summaries.version(conversation_id)
    messages, thread = _branch(store, conversation_id)
    found = None
    if message_id is not None:
        if all(message.id != message_id for message in thread):
            store.branches.show(message_id)
            messages, thread = _branch(store, conversation_id)
        before = [message.id for message in thread].index(message_id)
        found = len(Turn.of_thread(thread[: before + 1])) - 1
    turns, imported = Turn.of_thread(thread, messages), in_force(NONE, thread)
    summed = _summed(store, conversation_id, thread) if any(message.summary for message in messages) else Summed()
    summed = summed._replace(version=version)
    return StoredThread(conversation_id, conversation.title, turns, found, conversation.choices, imported, summed)


def _summed(store: Store, conversation_id: str, thread: list[Message]) -> Summed:
    summary = store.summaries.of(conversation_id)
    ends = next((at for at, message in enumerate(thread, 1) if summary and message.id == summary.up_to), 0)
    if summary is None or not ends:
        return Summed()
    return Summed(len(Turn.of_thread(thread[:ends])), ends, sanitise(summary.answer.text))


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
