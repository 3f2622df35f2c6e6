"""Questions about given commands and error messages: what is said of a command is what is known of it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from app.commands.blocks import shell_blocks
from app.commands.risk import Kind
from app.commands.syntax import parse
from recipes.shell_guide import errors
from recipes.shell_guide.given import Given, asked, known_risks, own_command
from recipes.shell_guide.grammar.talk import read_talk

DRAWS = 50
_SLOT = re.compile(r"\{[a-z]+\d?\}")
_LOST = re.compile(r"deletes?|overwrites|replace|throws?|empt(?:y|ies)|removes?|writes?|moves", re.I)


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("command", "only"),
    [
        ("ls -l", True),
        ("grep -r foo . 2>/dev/null | sort | uniq -c", True),
        ("find . -name '*.o'", True),
        ("find . -name '*.o' -delete", False),
        ("find . -exec touch {} +", False),
        ("sort a > b", False),
        ("sort -o a a", False),
        ("sed -i s/a/b/ f", False),
        ("awk '{ print > \"x\" }' f", False),
        ("ls | xargs rm", False),
        ("cat a | tee b", False),
        ("sudo cat /etc/shadow", False),
        ("echo $(rm a)", False),
    ],
)
def test_what_only_reads_is_known(command: str, only: bool) -> None:
    assert Given(command, "It does that.", known_risks(command)).reads_only is only


def test_what_a_command_of_our_own_takes_away_is_said() -> None:
    for seed in range(DRAWS):
        given = own_command(rng(seed))
        if {Kind.DELETES, Kind.OVERWRITES} & {risk.kind for risk in given.risks}:
            assert _LOST.search(f"{given.does} {given.note}"), given.command
        question, answer = asked(given, rng(seed))
        assert not _SLOT.search(question + answer)


def test_each_error_has_an_answer_with_a_command_that_can_be_read() -> None:
    assert len(errors.ERRORS) >= 120
    for number, error in enumerate(errors.ERRORS):
        assert ("do" in error) == ("run" in error)
        for seed in range(10):
            question, answer = errors.asked(error, rng(number, seed))
            assert not _SLOT.search(question.replace("{}", "")) and not _SLOT.search(answer), answer
            assert [block.command for block in shell_blocks(answer) if parse(block.command).unreadable] == []


def test_another_language_is_answered_in_it_and_never_with_a_command() -> None:
    talks = [one for one in read_talk() if one.kind == "language"]
    answers = {answer for one in talks for answer in one.answers}
    assert len(answers) == 11
    for at, talk in enumerate(talks):
        for seed in range(DRAWS):
            question, answer = talk.draw(rng(at, seed))
            assert (
                question.strip(" ,") == question
                and "`" not in answer
                and answer.count(".") == 1 + answer.startswith("I ")
            )
