"""Tokens of another drafter's vocabulary are never taken for what was said."""

from __future__ import annotations

import pytest

from app.drafting.context import conversation_length
from app.drafting.spelling import is_spelt, spelt
from app.drafting.transcript import conversation_tokens
from drafter.text import ChatText
from storage import Message
from tests.support.tiny_text import CHAT_TEMPLATE, CORPUS, END, train_tokenizer

SAID = "list all files"


def answer(said: str, tokens: tuple[int, ...], verified: int = 0) -> Message:
    provenance = tuple(at < verified for at in range(len(tokens)))
    return Message("m", "c", None, "assistant", said, "done", tokens, provenance, {}, "2026-01-01")


@pytest.fixture(scope="module")
def other() -> ChatText:
    """Another drafter's: the same special tokens, and others merged."""
    return ChatText(train_tokenizer([word[::-1] for word in CORPUS]).to_str().encode(), CHAT_TEMPLATE, [END])


def test_its_own_tokens_stay_however_they_were_cut(text: ChatText) -> None:
    by_letter = tuple(token for letter in SAID for token in text.encode(letter))
    for tokens in (tuple(text.encode(SAID)), by_letter, (*by_letter, END)):
        said = answer(SAID, tokens, verified=2)
        assert is_spelt(text, said) and spelt(text, said) is said
    coloured = answer("red", (*text.encode("\x1b[31mred"), END))
    assert spelt(text, coloured) is coloured, "what was shown is without what a terminal obeys"


def test_others_are_encoded_and_nothing_of_them_is_verified(text: ChatText, other: ChatText) -> None:
    foreign = tuple(other.encode(SAID))
    assert foreign != tuple(text.encode(SAID))
    vocabulary = 320
    for tokens in (
        (*foreign, END),
        (*text.encode(SAID), vocabulary),
        (*text.encode(SAID), -1),
        (*text.encode(SAID), 2),  # What ended an answer there opens a turn here.
        tuple(text.encode("delete all files")),
        (),
    ):
        said = answer(SAID, tokens, verified=len(tokens))
        again = spelt(text, said)
        assert not is_spelt(text, said)
        assert (again.tokens, again.provenance) == (tuple(text.encode(SAID)), (False,) * len(text.encode(SAID)))
        assert (again.text, again.id) == (said.text, said.id)


def test_a_prompt_is_of_one_vocabulary(text: ChatText, other: ChatText) -> None:
    first, second = (
        Message(f"q{at}", "c", None, "user", said, "done", (), (), {}, "2026-01-01") for at, said in enumerate("ab")
    )
    foreign = answer(SAID, (*other.encode(SAID), END), verified=3)
    thread = [first, foreign, second]
    rendered = text.render([("user", "a"), ("assistant", SAID), ("user", "b")])
    assert conversation_tokens(text, thread) == rendered
    assert conversation_length(text, thread) == pytest.approx(len(rendered), abs=3)
