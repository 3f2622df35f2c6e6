"""The title of a conversation, made from its first question.

A title names the matter and does not ask: "How do I unpack a .tar.gz file?" becomes "Unpack a .tar.gz file". Only the
usual beginnings of English questions are removed; a question in another language keeps its words.
"""

from __future__ import annotations

import re

TITLE_LENGTH = 60
"""Most characters of a title."""
OPENING = re.compile(
    r"(?:(?:hi|hello|hey|please|so|ok|okay)\b[,!.]?\s+)*"
    r"(?:how\s+(?:do|can|could|would|should|might)\s+(?:i|we|you|one)\s+|how\s+to\s+"
    r"|(?:can|could|would)\s+(?:you|u)\s+(?:please\s+)?(?:help\s+me\s+(?:to\s+)?|tell\s+me\s+how\s+to\s+|show\s+me\s+how\s+to\s+)?"
    r"|(?:what\s+is|what's|whats)\s+the\s+(?:best\s+|easiest\s+)?(?:way\s+to|command\s+(?:to|for))\s+"
    r"|i\s+(?:want|need|would\s+like|'d\s+like)\s+to\s+|please\s+)",
    re.IGNORECASE,
)
"""Matches the opening words of a question, before its subject."""
ENDING = re.compile(r"(?:[\s,]*\bplease)?[\s?？!！.。]*$", re.IGNORECASE)
ABBREVIATION = re.compile(r"(?:\.\.\.|…|\betc\.)\s*$")


def title_from(question: str) -> str:
    """The title for a conversation that begins with this question, in one line of at most `TITLE_LENGTH` characters."""
    asked = " ".join(question.split())
    opening = OPENING.match(asked)
    matter = asked[opening.end() :] if opening else asked
    if not ABBREVIATION.search(matter):
        matter = ENDING.sub("", matter)
    if not any(map(str.isalnum, matter)):
        opening, matter = None, asked
    # The first word may be a name such as `e2fsck` or `file.txt`.
    if opening and matter[:1].islower() and matter.split()[0].rstrip(",:;").isalpha():
        matter = matter[0].upper() + matter[1:]
    return matter if len(matter) <= TITLE_LENGTH else f"{matter[: TITLE_LENGTH - 1].rstrip()}…"
