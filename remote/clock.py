"""What a server's answers tell of its clock."""

from __future__ import annotations

from email.utils import parsedate_to_datetime


def ahead_seconds(date: str | None, now: float) -> float | None:
    """How far a `Date` header is ahead of `now`, in seconds, to the second; None where it tells no time."""
    if date is None:
        return None
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return None
