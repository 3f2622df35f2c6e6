"""When guessing pays, and what is guessed."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drafter.ngram import BREAK, LONGEST, NGramIndex
from drafter.second_stage import FIRST_ROW_COST, MOST, Experience, SecondStage

PERIOD = [5, 6, 7, 8, 9]


def stage(*texts, **options) -> SecondStage:
    second = SecondStage(**options)
    for text in texts:
        second.commit(text)
    return second


def stored(*texts) -> NGramIndex:
    index = NGramIndex()
    for text in texts:
        index.extend([*text, BREAK])
    return index


def follow(second, count) -> list[int]:
    """Let the repeated text continue for `count` steps, with a drafter that agrees. Returns the lengths of the
    guesses."""
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


def test_rows_that_cost_nothing_are_all_used_and_dear_ones_not_at_all():
    for seconds, length in ((1.0, MOST), (9.0, 0)):
        second = stage(range(40), [3, 4, 5])
        second.experience.timed(1, 1.0)
        for _ in range(200):
            second.experience.timed(9, seconds)
        assert len(second.guess()) == length


def test_rows_that_cost_little_are_reached_over_some_that_do_not_pay():
    second = stage(range(60), range(20))
    steps = np.array([1.0] + [4.0] * 7 + [4.2] * 9)
    assert len(second.guess(costs=steps)) == 16
    assert second.guess(costs=steps[:5]) == [20, 21, 22, 23]
    assert second.guess(costs=steps[:3]) == []


def test_a_pause_of_the_machine_changes_little():
    second = stage(range(40), [3, 4, 5])
    for _ in range(50):
        second.experience.timed(1, 1.0)
        second.experience.timed(5, 1.0 + 4 * FIRST_ROW_COST)
    before = second.guess()
    second.experience.timed(1, 1000.0)
    assert second.guess() == before
    second.experience.timed(5, 1000.0)
    assert second.guess()[:2] == before[:2]


def test_stored_texts_help_where_they_match_longer():
    texts = stored([1, 2, 3, 4, 50, 51, 52], [3, 4, 60, 61])
    for said, first in (
        ([[1, 2, 3, 4]], 50),
        ([[9, 3, 4]], 60),  # Of equal matches the newest.
        ([[3, 4, 70, 71], [9, 3, 4]], 70),  # A match of the same length, but nearer.
        ([[3, 4, 70, 71], [1, 2, 3, 4]], 50),
    ):
        second = stage(*said, stored=(texts,))
        second.experience.row_cost = 0.0
        assert second.guess()[0] == first


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


def test_a_longer_match_leads_and_shorter_ones_have_a_say():
    split = [token for other in range(20, 28) for token in (5, 6, other)]
    texts = stored(split, [4, 5, 6, 9, 9, 9])
    lone = stored([4, 5, 6, 9, 9, 9])
    assert stage([4, 5, 6], stored=(lone,)).guess()[:1] == [9]
    assert stage([4, 5, 6], stored=(texts,)).guess() == []  # 5, 6 has gone on in nine ways.
    alike = stored(*[[5, 6, 9, 9, 9]] * 4, [4, 5, 6, 9, 9, 9])
    assert len(stage([4, 5, 6], stored=(alike,)).guess()) >= len(stage([4, 5, 6], stored=(lone,)).guess())


def test_conversations_learn_from_one_another():
    experience = Experience()
    strange = itertools.count(100)
    for _ in range(40):
        second = stage(PERIOD, PERIOD[:3], experience=experience)
        second.guess()
        second.commit([next(strange)])
    assert stage(PERIOD, PERIOD[:3]).guess() and not stage(PERIOD, PERIOD[:3], experience=experience).guess()


def test_a_conversation_that_copies_says_little_about_one_that_does_not():
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
