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
from recipes.shell_guide.piped.parts import Text
from recipes.shell_guide.piped.tables import separated
from storage import Attachment, Message

DRAWS = 50
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
