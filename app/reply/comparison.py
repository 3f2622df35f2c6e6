"""How much of an answer that was written offline stands in the answer that another server gave to the same question.

Such a server checks no drafts, so the two texts are compared, word by word: what is between white space, as it is
written. The order counts. The marks around code blocks do not: two answers about different things have the same ones.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

from app.sanitise import sanitise

MOST_UNITS = 1500
"""Most words of a text that are compared one by one. Longer texts are compared by lines, the first so many: the time
grows with the product, and this many take up to half a second."""
WORDS = re.compile(r"(?<!\S)(?!```|~~~)\S+")
LINES = re.compile(r"^(?![ \t]*(?:```|~~~))[^\n]*\S[^\n]*", re.MULTILINE)
FENCE = re.compile(r"^[ \t]*(```|~~~).*\n?", re.MULTILINE)


class Comparison(NamedTuple):
    """What one text has of another."""

    kept: int
    """Words of the first text that stand in the second one too, in the same order."""
    of: int
    """Words of the first text."""
    dropped: str
    """The other words of the first text, as paragraphs. Each begins with an ellipsis if words before it were kept."""


def compare(drafted: str, answer: str) -> Comparison:
    """What `answer` has of the words of `drafted`."""
    unit = WORDS
    if max(len(WORDS.findall(drafted)), len(WORDS.findall(answer))) > MOST_UNITS:
        unit = LINES
    old, new = list(unit.finditer(drafted))[:MOST_UNITS], unit.findall(answer)[:MOST_UNITS]
    blocks = SequenceMatcher(None, [one[0] for one in old], new, autojunk=False).get_matching_blocks()
    kept = sum(len(WORDS.findall(one[0])) for block in blocks for one in old[block.a : block.a + block.size])
    runs, at = [], 0
    for block in blocks:  # The last one is empty, and stands at the end.
        if block.a > at:
            said = FENCE.sub("", drafted[old[at].start() : old[block.a - 1].end()]).strip("\n")
            runs += [f"… {said}" if at else said] if said.strip() else []
        at = block.a + block.size
    return Comparison(kept, len(WORDS.findall(drafted)), sanitise("\n\n".join(runs)))
