"""One answer while it is written: it ends with the first token that ends answers, and is never longer than allowed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.config import Settings
from app.drafting.drafting import Drafting
from app.reply.answer import Answer
from app.reply.generation import Line, Writing
from drafter.runtime import Drafter
from remote.protocol import Sampling
from storage import Store
from tests.support.tiny_text import END


@pytest.fixture
def writing(tiny_pair: Path, tmp_path: Path) -> Iterator[Writing]:
    """Of at most 6 tokens."""
    drafter = Drafter.load(tiny_pair / "drafter")
    with Store.open(tmp_path / "outrider.db") as store, ThreadPoolExecutor(1) as thread:
        yield Writing(
            drafter.text.render([("user", "list files")]),
            messages=[("user", "list files")],
            text=drafter.text,
            settings=Settings(),
            most=6,
            sampling=Sampling(),
            drafting=Drafting(drafter, store, store.conversations.create().id, thread),
            line=Line(),
            draft=True,
            begun=Answer(drafter.text),
        )


@pytest.fixture
def words(writing: Writing) -> list[int]:
    """Twelve tokens of text."""
    return writing.text.encode("list files and folders by name and size and more")[:12]


def test_what_comes_after_the_end_is_not_part_of_the_answer(writing: Writing, words: list[int]) -> None:
    """Also where a verifier sends it: it may be one that knows other tokens that end an answer."""
    writing.verify([*words[:2], END, *words[2:4]], from_draft=4)
    assert writing.answer.tokens == [*words[:2], END] and writing.answer.verified == 3
    assert writing.reason == "end"


def test_it_is_never_longer_than_allowed(writing: Writing, words: list[int]) -> None:
    writing.verify(words[:4], from_draft=3)
    assert writing.reason is None
    writing.verify(words[4:8], from_draft=3)
    assert writing.answer.tokens == words[:6] and writing.reason == "length"


def test_a_guess_is_shown_up_to_the_end(writing: Writing, words: list[int]) -> None:
    assert writing.cut([words[0], END, words[1]]) == [words[0], END]
    assert writing.cut(words) == words[:6]
    assert writing.answer.tokens == [] and writing.reason is None
