"""Leaves as rows: at every width each word is there, and what grows is drawn as if it had come at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from app.tui.markdown.layout import Row, WrappedLeaf, character_at, wrap
from app.tui.markdown.notes import AnswerNotes, BlockNotes, NoteLine
from app.tui.markdown.parser import leaves, parse

WIDE = "| {} |\n|{}\n| {} |\n".format(
    " | ".join(f"column {n}" for n in range(9)), "---|" * 9, " | ".join(f"word{n} more{n}" for n in range(9))
)


def rows(text: str, width: int) -> list[Row]:
    return [row for drawn in wrap(leaves(text), width, solid=len(text)) for row in drawn.rows]


def cells(row: Row) -> int:
    last = row.pieces[-1] if row.pieces else None
    return row.left.cell_length + (0 if last is None else last[0] + last[1].cell_length)


def looks(drawn: list[WrappedLeaf]) -> list[object]:
    """What is to be seen of it: two `Content`s are equal where only their styles differ."""

    def seen(content: Content) -> tuple[str, object]:
        return content.plain, sorted(map(repr, content.spans))

    return [
        (seen(row.left), [(start, seen(piece), x) for start, piece, x in row.pieces], row.y, row.kind, row.copy)
        for one in drawn
        for row in one.rows
    ]


@pytest.mark.parametrize("width", [8, 20, 40, 72, 110, 200])
def test_a_table_that_is_too_wide_loses_no_column(width: int) -> None:
    table = rows(WIDE, width)
    assert all(cells(row) <= width for row in table)
    shown = "".join(piece.plain for row in table for _, piece, _ in row.pieces)
    for word in [f"word{n}" for n in range(9)] + [f"more{n}" for n in range(9)]:
        assert word in shown or width < 20


def test_columns_are_aligned_as_the_table_says() -> None:
    table = rows("| n | size | mid |\n|:--|--:|:-:|\n| a | 9 | x |\n| b | 1,024 | yyyyy |\n| c | 漢 | z |\n", 40)
    lines = []
    for row in table:
        line = ""
        for start, piece, _ in row.pieces:
            line += " " * (start - Content(line).cell_length) + piece.plain
        lines.append(line)
    assert lines == ["n │  size │  mid", "a │     9 │   x", "b │ 1,024 │ yyyyy", "c │    漢 │   z"]


@pytest.mark.parametrize(
    "text",
    [
        "漢字かな交じり文" * 9,
        "👨‍👩‍👧‍👦 family " * 9,
        "e\u0301 combining a\u0308 " * 9,
        "🇩🇪🇫🇷 flags " * 9,
        "x" * 300,
        "- a list\n  - of 漢字かな交じり文\n\n    ```\n    and a very long line of code in it\n    ```\n",
        "> quoted\n>\n> 1. words " + "more " * 30,
    ],
)
@pytest.mark.parametrize("width", [12, 30, 79])
def test_no_row_is_wider_than_it_may_be_and_nothing_is_lost(text: str, width: int) -> None:
    found = rows(text, width)
    assert all(cells(row) <= width for row in found)
    shown = "".join(piece.plain for row in found for _, piece, _ in row.pieces)
    said = "".join(leaf.content.plain for leaf in leaves(text))
    assert "".join(shown.split()) == "".join(said.split())


CODE = ["a", "bc d", "\n", "\n\n", "\tx", "漢", "    y = 1\n", "z" * 30, "```\n"]
PIECES = st.lists(st.tuples(st.sampled_from(CODE), st.booleans()))


@given(PIECES)
def test_code_that_grows_is_drawn_as_if_it_had_come_at_once(pieces: list[tuple[str, bool]]) -> None:
    text, solid, known = "so:\n\n```py\n", 0, []
    for piece, verified in pieces:
        text += piece
        solid = len(text) if verified else solid
        parsed = parse(text)[0]
        known = wrap(parsed, 20, solid=solid, known=known)
        assert looks(known) == looks(wrap(parsed, 20, solid=solid))


def test_lines_of_code_that_stay_are_not_wrapped_again() -> None:
    text = "```py\n" + "x = 1\n" * 50
    before = wrap(parse(text)[0], 40, solid=len(text))
    text += "y = 2\n"
    after = wrap(parse(text)[0], 40, solid=len(text), known=before)
    assert sum(a is b for a, b in zip(before[0].rows, after[0].rows)) == 50


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("abc", [0, 1, 2, 3]),
        ("\tab", [0] * 8 + [1, 2, 3]),
        ("a\tb", [0] + [1] * 7 + [2, 3]),
        ("漢\tb", [0] + [1] * 6 + [2]),
    ],
)
def test_a_place_between_tabs(line: str, places: list[int]) -> None:
    assert [character_at(line, x) for x in range(len(places))] == places


# ---- notes -----------------------------------------------------------------------------------------------------------

NOTED = "first\n\n- item\n\n  ```sh\n  rm -rf build\n  ```\n\nlast\n\n```sh\nls\n```\n"
NOTES = AnswerNotes(
    ((1, BlockNotes(((0, 6, ".warning"),), (NoteLine((("warning: ", ".warning"), ("it deletes a lot", ""))),))),),
    (NoteLine((("from a page", ".notice"),), click="show"),),
)


def with_notes(width: int, notes: AnswerNotes = NOTES, known: list[WrappedLeaf] | None = None) -> list[WrappedLeaf]:
    return wrap(leaves(NOTED), width, solid=len(NOTED), notes=notes, known=known or ())


def test_notes_stand_below_their_block_and_below_the_whole_text() -> None:
    first, item, block, last, end = with_notes(60)
    assert [row.left.plain for row in block.rows][-1] == "   warning: it deletes a lot", "as far in as its block"
    (code,) = [piece for row in block.rows for _, piece, _ in row.pieces]
    marks = [(code.plain[span.start : span.end], span.style) for span in code.spans if span.style == ".warning"]
    assert marks == [("rm -rf", ".warning")]
    assert [row.left.plain for row in end.rows][-1] == "from a page"
    assert all(not row.kind for row in (block.rows[-1], end.rows[-1])), "it is not on the ground of the code"
    for one in (first, item, last):
        assert looks([one]) == looks([plain for plain in with_notes(60, AnswerNotes()) if plain.leaf is one.leaf])


@pytest.mark.parametrize("width", [6, 12, 20, 60])
def test_notes_are_wrapped_and_lose_no_word(width: int) -> None:
    *_, block, _, end = with_notes(width)
    lines = [row.left.plain for row in block.rows if row.left.plain.strip() and not row.kind]
    assert "".join("".join(lines).split()) == "warning:itdeletesalot"
    assert max(map(len, lines)) <= width
    assert "".join(row.left.plain for row in end.rows).split() == ["from", "a", "page"] or width < 12


def test_only_what_has_other_notes_is_wrapped_again() -> None:
    before = with_notes(60)
    assert all(old is new for old, new in zip(before, with_notes(60, known=before), strict=True))
    after = with_notes(60, AnswerNotes(footer=NOTES.footer), known=before)
    assert [old is new for old, new in zip(before, after, strict=True)] == [True, True, False, True, True]
    assert looks(after) == looks(with_notes(60, AnswerNotes(footer=NOTES.footer)))


def test_a_footer_below_prose_stands_apart() -> None:
    text = "only words"
    (leaf,) = wrap(leaves(text), 40, solid=len(text), notes=NOTES)
    assert [row.left.plain or row.pieces[0][1].plain if row.pieces or row.left.plain else "" for row in leaf.rows] == [
        "only words",
        "",
        "from a page",
    ]
