"""Measures how much of an answer that was drafted offline the target keeps, or another server's answer contains.

Such a server checks no drafts, so the two texts are compared word by word, as separated by white space. The order
counts. The marks around code blocks are ignored, because unrelated answers share them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from os.path import commonprefix
from typing import NamedTuple

from app.events import AnsweredAgain, Dropped, Judged, written_here
from app.sanitise import sanitise
from storage import Message

MOST_UNITS = 1500
"""Most words of a text that are compared one by one. Longer texts are compared by lines, up to this many: the time
grows with the product, and this many take up to half a second."""
WORDS = re.compile(r"(?<!\S)(?!```|~~~)\S+")
LINES = re.compile(r"^(?![ \t]*(?:```|~~~))[^\n]*\S[^\n]*", re.MULTILINE)
FENCE = re.compile(r"^[ \t]*(```|~~~).*\n?", re.MULTILINE)


def unverified(answer: Message) -> bool:
    """Whether the target can still verify or complete an answer."""
    return answer.role == "assistant" and (drafted(answer) or answer.status != "done")


def drafted(answer: Message) -> bool:
    """Whether a part of an answer was written on this device and is not checked."""
    return not all(answer.provenance) or written_here(answer.stats)


def nothing_to_verify(answer: Message) -> str:
    """Why there is nothing to verify in an answer, as one sentence."""
    if answer.tokens:
        return "All of that answer is checked already."
    if answer.stats.get("streamed") is not None:
        return "That answer came from a server, so none of it was drafted here."
    return "That answer was not drafted here, so there is nothing to check."


def verified_length(answer: Message) -> int:
    """How many tokens of an answer precede the first unverified one."""
    return sum(takewhile(bool, answer.provenance))


def judge(answer: Message, tokens: Sequence[int], text: str) -> Judged | None:
    """What the target's own `tokens`, and their `text`, keep of a drafted answer, if any part was drafted."""
    start = verified_length(answer)
    if start == len(answer.tokens):
        return None
    kept = sum(takewhile(bool, (a == b for a, b in zip(answer.tokens[start:], tokens[start:]))))
    return _judged(answer, kept, len(answer.tokens) - start, text)


def judge_texts(
    message_id: str, drafts: Sequence[tuple[int, str]], text: str, tokens_of: Callable[[str], int]
) -> Judged | None:
    """How much of what another model wrote is in the target's own `text`, compared by words and not by tokens.

    `drafts`: where that began, and the whole answer, each time that the target took over. `tokens_of`: the number of
    tokens that spell a text. None if the other model wrote nothing.
    """
    kept, of = 0, 0
    for begun, drafted in drafts:
        same = max(begun, len(commonprefix((drafted, text))))
        kept, of = kept + tokens_of(drafted[begun:same]), of + tokens_of(drafted[begun:])
    if not of:
        return None
    lost = texts_dropped([drafted for _, drafted in drafts], text)
    at = lost[0].at if lost else len(sanitise(text))
    return Judged(message_id, min(kept, of), of, "\n\n".join(one.text for one in lost), at)


def texts_dropped(drafts: Sequence[str], text: str) -> tuple[Dropped, ...]:
    """What `text` does not keep of each of these drafts of it, at its place."""
    lost: dict[int, str] = {}
    for draft in drafts:
        if said := dropped(draft, text):
            at = len(sanitise(text[: parting(draft, text)]))
            before = lost.get(at, "")
            longer, shorter = (said, before) if len(said) >= len(before) else (before, said)
            lost[at] = longer if longer.startswith(shorter) else f"{before}\n\n{said}"
    return tuple(Dropped(at, said) for at, said in sorted(lost.items()))


def judge_again(answer: Message, text: str, again: AnsweredAgain) -> Judged | None:
    """What the `text` of a server that checks no drafts keeps of a drafted answer, if that had words."""
    kept, of, dropped = compare(answer.text, text)
    return Judged(answer.id, kept, of, dropped, len(sanitise(text)), again) if of else None


def judgement_stats(judged: Judged) -> dict[str, int | bool | None]:
    """A judgement in the form stored with the newer answer, next to the model's name."""
    stats: dict[str, int | bool | None] = {"kept": judged.kept, "of": judged.of}
    if judged.again is not None:
        kept, dropped = judged.again.tokens or (None, None)
        stats |= {"predicted": judged.again.predicted, "prediction_kept": kept, "prediction_dropped": dropped}
    return stats


