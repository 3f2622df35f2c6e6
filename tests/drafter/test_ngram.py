"""Matches compared with a plain search, and what is guessed from them, and when; both can take everything back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.ngram import BREAK, LONGEST, OCCURRENCES, SHORTEST, NGramIndex, load_datastore, save_datastore
from drafter.second_stage import MOST, SecondStage
from drafter.training.batches import AnsweredConversation
from drafter.training.pipeline import datastore_texts
from models.config import DrafterCorrupt

few_tokens = st.integers(0, 2)
texts = st.lists(few_tokens, max_size=OCCURRENCES)
stored = st.lists(st.one_of(few_tokens, st.just(BREAK)), max_size=OCCURRENCES)


def index_of(tokens) -> NGramIndex:
    index = NGramIndex()
    index.extend(tokens)
    return index


def shared(text, tokens, end) -> int:
    """How many tokens two texts share, from their ends back."""
    count = 0
    while count < min(len(text), end) and text[-1 - count] == tokens[end - 1 - count]:
        count += 1
    return min(count, LONGEST)


def plain(tokens, text):
    """The plain search: (length, position) of each match, newest first."""
    ends = [end for end in range(len(tokens), 0, -1) if shared(text, tokens, end) >= SHORTEST][:OCCURRENCES]
    return [(shared(text, tokens, end), end) for end in ends if end < len(tokens) and tokens[end] != BREAK]


def found(index, text):
    return [(match.length, match.position) for match in index.matches(text)]


@given(stored, texts)
def test_the_newest_matches_are_found(tokens, text):
    index = index_of(tokens)
    assert found(index, text) == plain(tokens, text)
    assert vars(NGramIndex.of(np.array(tokens, np.int32))) == vars(index), "made at once or grown"
    itself = index_of(text)
    assert found(itself, itself.tokens) == plain(text, text), "a text matches itself before its end"


@given(stored, st.lists(st.tuples(st.integers(0, 40), stored), max_size=4))
def test_going_back_leaves_no_trace(tokens, changes):
    index = index_of(tokens)
    for length, more in changes:
        index.rewind(length)
        index.extend(more)
        tokens = tokens[:length] + more
    fresh = index_of(tokens)
    assert vars(index) == vars(fresh)


def test_a_repetition_goes_on_and_a_frequent_ngram_costs_no_more_than_its_newest_occurrences():
    index = index_of([9, 1, 2, 3, 1, 2, 3, 1, 2])
    newest, older = index.matches(index.tokens)
    assert (newest.length, newest.position, older.length, older.position) == (5, 6, 2, 3)
    for match in (newest, older):
        assert [match.following(at) for at in range(7)] == [3, 1, 2, 3, 1, 2, 3]
    index = index_of([8, 4, 4, 9, BREAK, *[0, 4, 4, 7] * OCCURRENCES, BREAK])
    matches = index.matches([8, 4, 4])
    assert len(matches) == OCCURRENCES and {match.length for match in matches} == {2}


def test_what_is_saved_is_found(tmp_path: Path) -> None:
    path = tmp_path / "datastore.npz"
    for texts, stored in (([], []), ([[3, 4], [], [6]], [3, 4, BREAK, BREAK, 6, BREAK])):
        save_datastore(path, texts)
        assert load_datastore(path, 7).tokens.tolist() == stored


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (np.array([1, 9], np.int32), "no tokens of this drafter"),
        (np.array([-2, 1], np.int32), "no tokens of this drafter"),
        (np.array([1.5, 2]), "no tokens of this drafter"),
        (np.array([[1, 2]], np.int32), "no tokens of this drafter"),
        (np.array([None, 1]), "cannot be read"),
        (b"no archive", "cannot be read"),
    ],
)
def test_other_numbers_and_files_are_refused(tmp_path: Path, tokens: np.ndarray | bytes, why: str) -> None:
    path = tmp_path / "datastore.npz"
    path.write_bytes(tokens) if isinstance(tokens, bytes) else np.savez_compressed(path, tokens=tokens)
    with pytest.raises(DrafterCorrupt, match=why):
        load_datastore(path, 9)


def test_answers_open_as_the_template_says_and_are_thinned_out_evenly() -> None:
    data = [
        AnsweredConversation([1, ask, 7, 8, 20 + ask, 2, 3, 7, 8, 40 + ask], [(4, 6), (9, 10)]) for ask in range(10, 16)
    ]
    texts = datastore_texts(data, [7, 8], 1000)
    assert texts[:3] == [[7, 8, 30, 2], [7, 8, 50], [7, 8, 31, 2]] and len(texts) == 12
    few = datastore_texts(data, [7, 8], 27)
    assert few == texts[::2] and sum(len(text) + 1 for text in few) <= 30
    assert datastore_texts([], [7, 8], 27) == []


# ---- the second stage ------------------------------------------------------------------------------------------------


PERIOD = [5, 6, 7, 8, 9]


def stage(*texts, **options) -> SecondStage:
    second = SecondStage(**options)
    for text in texts:
        second.commit(text)
    return second


def follow(second, count) -> list[int]:
    """The lengths of the guesses if the repeated text goes on for `count` steps, with a drafter that agrees."""
    lengths, at = [], 0
    for _ in range(count):
        guess = second.guess()
        lengths.append(len(guess))
        tokens = [PERIOD[(at + step) % 5] for step in range(len(guess) + 1)]
        assert guess == tokens[:-1]
        second.commit(tokens)
        at += len(tokens)
    return lengths


def test_what_was_said_before_is_guessed_until_it_is_not_worth_it_and_what_is_new_is_not():
    second = stage(range(20), [5, 6, 7, 8])
    guess = second.guess()
    assert 0 < len(guess) < MOST and guess == list(range(9, 9 + len(guess)))
    assert 1 < second.expected < 1 + len(guess)
    second.keep(0)
    assert second.expected == 1
    assert second.guess(2) == [9, 10] and second.guess(0) == []
    for said in ([], [range(30)], [[1, 2, 3, 4], [2]]):  # One token in common is chance.
        assert stage(*said).guess() == []


def test_guesses_that_come_true_grow_longer_and_following_a_text_is_committing_what_is_new():
    second = stage(PERIOD, PERIOD)
    lengths = follow(second, 40)
    assert lengths[-1] > lengths[0]
    assert second.accepted == sum(lengths)
    second, other = stage(range(20)), stage(range(20), [5, 6, 7, 8])
    second.follow([*range(20), 5, 6, 7, 8])
    assert second.guess() == other.guess() != []
    second.follow([*range(10), 3, 4])
    assert second.guess() == stage(range(10), [3, 4]).guess() != []
    second.follow([1, 2])
    assert second.guess() == []
