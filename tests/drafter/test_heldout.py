"""What is set aside is never learnt from, and stays the same when training is run again."""

from __future__ import annotations

import json

from drafter.training.answers import ANSWERS, FEWEST, HELD_OUT, MOST, SHARE, hold_out


def conversations(count: int) -> list[list[str]]:
    return [[f"question {number}", "and then?"] for number in range(count)]


def test_at_most_a_tenth_is_set_aside_and_spread_evenly(tmp_path):
    for count in (FEWEST * SHARE, 255, 2000):
        asked = conversations(count)
        learnt, held = hold_out(asked, tmp_path / str(count))
        assert len(held) == min(MOST, count // SHARE) and len(learnt) == count - len(held)
        assert sorted(held + [turns[0] for turns in learnt]) == sorted(turns[0] for turns in asked)
        places = [int(question.split()[1]) for question in held]
        assert places == sorted(places) and places[-1] - places[0] > 0.8 * count
        lines = (tmp_path / str(count) / HELD_OUT).read_text().splitlines()
        assert [json.loads(line) for line in lines] == [{"prompt": question} for question in held]


def test_of_few_none_is_set_aside(tmp_path):
    asked = conversations(FEWEST * SHARE - 1)
    assert hold_out(asked, tmp_path) == (asked, [])
    assert len(hold_out(conversations(500), tmp_path)[1]) == 50
    # More are not set aside either, once those few may have been learnt from.
    hold_out(asked, tmp_path)
    (tmp_path / ANSWERS).write_text("")
    more = conversations(500)
    assert hold_out(more, tmp_path) == (more, [])


def test_a_question_that_is_asked_again_is_not_set_aside(tmp_path):
    asked = conversations(100) + [["something else", "  QUESTION  0 "]]
    learnt, held = hold_out(asked, tmp_path)
    assert len(held) == 10 and "question 0" not in held
    assert ["something else", "  QUESTION  0 "] in learnt


def test_it_stays_when_there_are_more_questions(tmp_path):
    first, held = hold_out(conversations(100), tmp_path)
    (tmp_path / ANSWERS).write_text("")
    again = [*conversations(300), [held[3].upper()], ["new", f" {held[5]}"]]
    learnt, still = hold_out(again, tmp_path)
    assert still == held
    assert learnt[: len(first)] == first and len(learnt) == 300 - len(held)


def test_answers_that_are_there_may_hold_any_question(tmp_path):
    (tmp_path / ANSWERS).write_text("")
    asked = conversations(200)
    assert hold_out(asked, tmp_path) == (asked, [])
