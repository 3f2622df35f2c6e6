"""Dropped text among the rows of the text that took its place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tui.markdown.layout import NO_PLACE, Row, WrappedLeaf, wrap
from app.tui.markdown.parser import leaves
from app.tui.markdown.struck import Struck, strike

OWN = (
    "Use `tar`. It\nknows **many** forms:\n\n- one\n- two\n\n```sh\ncd /x\n\ttar xvzf file\n```\n\n"
    "| a | b |\n|---|---|\n| c | d |\n\nEnd"
)


def drawn(text: str, width: int) -> list[WrappedLeaf]:
    return wrap(leaves(text), width, solid=len(text))


def said(rows: list[Row], *, struck: bool) -> str:
    parts = [piece.plain for row in rows for _, piece, x in row.pieces if (x == NO_PLACE) is struck]
    return "".join("".join(parts).split())


def all_rows(found: list[WrappedLeaf]) -> list[Row]:
    return [row for one in found for row in one.rows]


@pytest.mark.parametrize("width", [9, 24, 80])
@given(
    at=st.integers(0, len(OWN)),
    dropped=st.text(st.sampled_from("ab` *\n-x漢"), min_size=1, max_size=40),
)
def test_the_text_itself_stays_as_it_was_at_any_place(width: int, at: int, dropped: str) -> None:
    before = drawn(OWN, width)
    after = strike(before, [Struck(at, dropped)], width)
    assert said(all_rows(after), struck=False) == said(all_rows(before), struck=False)
    assert [(one.leaf, one.y, one.lines) for one in after] == [(one.leaf, one.y, one.lines) for one in before]
    for row in all_rows(after):
        assert row.left.cell_length + sum(piece.cell_length for _, piece, _ in row.pieces) <= max(width, 12)
    places = [(row.y, x, piece.plain) for row in all_rows(after) for _, piece, x in row.pieces if x != NO_PLACE]
    lines = [line.expandtabs(8) for leaf in leaves(OWN) for line in leaf.content.plain.split("\n")]
    assert all(lines[y][x:].startswith(text.rstrip()) for y, x, text in places if "│" not in text), "it can be selected"


@given(st.integers(0, len(OWN)))
def test_no_dropped_word_is_lost(at: int) -> None:
    found = said(all_rows(strike(drawn(OWN, 40), [Struck(at, "x1 x2 x3\n\nx4 x5")], 40)), struck=True)
    assert "x1x2x3x4x5" in found


@given(st.lists(st.integers(0, len(OWN)), min_size=2, max_size=4, unique=True))
def test_several_texts_stand_each_at_its_place(places: list[int]) -> None:
    before = drawn(OWN, 40)
    after = strike(before, [Struck(at, f"y{number}z") for number, at in enumerate(sorted(places))], 40)
    assert said(all_rows(after), struck=False) == said(all_rows(before), struck=False)
    found = re.findall(r"y(\d)z", said(all_rows(after), struck=True))
    assert found == [str(number) for number in range(len(places))]
