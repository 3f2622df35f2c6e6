"""An answer's events add up to its text, whatever happens to its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from app.events import Drafted, ReplyText, Stretch, Verified
from app.reply.answer import Answer, Shown
from models.text.chat_text import ChatText
from tests.support.tiny_text import CHAT_TEMPLATE, END, tiny_text, train_tokenizer

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


def test_a_correct_guess_turns_solid_without_a_flicker(text: ChatText) -> None:
    answer = Answer(text)
    command = text.encode("ls -l")
    assert answer.guess(command) == [Drafted("ls -l", len(command))]
    bonus = text.encode("a")
    assert answer.verify(command + bonus, len(command)) == [Verified("ls -la", len(command) + 1, len(command))]


@pytest.mark.parametrize("said", ["unpack it", "unpack ☃"])
def test_text_stays_a_draft_if_the_target_spells_it_in_other_tokens(text: ChatText, said: str) -> None:
    answer, letters = Answer(text), [token for letter in said for token in text.encode(letter)]
    answer.join("small one")
    answer.draft_text(said)
    assert answer.suffix == text.encode(said) != letters
    for at, letter in enumerate(letters, 1):
        answer.verify([letter], 0)
        if text.decode(letters[:at]).endswith("\ufffd"):
            return  # Half a letter has no text to compare.
        assert answer.text == said and answer.tokens[:at] == letters[:at] and not answer.withdrawn
    assert not answer.suffix and answer.stretches == []


def test_text_of_another_model_that_the_target_does_not_keep_is_remembered(text: ChatText) -> None:
    answer = Answer(text, text.encode("ls "), 3)
    answer.verified = len(answer.tokens)
    answer.join("small one")
    answer.draft_text("-l | wc")
    assert answer.stretches == [Stretch(0, ""), Stretch(3, "small one", here=True)]
    answer.verify(text.encode("-a"), 0)
    assert answer.text == "ls -a" and answer.withdrawn == [(3, "ls -l | wc")] and answer.stretches == []


def test_nothing_of_another_model_stays_after_the_end(text: ChatText) -> None:
    answer, (stop, *_) = Answer(text), text.stop_tokens
    answer.join("small one")
    answer.draft_text("ls -l | wc")
    last = [*text.encode("ls -l"), stop]
    answer.verify(last, 0, ends=True)
    assert answer.tokens == last and answer.text == "ls -l" and all(answer.provenance)
    assert answer.withdrawn == [(0, "ls -l | wc")] and answer.stretches == []


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


def test_what_was_checked_stays_checked_if_the_target_cannot_spell_what_follows() -> None:
    tokenizer = train_tokenizer()
    tokenizer.normalizer = normalizers.Lowercase()
    lower = ChatText(tokenizer.to_str().encode(), CHAT_TEMPLATE, [END])
    answer = Answer(lower, lower.encode("ls "), len(lower.encode("ls ")))
    answer.model = "target"
    answer.join("small one")
    answer.draft_text("-la | wc")
    checked = len("ls -la")
    while len(lower.decode(answer.tokens[: answer.verified])) < checked:
        answer.verify(answer.suffix[:1], 1)
    answer.join("small one")
    answer.draft_text(" -L")
    assert answer.is_text and answer.text == "ls -la | wc -L"
    assert answer.stretches == [Stretch(0, "target"), Stretch(checked, "small one", here=True)]


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
