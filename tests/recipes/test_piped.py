"""Questions about piped text: their form is that of `outrider ask`, and their answers are true of the text."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest

from app.attachments.renderer import question_text
from app.commands.blocks import shell_blocks
from app.commands.syntax import parse
from recipes.shell_guide.piped import drawing
from recipes.shell_guide.piped.diffs import CHANGES, LONGEST_MESSAGE, diff
from recipes.shell_guide.piped.failures import pytest as failed_tests
from recipes.shell_guide.piped.parts import Text
from recipes.shell_guide.piped.tables import processes, separated
from storage import Attachment, Message

DRAWS = 200
FEW = 4
"""Draws of each text whose questions and commands are read closely, which takes long."""
_CODE = re.compile(r"```.*?```", re.S)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def answers(text: Text, question: str) -> list[str]:
    return [answer for kind, answer in text.asked if kind.startswith(question)]


@pytest.mark.parametrize("maker", drawing.MAKERS, ids=lambda maker: maker.__name__)
def test_what_an_answer_shows_stands_in_the_text(maker) -> None:
    for seed in range(DRAWS):
        text = maker(rng(seed))
        assert 1 <= len(text.body.strip().splitlines()) <= 45
        for number, (kind, answer) in enumerate(text.asked):
            if seed < FEW:
                assert re.search(r"[\[\](){}|\n]|  ", drawing.asked(text, number, rng(seed))[0]) is None
            said = _CODE.sub("", answer)
            assert [one for one in _INLINE.findall(said) if one not in text.body and one != text.name] == [], kind
            assert "`" not in _INLINE.sub("", said), answer
            assert said[0].isupper() or said[0] in "`0123456789", answer
            for shell in shell_blocks(answer) if seed < FEW else ():
                assert parse(shell.command).unreadable == (), answer
            for program in re.findall(r"\bjq (?:-\w+ )?'([^']*)'", answer):
                assert program.startswith((".", "select")), program
            for block in re.findall(r"```text\n(.*?)\n```", answer, re.S):
                assert block in text.body


def test_a_row_with_the_largest_number_is_named() -> None:
    for seed in range(DRAWS):
        text = separated(rng(seed))
        sign = max(",;\t", key=text.body.splitlines()[0].count)
        head, *rows = csv.reader(io.StringIO(text.body), delimiter=sign)
        largest = max(rows, key=lambda row: int(row[-1]))
        (said,) = answers(text, f"(who|which one) has the (highest|largest|biggest) {head[-1]}")
        assert said == f"`{largest[1]}` has the highest {head[-1]}, {largest[-1]}."
        assert answers(text, "how many (rows")[0].startswith(f"It has {len(rows)} row")


def test_the_process_with_the_most_memory_is_named() -> None:
    for seed in range(DRAWS):
        text = processes(rng(seed))
        rows = [line.split(maxsplit=10) for line in text.body.splitlines()[1:]]
        most = max(rows, key=lambda row: float(row[3]))
        (said,) = answers(text, "(which|what) process (uses|takes|eats|needs) the most (memory")
        assert said == f"`{most[10]}` with process id `{most[1]}`: {float(most[3]):.1f} % of the memory."


def test_the_line_of_a_failure_is_where_it_is_said_to_be() -> None:
    for seed in range(DRAWS):
        text = failed_tests(rng(seed))
        said = re.fullmatch(r"Line (\d+) of the text has the error:\n\n```text\n(.+)\n```", answers(text, "line")[0])
        assert said is not None and text.body.splitlines()[int(said[1]) - 1] == said[2]


def test_a_commit_message_is_an_imperative_of_one_short_line() -> None:
    assert len(CHANGES) >= 40
    for seed in range(DRAWS):
        for message in answers(diff(rng(seed)), "commit")[:1]:
            assert len(message) < LONGEST_MESSAGE and "\n" not in message and "<" not in message
            assert not re.match(r"\w+(?:ed|ing|s)\b", message.removeprefix("Address").removeprefix("Process")), message


def test_diffs_are_well_formed() -> None:
    for seed in range(DRAWS):
        body = diff(rng(seed)).body
        for old, new, lines in re.findall(r"^@@ -\d+,(\d+) \+\d+,(\d+) @@\n(.*)", body, re.M | re.S):
            signs = [line[:1] for line in lines.split("\n")]
            assert set(signs) <= {" ", "-", "+"}
            assert (int(old), int(new)) == (len(signs) - signs.count("+"), len(signs) - signs.count("-"))


def test_no_answer_about_piped_text_knows_the_name_of_a_file() -> None:
    for seed in range(DRAWS):
        text = separated(rng(seed))
        assert all(text.name not in answer for _, answer in drawing.nameless(text).asked)
    answered = dict(drawing.nameless(Text("a.csv", "x,y", (("what", "```sh\nsort a.csv > aa.csv\n```"),))).asked)
    assert answered["what"] == "```sh\nsort file.csv > aa.csv\n```"


def test_the_form_is_that_of_a_question_with_a_file() -> None:
    text = Text("a.csv", "x,y\n1,2", (("what", "A table."),))
    asked = drawing.attached(text, "what is it", rng(0))
    file = Attachment(text.name, "text/plain", text.body.encode())
    stored = Message("", "", None, "user", "what is it", "done", (), (), {}, "", attachments=(file,))
    assert asked == question_text(stored)


def test_a_conversation_depends_on_its_number_alone() -> None:
    drawn = [drawing.draw(rng(7, index)) for index in range(DRAWS)]
    assert drawn == [drawing.draw(rng(7, index)) for index in range(DRAWS)]
    assert all(question and answer for turns in drawn for question, answer in turns)
    assert len({turns[0][0] for turns in drawn}) == DRAWS
