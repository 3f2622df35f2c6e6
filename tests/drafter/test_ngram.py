"""Matches compared with a plain search, what follows them, and an index that can take everything back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.ngram import BREAK, LONGEST, OCCURRENCES, SHORTEST, Match, NGramIndex

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
    assert found(index_of(tokens), text) == plain(tokens, text)


@given(stored)
def test_an_index_made_at_once_is_the_one_that_grew(tokens):
    assert vars(NGramIndex.of(np.array(tokens, np.int32))) == vars(index_of(tokens))


@given(texts)
def test_a_text_matches_itself_before_its_end(tokens):
    index = index_of(tokens)
    assert found(index, index.tokens) == plain(tokens, tokens)


@given(stored, st.lists(st.tuples(st.integers(0, 40), stored), max_size=4))
def test_going_back_leaves_no_trace(tokens, changes):
    index = index_of(tokens)
    for length, more in changes:
        index.rewind(length)
        index.extend(more)
        tokens = tokens[:length] + more
    fresh = index_of(tokens)
    assert vars(index) == vars(fresh)


@given(stored, st.integers(0, 40), st.integers(0, 20))
def test_what_follows_is_what_stood_there(tokens, position, at):
    position = min(position, len(tokens))
    following = Match(2, position, index_of([*tokens, BREAK])).following(at)
    assert following == (tokens[position:] + [BREAK] * 30)[at]


def test_a_repetition_goes_on_repeating():
    index = index_of([9, 1, 2, 3, 1, 2, 3, 1, 2])
    newest, older = index.matches(index.tokens)
    assert (newest.length, newest.position, older.length, older.position) == (5, 6, 2, 3)
    for match in (newest, older):
        assert [match.following(at) for at in range(7)] == [3, 1, 2, 3, 1, 2, 3]


def test_a_frequent_ngram_costs_no_more_than_its_newest_occurrences():
    index = index_of([8, 4, 4, 9, BREAK, *[0, 4, 4, 7] * OCCURRENCES, BREAK])
    matches = index.matches([8, 4, 4])
    assert len(matches) == OCCURRENCES and {match.length for match in matches} == {2}
