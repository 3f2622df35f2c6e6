"""Tags: words by which a person sorts conversations. They are among its choices; a search has them after `#`."""

from __future__ import annotations

from collections.abc import Iterable

MOST_TAGS = 20
"""Tags of one conversation."""
LONGEST_TAG = 40
"""Characters."""


def tags_from(typed: Iterable[str]) -> tuple[str, ...]:
    """Tags as they are stored, in order, each once."""
    return tuple(sorted(set(filter(None, map(tag_from, typed)))))[:MOST_TAGS]


def split_tags(words: str) -> tuple[list[str], str]:
    """The tags of a search, which may be the beginnings of some, and its other words."""
    parts = words.split()
    tags = [tag for part in parts if part.startswith("#") and (tag := tag_from(part))]
    return tags, " ".join(part for part in parts if not part.startswith("#"))


def tag_from(typed: str) -> str:
    """A tag as it is stored: letters, digits and `-_./` alone; empty if none are left.

    >>> tag_from("#Work, ")
    'work'
    """
    return "".join(char for char in typed.casefold() if char.isalnum() or char in "-_./")[:LONGEST_TAG]
