"""How much of what can be read at once a conversation takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.drafting.spelling import spelt
from drafter.config import DrafterError
from drafter.text import ChatText
from storage import Message, Store


class Context(NamedTuple):
    """Tokens of the shown branch, and how many can be read: by the drafter, and by the verifier where one is there."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        return self.used / self.limit


def context_of(store: Store, text: ChatText, conversation_id: str, limit: int) -> Context:
    """Of the shown branch, without an answer that is being written. Raises `StorageError`."""
    try:
        thread = [one for one in store.branches.thread(conversation_id) if one.status not in ("pending", "streaming")]
        used = conversation_length(text, thread)
    except DrafterError:
        used = 0  # The answer will say what is wrong with the template.
    return Context(used, limit)


def context_told(store: Store, conversation_id: str, limit: int | None) -> Context | None:
    """What an OpenAI-compatible server has counted at the last answer of the shown branch; None: it has not.

    Raises `StorageError`.
    """
    for message in reversed(store.branches.thread(conversation_id)):
        counts = message.stats.get("prompt_tokens"), message.stats.get("completion_tokens")
        if message.role == "assistant" and message.status not in ("pending", "streaming"):
            used = sum(count for count in counts if isinstance(count, int))
            return Context(used, limit) if used and limit else None
    return Context(0, limit) if limit else None


def conversation_length(text: ChatText, thread: Sequence[Message]) -> int:
    """Tokens of a conversation, without rendering its template for each question again: that takes quadratic time.

    Within a few tokens of the prompt of the next answer. Raises `TemplateFailed`.
    """
    if not thread:
        return 0
    one = len(text.render([("user", "a")]))
    two = len(text.render([("user", "a"), ("assistant", "a"), ("user", "a")]))
    letter = len(text.encode("a"))
    around = (two - one - 2 * letter) / 2
    said = sum(len(spelt(text, message).tokens) for message in thread)
    return round(one - letter + said + around * (len(thread) - 1))
