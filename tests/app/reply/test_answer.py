"""An answer's events add up to its text, whatever happens to its tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import Settings
from app.drafting.drafting import Drafting
from app.drafting.readings import Conversation
from app.events import Done, Drafted, Event, Failed, ReplyText, Retracted, Started, Stats, Stretch, Verified
from app.remotes.peer import VerifierSession
from app.reply.answer import Answer, Shown
from app.reply.dimmed_text import DimmedText
from app.reply.generation import Generation, GenerationInput
from drafter.runtime import Drafter
from models.text.chat_text import ChatText
from remote.protocol import Sampling
from storage import Message, Store
from tests.support.tiny_text import END, tiny_text

TEXT = tiny_text()
# Bytes that make characters together, bytes that never do, and an escape sequence's beginning, each its own token.
PIECES = [
    token
    for piece in ("a", "ls ", "ü", "☃", "🐢", "\x1b[31m", "\x1b]0;t\x07", "\u202e")
    for token in TEXT.encode(piece)
]
tokens = st.lists(st.sampled_from(PIECES), max_size=5)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("guess"), tokens),
        st.tuples(st.just("draft"), tokens),
        st.tuples(st.just("verify"), tokens),
        st.tuples(st.just("agree"), st.integers(0, 4)),
        st.tuples(st.just("local"), st.text("aü☃🐢 \n", max_size=5)),
    ),
    max_size=12,
)


def replay(events: Sequence[Shown | Stretch], onto: ReplyText) -> None:
    for event in events:
        solid = onto.solid
        onto.apply(event)
        assert onto.solid.startswith(solid)


@given(steps)
def test_the_screen_shows_what_is_stored(script: list[tuple[str, list[int] | int | str]]) -> None:
    answer, screen = Answer(TEXT), ReplyText()
    for kind, value in script:
        if isinstance(value, str):  # A model with another tokenizer continues it.
            begun = answer.join("small one")
            for letter in value:
                replay(answer.draft_text(letter), screen)
            assert answer.decoded(len(answer.tokens)) == begun + value and not answer.is_text
        elif isinstance(value, int):  # The target confirms some of the drafted tokens.
            replay(answer.verify(answer.suffix[:value], 0), screen)
        elif kind == "guess":
            replay(answer.guess(value), screen)
        elif kind == "draft":
            for token in value:
                replay(answer.draft(token), screen)
        else:
            replay(answer.verify(value, len(value)), screen)
        assert answer.provenance == [True] * answer.verified + [False] * len(answer.suffix)
    replay(answer.finish(), screen)
    assert screen.solid + screen.ghost == answer.text
    assert "\x1b" not in answer.text and "\u202e" not in answer.text
    if not answer.suffix:
        assert screen.ghost == ""


@pytest.mark.parametrize("local", [True, False])
def test_unchecked_tokens_that_become_text_stay_marked(text: ChatText, local: bool) -> None:
    answer = Answer(text, text.encode("ls "), len(text.encode("ls ")))
    answer.model = "target"
    if local:
        answer.join("small one")
        answer.draft_text("-l")
    else:
        for token in text.encode("-l"):
            answer.draft(token)
    answer.begin_text("ls -l")
    marked = [Stretch(0, "target"), Stretch(3, "small one" if local else "small model", here=True)]
    new = answer.written_by("other one", here=True)
    assert new == answer.stretches == [*marked, Stretch(5, "other one", here=True)]
    assert answer.written_by("other one", here=True) == []


def test_a_check_that_ends_early_leaves_marked_what_it_has_not_reached() -> None:
    said, theirs = "ls -a", [Stretch(0, "talker"), Stretch(3, "small one", here=True)]
    answer = Answer(TEXT, TEXT.encode(said), sent=said)
    answer.model = "target"
    answer.recall(theirs)
    assert answer.stretches == theirs
    while answer.suffix:
        checked = len(TEXT.decode(answer.tokens[: answer.verified]))
        rest = [Stretch(max(checked, one.at), one.writer, one.here) for one in (theirs if checked < 3 else theirs[1:])]
        assert answer.stretches == ([Stretch(0, "target"), *rest] if checked else rest)
        answer.verify(answer.suffix[:1], 1)
    assert answer.stretches == []


# ---- which characters of dimmed text count as withdrawn --------------------------------------------------------------


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
        ([Drafted("alone", 5), done(False, False)], (5, 0, 0)),  # Nobody decides.
    ],
)
def test_what_is_replaced_by_the_same_was_never_withdrawn(events: list[Event], counted: tuple[int, int, int]) -> None:
    dimmed = DimmedText()
    for event in events:
        dimmed.apply(event)
    assert (dimmed.shown, dimmed.confirmed, dimmed.withdrawn) == counted
    assert (dimmed.share is None) == (counted[1:] == (0, 0))


# ---- it ends with the first token that ends answers, and is never longer than allowed --------------------------------


@pytest.fixture
def generation(tiny_pair: Path, tmp_path: Path) -> Iterator[Generation]:
    """A generation of at most 6 tokens."""
    drafter = Drafter.load(tiny_pair / "drafter")
    asked = Message("m", "c", None, "user", "list files", "done", (), (), {}, "2026-01-01")
    conversation = Conversation(drafter.text, [asked], None, None, 8192)
    options = {"settings": Settings(), "sampling": Sampling(), "most": 6, "draft": True}
    given = GenerationInput(conversation, messages=[("user", "list files")], text=drafter.text, **options)
    with Store.open(tmp_path / "outrider.db") as store, ThreadPoolExecutor(1) as thread:
        drafting = Drafting(drafter, store, store.conversations.create().id, thread)
        parts = {"drafting": drafting, "session": VerifierSession(), "connection": None}
        yield Generation(given, begun=Answer(drafter.text), stopping=asyncio.Event(), **parts)


@pytest.fixture
def words(generation: Generation) -> list[int]:
    return generation.given.text.encode("list files and folders by name and size and more")[:12]


def test_what_comes_after_the_end_is_not_part_of_the_answer(generation: Generation, words: list[int]) -> None:
    generation.verify([*words[:2], END, *words[2:4]], from_draft=4)
    assert generation.answer.tokens == [*words[:2], END] and generation.answer.verified == 3
    assert generation.reason == "end"


@pytest.mark.parametrize("here", [False, True])
def test_it_is_never_longer_than_allowed(generation: Generation, words: list[int], here: bool) -> None:
    """`here`: a model on this device writes it."""
    if here:
        generation.answer.join("small one")
    for part, reason in ((words[:5], None), (words[5:8], "length")):
        if here:
            generation.draft_text(generation.given.text.decode(part))
        else:
            generation.verify(part, from_draft=3)
        assert generation.reason == reason
    assert generation.answer.tokens == words[:6]
