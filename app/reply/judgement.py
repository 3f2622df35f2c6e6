"""An answer that was drafted alone, and what the target says to it: how much of it stays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from app.events import Judged
from app.sanitise import sanitise
from storage import Message

SENTENCE_ENDS = (".", "!", "?", ":", "\n", "。", "！", "？")


def unverified(answer: Message) -> bool:
    """Whether the target has anything to say to it: it did not verify all of it, or it was cut off."""
    return answer.role == "assistant" and (not all(answer.provenance) or answer.status != "done")


def nothing_to_verify(answer: Message) -> str:
    """Why an answer is not verified, in a sentence for whoever wants it verified."""
    if answer.tokens:
        return "Every token of that answer is verified already."
    if answer.stats.get("streamed") is not None:
        return "That answer was streamed by a server that verifies nothing, so none of it was drafted here."
    return "That answer was not drafted here, so there is nothing to verify."


def verified_length(answer: Message) -> int:
    """Its tokens before the first that nobody verified."""
    return sum(takewhile(bool, answer.provenance))


def judge(answer: Message, tokens: Sequence[int], text: str) -> Judged | None:
    """What the target's own `tokens` and their text keep of a drafted answer; None where nothing was drafted."""
    start = verified_length(answer)
    if start == len(answer.tokens):
        return None
    kept = sum(takewhile(bool, (a == b for a, b in zip(answer.tokens[start:], tokens[start:]))))
    return Judged(answer.id, kept, len(answer.tokens) - start, dropped(answer.text, text), midway(answer.text, text))


def stored_judgement(verified: Message, answer: Message) -> Judged | None:
    """The same, as it was stored with the verified answer; None where it was cut off before it was known."""
    kept, of = verified.stats.get("kept"), verified.stats.get("of")
    if not isinstance(kept, int) or not isinstance(of, int):
        return None
    return Judged(answer.id, kept, of, dropped(answer.text, verified.text), midway(answer.text, verified.text))


def dropped(drafted: str, verified: str) -> str:
    """The end of a drafted text from the word on where it differs from the verified one."""
    return sanitise(drafted[_parting(drafted, verified) :])


def midway(drafted: str, verified: str) -> bool:
    """Whether that end begins within a sentence, or a line of code."""
    parting = _parting(drafted, verified)
    before = drafted[:parting].rstrip(" \t")
    return bool(before) and parting < len(drafted) and not before.endswith(SENTENCE_ENDS)


def _parting(drafted: str, verified: str) -> int:
    """Where the word begins in which two texts part; the first one's length where it is the beginning of the other."""
    same = sum(takewhile(bool, (a == b for a, b in zip(drafted, verified))))
    if same < len(drafted):
        while same and not drafted[same - 1].isspace():
            same -= 1
    return same
