"""Stop strings: an answer ends before the first one, and nothing is shown that may be the beginning of one."""

from __future__ import annotations


def overlap(text: str, stop: str) -> int:
    """How many of the last characters of the text are the first ones of `stop`, but not all of it."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
