"""Matches and continuations against a search in plain words, and an index that can take everything back."""

from __future__ import annotations

from collections import Counter

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


def plain(tokens, text) -> Match | None:
    """The same search in plain words."""
    ends = [end for end in range(len(tokens)) if tokens[end] != BREAK and shared(text, tokens, end) >= SHORTEST]
    if not ends:
        return None
    length = max(shared(text, tokens, end) for end in ends)
    ends = [end for end in ends if shared(text, tokens, end) == length][::-1]
    counts = Counter(tokens[end] for end in ends)
    most = max(counts.values())
    return Match(length, next(end for end in ends if counts[tokens[end]] == most), most / len(ends))


@given(stored, texts)
def test_the_longest_match_is_found(tokens, text):
    assert index_of(tokens).match(text) == plain(tokens, text)


@given(texts)
def test_a_text_matches_itself_before_its_end(tokens):
    index = index_of(tokens)
    assert index.match(index.tokens) == plain(tokens, tokens)


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
def test_a_continuation_is_what_stood_there(tokens, position, most):
    index = index_of([*tokens, BREAK])
    position = min(position, len(tokens))
    chain = index.continuation(position, most)
    assert chain == tokens[position : position + len(chain)]
    assert len(chain) == most or (tokens[position:] + [BREAK])[len(chain)] == BREAK


def test_a_repetition_goes_on_repeating():
    index = index_of([9, 1, 2, 3, 1, 2, 3, 1, 2])
    match = index.match(index.tokens)
    assert match == Match(5, 6, 1.0)
    assert index.continuation(match.position, 7) == [3, 1, 2, 3, 1, 2, 3]


def test_most_occurrences_decide_and_of_those_the_newest():
    index = index_of([1, 2, 5, 0, 1, 2, 6, 0, 1, 2, 5, 8, 1, 2, 7, 3])
    assert index.match([4, 1, 2]) == Match(2, 10, 0.5)  # 5 twice, 6 and 7 once.
    assert index.match([0, 1, 2]) == Match(3, 10, 0.5)  # 6 and 5 once each: the newer one.
    assert index.match([8, 1, 2]) == Match(3, 14, 1.0)  # A longer match counts for more than a frequent one.


def test_a_frequent_ngram_costs_no_more_than_its_newest_occurrences():
    newest = [0, 4, 4, 7] * OCCURRENCES
    index = index_of([8, 4, 4, 9, BREAK, *newest, BREAK])
    assert index.match([8, 4, 4]) == Match(2, 5 + len(newest) - 1, 1.0)
