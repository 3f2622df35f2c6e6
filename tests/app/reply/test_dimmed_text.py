"""Which characters of dimmed text count as withdrawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import Done, Drafted, Event, Failed, ReplyText, Retracted, Started, Stats, Verified
from app.reply.dimmed_text import DimmedText


def done(*provenance: bool) -> Done:
    return Done(False, "end", tuple(range(len(provenance))), provenance, Stats())


@pytest.mark.parametrize(
    ("events", "counted"),
    [
        ([Drafted("ls -la", 3), Verified("ls ", 1, 1), Verified("-la ~", 3, 2)], (6, 6, 0)),
        ([Drafted("ls -la", 3), Retracted(3), Verified("ls -R", 3, 2)], (6, 4, 2)),
        ([Drafted("one two", 2), Retracted(2), Drafted("one ten", 2), Verified("one ten", 2, 2)], (9, 7, 2)),
        ([Drafted("one two", 2), Retracted(2), Verified("one ", 1, 1), Drafted("two", 1)], (7, 4, 0)),
        ([Drafted("one two", 2), Retracted(2), Verified("one ", 1, 1), done(True)], (7, 4, 3)),
        ([Drafted("guess", 5), done(True)], (5, 0, 5)),  # A verified answer keeps no guess.
        ([Drafted("guess", 5), Failed("", "internal"), Started("c", "m"), Verified("guess", 5, 5)], (5, 0, 0)),
    ],
)
def test_words_that_are_replaced_by_the_same_words_were_never_withdrawn(
    events: list[Event], counted: tuple[int, int, int]
) -> None:
    dimmed = DimmedText()
    for event in events:
        dimmed.apply(event)
    assert (dimmed.shown, dimmed.confirmed, dimmed.withdrawn) == counted


def test_what_nobody_decides_is_neither() -> None:
    dimmed = DimmedText()
    for event in (Drafted("alone", 5), done(False, False)):
        dimmed.apply(event)
    assert (dimmed.shown, dimmed.share) == (5, None)


pieces = st.text("ab ", max_size=4)
events = st.lists(
    st.one_of(
        st.builds(Drafted, pieces, st.just(1)),
        st.builds(Verified, pieces, st.just(1), st.just(0)),
        st.just(Retracted(1)),
    ),
    max_size=12,
)


@given(events)
def test_the_characters_add_up(happened: list[Event]) -> None:
    dimmed, reply = DimmedText(), ReplyText()
    for event in happened:
        dimmed.apply(event)
        reply.apply(event)
    assert dimmed.shown >= dimmed.confirmed + dimmed.withdrawn >= 0
    dimmed.apply(done(True))
    assert dimmed.shown == dimmed.confirmed + dimmed.withdrawn
    assert dimmed.confirmed <= len(reply.solid)
