"""What a judgement says of the text that was kept, and of the text that was not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import AnsweredAgain, Judged
from app.reply.judgement import MOST_UNITS, compare, judge, stored_judgement, texts_dropped
from app.sanitise import sanitise
from storage import Message, Store


def checked(store: Store, draft: str, own: str) -> tuple[Message, Message]:
    """A drafted answer and the one that took its place, as they are stored."""
    conversation = store.conversations.create("t").id
    asked = store.messages.add(conversation, "user", "q", parent_id=None, status="done")
    drafted = store.messages.add(conversation, "assistant", "", parent_id=asked.id, status="pending")
    store.messages.finish(drafted.id, range(4), [False] * 4, draft, "done", {})
    answer = store.messages.verify(drafted.id)
    assert answer is not None
    store.messages.finish(answer.id, range(4), [True] * 4, own, "done", {"kept": 1, "of": 4}, settles=drafted.id)
    return store.messages.get(drafted.id), store.messages.get(answer.id)


@pytest.mark.parametrize(
    ("draft", "own", "dropped", "before"),
    [
        ("It knows these forms", "It knows many forms", "these forms", "It knows "),
        ("ls -la", "ls -l", "-la", "ls "),
        ("ls", "ls -l", "", "ls"),
        ("ls\x07 -la", "ls\x07 -lh", "-la", "ls "),
        ("use tar xf file", "use tar xvf file", "xf file", "use tar "),
        ("a b\x1b[2J", "a c", "b", "a "),
    ],
)
def test_the_place_of_what_was_dropped(tmp_path: Path, draft: str, own: str, dropped: str, before: str) -> None:
    with Store.open(tmp_path / "outrider.db") as store:
        drafted, answer = checked(store, draft, own)
    stored = stored_judgement(answer, drafted)
    assert stored is not None and (stored.dropped, sanitise(own)[: stored.at]) == (dropped, before)
    assert judge(drafted, (0, 9), own) == Judged(drafted.id, 1, 4, stored.dropped, stored.at)


TEXTS = st.lists(st.sampled_from(["tar", "-x", "the", "file", "a", "```sh", "\n", "\x1b[2J"]), max_size=30).map(
    " ".join
)


def count(text: str) -> int:
    """Words, without the marks of code blocks."""
    return sum(not word.startswith("```") for word in text.split())


PREDICTED = "answered again by m, with the offline answer as a suggestion"


@pytest.mark.parametrize(
    ("drafted", "answer", "kept", "dropped"),
    [
        ("use tar -xf file", "use tar -xf file", 4, ""),
        ("use tar -xf file", "Hello! You can  use\ntar -xf file now", 4, ""),
        ("use tar xf file now", "use tar -xf file", 3, "… xf\n\n… now"),
        ("unzip it", "tar", 0, "unzip it"),
        ("Run:\n\n```sh\nls -l\n```\n", "Run:\n\n```sh\nls -a\n```\n", 2, "… -l"),
        ("Try\n\n```sh\nls\n```\n", "Run:\n\n```sh\ndu\n```\n", 0, "Try\n\nls"),
        ("Run:\n\n```sh\nls -l\n```\n", "Run: du", 1, "… ls -l"),
        ("a \x1b[2Jb c", "a c", 2, "… b"),
        ("", "tar", 0, ""),
    ],
)
def test_words_are_compared_in_their_order(drafted: str, answer: str, kept: int, dropped: str) -> None:
    found = compare(drafted, answer)
    assert (found.kept, found.of, found.dropped) == (kept, count(drafted), dropped)


@given(TEXTS, TEXTS)
def test_it_keeps_all_of_itself_and_never_more_than_there_is(one: str, other: str) -> None:
    assert compare(one, one).kept == compare(one, one).of == count(one)
    found = compare(one, other)
    assert 0 <= found.kept <= min(count(one), count(other))
    assert "\x1b" not in found.dropped


def test_long_texts_are_compared_by_lines() -> None:
    lines = [f"{number} is a line of seven words here" for number in range(1000)]
    other = lines[:400] + ["something else"] * 200 + lines[600:]
    found = compare("\n".join(lines), "\n".join(other))
    assert (found.kept, found.of) == (800 * 8, 8000) and found.dropped.startswith("… 400 is")


def test_a_hostile_answer_costs_little_time() -> None:
    began = time.process_time()
    compare("a b " * MOST_UNITS, "b a\n" * 200_000)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("again", "kept", "said"),
    [
        (AnsweredAgain("m", False), 83, "answered again by m; 83 % of the words are the same"),
        (AnsweredAgain("m", False), 99.9, "answered again by m; 99 % of the words are the same"),
        (AnsweredAgain("m", False), 100, "answered again by m; all words are the same"),
        (AnsweredAgain("m", False), 0, "answered again by m; no word is the same"),
        (AnsweredAgain("m", True), 0.1, f"{PREDICTED}; 1 % of the words are the same"),
        (
            AnsweredAgain("m", True, (12, 2)),
            83,
            "m got the offline answer as a suggestion and kept 12 of 14 tokens; 83 % of the words are the same",
        ),
    ],
)
def test_the_sentence_says_which_way_was_used(again: AnsweredAgain, kept: float, said: str) -> None:
    assert str(Judged("id", round(10 * kept), 1000, "", again=again)) == said


@pytest.mark.parametrize("drafts", [["one two", "one two three"], ["one two three", "one two"]])
def test_the_longer_of_two_drafts_with_one_beginning_is_shown_once(drafts: list[str]) -> None:
    (lost,) = texts_dropped(drafts, "one four")
    assert lost.text == "two three"
