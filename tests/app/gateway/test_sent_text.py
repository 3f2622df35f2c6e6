"""What a client has been sent: it only grows, it ends before a stop string, and each character has the right mark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.gateway.sent_text import Piece, SentText, Span

WORDS = st.text("ab ", max_size=12)
STEPS = st.lists(st.tuples(st.sampled_from(["model", "drafter", "away"]), WORDS, st.integers(1, 6)), max_size=12)


@given(WORDS.filter(bool), STEPS, st.lists(st.text("ab ", min_size=1, max_size=3), max_size=2))
def test_any_course_of_an_answer(own: str, steps: list[tuple[str, str, int]], stops: list[str]) -> None:
    """`own`: the model's answer. Each step is some of it, words of the drafter that are sent, or words that are not."""
    sent, verified, draft = SentText(stops), 0, ""
    pieces: list[Piece] = []
    for step, words, count in [*steps, ("end", "", 0)]:
        if step == "model":
            said = own[verified : verified + count]
            verified += len(said)
            draft = draft[len(said) :] if draft.startswith(said) else ""
        elif step != "end":
            draft += words
        solid, alone = own[:verified], draft if step in ("drafter", "end") else ""
        pieces += sent.take(solid, alone, complete=step == "end")
        assert sent.text == "".join(piece.text for piece in pieces), "it only grows"
        assert [piece.span for piece in pieces] == spans(pieces)
        assert not any(stop in sent.text for stop in stops)
        for piece in pieces:
            if piece.span.source == "verified":
                assert own.startswith(piece.text, piece.span.start), "verified is the model's own"
        assert sent.text[: sent.checked] == own[: sent.checked]
        if sent.stopped or sent.parted:
            break
    agrees = sent.cut(own[:verified] + draft)
    assert sent.parted == (sent.text != agrees) or sent.stopped
    told = sent.spans
    assert [span.start for span in told] == [0, *(span.end for span in told)][: len(told)]
    assert (told[-1].end if told else 0) == len(sent.text)
    assert all(span.end <= sent.checked or span.source == "drafted" for span in told)


def spans(pieces: list[Piece]) -> list[Span]:
    """The spans that such pieces must have."""
    found, at = [], 0
    for piece in pieces:
        found.append(Span(at, at + len(piece.text), piece.span.source))
        at += len(piece.text)
    return found