def own_judgement(answer: Message) -> Judged | None:
    """The judgement that was stored with an answer of which a part was written offline, and withdrawn."""
    own = "withdrawn" in answer.stats and answer.verifies is None
    return Judged(answer.id, *share, "") if own and (share := _stored_share(answer.stats)) is not None else None


def _stored_share(stats: Mapping[str, object]) -> tuple[int, int] | None:
    """How much was kept, and of how much, as stored. None for impossible numbers, which an import may bring."""
    kept, of = stats.get("kept"), stats.get("of")
    return (kept, of) if isinstance(kept, int) and isinstance(of, int) and 0 <= kept <= of and of else None


def stored_withdrawn(stats: Mapping[str, object]) -> tuple[Dropped, ...]:
    """What models on this device had written in an answer and the target did not keep, as stored with the answer."""
    found = []
    stored = stats.get("withdrawn")
    for one in stored if isinstance(stored, list) else ():
        at, said = one if isinstance(one, list) and len(one) == 2 else (None, None)
        if isinstance(at, int) and isinstance(said, str):
            found.append(Dropped(at, sanitise(said)))
    return tuple(found)


def stored_judgement(verified: Message, answer: Message) -> Judged | None:
    """The judgement that was stored with a verified answer, or None if it was cut off before."""
    stats = verified.stats
    if (share := _stored_share(stats)) is None:
        return None
    (kept, of), predicted = share, stats.get("predicted")
    if isinstance(predicted, bool):
        tokens = stats.get("prediction_kept"), stats.get("prediction_dropped")
        told = (tokens[0], tokens[1]) if isinstance(tokens[0], int) and isinstance(tokens[1], int) else None
        again = AnsweredAgain(sanitise(str(stats.get("model") or "the server")), predicted, told)
        dropped_words = compare(answer.text, verified.text).dropped
        return Judged(answer.id, kept, of, dropped_words, len(sanitise(verified.text)), again)
    return _judged(answer, kept, of, verified.text)


def _judged(answer: Message, kept: int, of: int, text: str) -> Judged:
    at = len(sanitise(text[: parting(answer.text, text)]))
    return Judged(answer.id, kept, of, dropped(answer.text, text), at)


def dropped(drafted: str, verified: str) -> str:
    """The end of a drafted text, from the first word where it differs from the verified one."""
    return sanitise(drafted[parting(drafted, verified) :])


def parting(drafted: str, verified: str) -> int:
    """Start of the word in which two texts differ, or the length of `drafted` if `verified` begins with it."""
    same = len(commonprefix((drafted, verified)))
    if same < len(drafted):
        while same and not drafted[same - 1].isspace():
            same -= 1
    return same


# ---- two texts, word by word -----------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """The words that one text shares with another."""

    kept: int
    """Number of words of the first text that are also in the second one, in the same order."""
    of: int
    """Words of the first text."""
    dropped: str
    """The other words of the first text, as paragraphs. Each begins with an ellipsis if words before it were kept."""


def compare(drafted: str, answer: str) -> Comparison:
    """Which words of `drafted` are in `answer`."""
    unit = WORDS
    if max(len(WORDS.findall(drafted)), len(WORDS.findall(answer))) > MOST_UNITS:
        unit = LINES
    old, new = list(unit.finditer(drafted))[:MOST_UNITS], unit.findall(answer)[:MOST_UNITS]
    blocks = SequenceMatcher(None, [one[0] for one in old], new, autojunk=False).get_matching_blocks()
    kept = sum(len(WORDS.findall(one[0])) for block in blocks for one in old[block.a : block.a + block.size])
    runs, at = [], 0
    for block in blocks:  # The last one is empty and at the end.
        if block.a > at:
            said = FENCE.sub("", drafted[old[at].start() : old[block.a - 1].end()]).strip("\n")
            runs += [f"… {said}" if at else said] if said.strip() else []
        at = block.a + block.size
    return Comparison(kept, len(WORDS.findall(drafted)), sanitise("\n\n".join(runs)))
