"""Describes what answers have cost."""

from __future__ import annotations

from storage import Used


def told(used: Used) -> list[str]:
    """Answers, tokens and dollars. Where no price is known, tokens only."""
    parts = [
        "1 answer" if used.answers == 1 else f"{used.answers:,} answers",
        f"{thousands(used.read)} tokens read",
        f"{thousands(used.written)} written",
    ]
    if used.dollars is not None:
        parts.append(dollars(used.dollars) + (f" and {used.unpriced} without a price" if used.unpriced else ""))
    elif used.unpriced:
        parts.append("no price known")
    if used.uncounted:
        parts.append(f"{used.uncounted} not fully counted")
    return parts


def dollars(amount: float) -> str:
    """An amount with cents; below ten dollars with as many digits as it has, up to four."""
    return f"${amount:,.2f}" if amount >= 10 or not amount else f"${amount:.4f}"


def thousands(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:,.1f}k" if count < 10_000_000 else f"{count / 1e6:,.1f}M"
