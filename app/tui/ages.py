"""The age of a conversation, in the words that divide the list of conversations."""

from __future__ import annotations

from datetime import datetime, timedelta

from storage import Conversation

PINNED = "Pinned"


def age(written: str, now: datetime) -> str:
    """Today, Yesterday, This week or Older. `written`: UTC, ISO 8601. `now`: its time zone says when days begin."""
    try:
        then = datetime.fromisoformat(written).astimezone(now.tzinfo)
    except ValueError:  # An import may hold anything.
        return "Older"
    days = (now.date() - then.date()).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    monday = now.date() - timedelta(days=now.weekday())
    return "This week" if then.date() >= monday else "Older"


def group(conversation: Conversation, now: datetime) -> str:
    """The part of the list that a conversation belongs to."""
    return PINNED if conversation.pinned else age(conversation.updated, now)
