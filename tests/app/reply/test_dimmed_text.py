"""Which characters of dimmed text count as withdrawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.events import Done, Drafted, Event, Failed, ReplyText, Retracted, Started, Stats, Verified
from app.reply.dimmed_text import DimmedText
from app.tui.metrics import SessionMetrics
from app.tui.widgets.panel import lines


def count(*events: Event) -> tuple[int, int, int]:
    dimmed = DimmedText()
    for event in events:
        dimmed.apply(event)
    return dimmed.shown, dimmed.confirmed, dimmed.withdrawn


def done(*provenance: bool) -> Done:
    return Done(False, "end", tuple(range(len(provenance))), provenance, Stats())


def test_what_a_verdict_confirms_and_what_it_replaces() -> None:
    assert count(Drafted("ls -la", 3), Verified("ls ", 1, 1)) == (6, 3, 0)
    assert count(Drafted("ls -la", 3), Verified("ls ", 1, 1), Verified("-la ~", 3, 2)) == (6, 6, 0)
    assert count(Drafted("ls -la", 3), Retracted(3), Verified("ls -R", 3, 2)) == (6, 4, 2)
    assert count(Drafted("ls", 1), Retracted(1), Verified("cat", 1, 0)) == (2, 0, 2)
    assert count(Verified("ls", 1, 0)) == (0, 0, 0)


def test_words_that_are_replaced_by_the_same_words_never_left() -> None:
    assert count(Drafted("one two", 2), Retracted(2), Drafted("one ten", 2), Verified("one ten", 2, 2)) == (9, 7, 2)
    assert count(Drafted("one two", 2), Retracted(2), Verified("one ", 1, 1), Drafted("two", 1)) == (7, 4, 0)
    assert count(Drafted("one two", 2), Retracted(2), Verified("one ", 1, 1), done(True)) == (7, 4, 3)


def test_what_nobody_decides_is_neither() -> None:
    dimmed = DimmedText()
    for event in (Drafted("alone", 5), done(False, False)):
        dimmed.apply(event)
    assert (dimmed.shown, dimmed.share) == (5, None)
    assert count(Drafted("guess", 5), done(True)) == (5, 0, 5), "a verified answer keeps no guess"
    assert count(Drafted("guess", 5), Failed("", "internal"), Started("c", "m"), Verified("guess", 5, 5)) == (5, 0, 0)


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


def test_the_panel_shows_the_share_of_an_answer_and_of_the_session() -> None:
    figures = SessionMetrics()
    right: list[Event] = [Drafted("123456789", 3), Verified("123456789", 3, 3), done(True)]
    wrong: list[Event] = [Drafted("a", 1), Retracted(1), Verified("b", 1, 0), done(True)]
    for event in (Started("c", "one"), *right, Started("c", "two"), *wrong):
        figures.apply(event)
    assert (figures.answer.dimmed.share, figures.session.dimmed.share) == (1.0, 0.1)
    shown = "\n".join(str(line) for line in lines(figures, None))
    assert "dimmed, taken back 100.0% 10.0%" in " ".join(shown.split())
