"""When guessing pays, and what is guessed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from drafter.ngram import LONGEST
from drafter.second_stage import MOST, Experience, SecondStage

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


def test_guesses_that_come_true_grow_longer():
    second = stage(PERIOD, PERIOD)
    lengths = follow(second, 40)
    assert lengths[-1] > lengths[0]
    assert second.accepted == sum(lengths)


def test_guesses_that_fail_cease_and_begin_again_when_they_would_hold():
    second = stage(PERIOD)
    strange = itertools.count(100)

    def fail() -> int:
        second.commit(PERIOD[:3])
        length = len(second.guess())
        second.commit([next(strange)])
        return length

    lengths = [fail() for _ in range(40)]
    assert lengths[0] > 0 and lengths[-20:] == [0] * 20
    assert second.accepted == 0
    for _ in range(60):
        second.commit([next(strange), *PERIOD[:3]])
        second.guess()
        second.commit([PERIOD[3]])
    second.commit([next(strange), *PERIOD[:3]])
    assert second.guess()[0] == PERIOD[3]


def test_only_what_was_put_to_the_test_is_counted():
    second = stage(PERIOD, PERIOD[:3])
    assert second.guess()[:2] == PERIOD[3:]
    second.keep(1)
    second.commit(PERIOD[3:])
    assert second.accepted == 1
    second.commit(PERIOD)  # Nothing was asked for.
    assert second.accepted == 1


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30), st.lists(st.integers(0, 3), max_size=10))
def test_going_back_leaves_no_trace_in_what_is_guessed(tokens, length, more):
    second = stage(tokens)
    second.guess()
    second.rewind(length)
    second.commit(more)
    assert second.guess() == stage(tokens[:length], more).guess()


def test_conversations_learn_from_one_another_where_matches_are_as_long():
    experience = Experience()
    for length in (3, LONGEST) * 200:
        experience.learn(length, 1, 1, hit=True)
    assert experience.chance(3, 1, 1) == Experience().chance(3, 1, 1) < 0.6
    assert experience.chance(LONGEST, 1, 1) > 0.98 > Experience().chance(LONGEST, 1, 1)


def test_following_a_text_is_committing_what_is_new():
    second, other = stage(range(20)), stage(range(20), [5, 6, 7, 8])
    second.follow([*range(20), 5, 6, 7, 8])
    assert second.guess() == other.guess() != []
    second.follow([*range(10), 3, 4])
    assert second.guess() == stage(range(10), [3, 4]).guess() != []
    second.follow([1, 2])
    assert second.guess() == []
