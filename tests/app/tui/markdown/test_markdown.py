"""Markdown as leaves and rows: at every width each word is there, and what grows is drawn as if it had come at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from app.tui.markdown import parser as markdown
from app.tui.markdown.blocks import closed_length
from app.tui.markdown.layout import NO_PLACE, Row, WrappedLeaf, wrap
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.notes import AnswerNotes, BlockNotes, NoteLine
from app.tui.markdown.parser import LONGEST, close_marks, leaves, parse
from app.tui.markdown.struck import Struck, strike

WIDE = "| {} |\n|{}\n| {} |\n".format(
    " | ".join(f"column {n}" for n in range(9)), "---|" * 9, " | ".join(f"word{n} more{n}" for n in range(9))
)


def drawn(text: str, width: int) -> list[WrappedLeaf]:
    return wrap(leaves(text), width, solid=len(text))


def all_rows(found: list[WrappedLeaf]) -> list[Row]:
    return [row for one in found for row in one.rows]


def rows(text: str, width: int) -> list[Row]:
    return all_rows(drawn(text, width))


def cells(row: Row) -> int:
    last = row.pieces[-1] if row.pieces else None
    return row.left.cell_length + (0 if last is None else last[0] + last[1].cell_length)


def looks(found: list[WrappedLeaf]) -> list[object]:
    """What is to be seen of it: two `Content`s are equal where only their styles differ."""

    def seen(content: Content) -> tuple[str, object]:
        return content.plain, sorted(map(repr, content.spans))

    return [
        (seen(row.left), [(start, seen(piece), x) for start, piece, x in row.pieces], row.y, row.kind, row.copy)
        for row in all_rows(found)
    ]


@pytest.mark.parametrize("width", [8, 20, 72, 200])
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
@pytest.mark.parametrize("width", [12, 79])
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


@pytest.mark.parametrize("width", [6, 20])
def test_notes_are_wrapped_and_lose_no_word(width: int) -> None:
    *_, block, _, end = with_notes(width)
    lines = [row.left.plain for row in block.rows if row.left.plain.strip() and not row.kind]
    assert "".join("".join(lines).split()) == "warning:itdeletesalot"
    assert max(map(len, lines)) <= width
    assert "".join(row.left.plain for row in end.rows).split() == ["from", "a", "page"] or width < 12


# ---- dropped text among the rows of the text that took its place -----------------------------------------------------

OWN = (
    "Use `tar`. It\nknows **many** forms:\n\n- one\n- two\n\n```sh\ncd /x\n\ttar xvzf file\n```\n\n"
    "| a | b |\n|---|---|\n| c | d |\n\nEnd"
)


def said(rows: list[Row], *, struck: bool) -> str:
    parts = [piece.plain for row in rows for _, piece, x in row.pieces if (x == NO_PLACE) is struck]
    return "".join("".join(parts).split())


@pytest.mark.parametrize("width", [9, 80])
@given(at=st.integers(0, len(OWN)), dropped=st.text(st.sampled_from("ab` *\n-x漢"), min_size=1, max_size=40))
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


@given(st.lists(st.integers(0, len(OWN)), min_size=1, max_size=4, unique=True))
def test_no_dropped_word_is_lost_and_several_texts_stand_each_at_its_place(places: list[int]) -> None:
    def found(texts: list[Struck]) -> str:
        return said(all_rows(strike(drawn(OWN, 40), texts, 40)), struck=True)

    assert "x1x2x3x4" in found([Struck(places[0], "x1 x2\n\nx3 x4")])
    several = [Struck(at, f"y{number}z") for number, at in enumerate(sorted(places))]
    assert re.findall(r"y(\d)z", found(several)) == [str(number) for number in range(len(places))]


# ---- the parser ------------------------------------------------------------------------------------------------------


TEXT = (
    "# Unpack\n\nUse `tar` to **unpack** it\nhere, see [the *manual*](https://gnu.org/tar):\n\n"
    "```sh\ntar xf a.tar\n\nls\n```\n\n- `-x` extracts\n  into a folder\n- `-f` names it\n  1. first\n  2. second\n\n"
    "> quoted *words*\n\n| a | b |\n|---|---|\n| `x` | y & z |\n\n---\n\n<b>bold</b> &amp; done\n\n<div>\nraw\n</div>\n"
)
MARKS = ["```", "```sh\n", "~~~~\n", "~~~", "`", "**", "# h\n", "> q", "- x", "1. y", "|", "--", "=\n"]
TEXTS = st.lists(st.sampled_from(["a", "b c", " ", "\n", "\n\n", *MARKS]))


def same(some: Sequence[Leaf], others: Sequence[Leaf]) -> bool:
    """Equal, and alike in their styles, too."""
    return len(some) == len(others) and all(one.looks_like(other) for one, other in zip(some, others))


def plain(text: str) -> list[str]:
    return [f"{leaf.first.plain}{leaf.content.plain}" for leaf in parse(text)[0]]


def test_every_kind_of_block() -> None:
    assert plain(TEXT) == [
        "Unpack",
        "Use tar to unpack it here, see the manual (https://gnu.org/tar):",
        "tar xf a.tar\n\nls",
        " • -x extracts into a folder",
        " • -f names it",
        "    1. first",
        "    2. second",
        "▌ quoted words",
        "a │ b",
        "x │ y & z",
        "",
        "<b>bold</b> & done",
        "<div>\nraw\n</div>",
    ]


def test_an_unfinished_text_looks_as_it_will() -> None:
    for text, shown in (
        ("Use `tar", ["Use tar"]),
        ("Use `tar` `", ["Use tar"]),
        ("so **very b*", ["so very b"]),
        ("Options:\n-", ["Options:"]),
        ("Options:\n\n1.", ["Options:"]),
        ("```sh\nls\n`", ["ls"]),
        ("2 * 3 * 4 \\ [bold]x", ["2 * 3 * 4 \\ [bold]x"]),
    ):
        assert plain(close_marks(text)) == shown


@given(TEXTS.map("".join), TEXTS.map("".join))
def test_what_is_closed_is_parsed_once(text: str, more: str) -> None:
    closed = text[: closed_length(text)]
    before, last = parse(closed)
    kept = [leaf for leaf in before if leaf.source[0] < last]
    whole, _ = parse(closed + more)
    assert same(whole[: len(kept)], kept)


@given(TEXTS.map("".join))
def test_a_long_text_is_parsed_in_chunks_as_if_at_once(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown, "CHUNK", 8)
        found = leaves.__wrapped__(text)
    assert same(found, [markdown.highlight_leaf(leaf) for leaf in parse(text)[0]])


def test_an_answer_of_any_length_keeps_its_form() -> None:
    text = TEXT * (2 * LONGEST // len(TEXT))
    found = leaves(text)
    assert sum(leaf.kind == "code" for leaf in found) == max(leaf.number for leaf in found) == 2 * LONGEST // len(TEXT)
    assert {leaf.kind for leaf in found} == {"prose", "code", "row", "head", "rule"}
    assert "".join(leaf.text for leaf in found if leaf.kind == "rule") == "---\n" * (2 * LONGEST // len(TEXT))


def test_a_block_of_any_length_loses_nothing() -> None:
    code, words = "x = 1\n" * (LONGEST // 3), "word " * (LONGEST // 3)
    found = leaves(f"so:\n\n```\n{code}```\n\n{words}\n\n*end*\n")
    assert [leaf.kind for leaf in found] == ["prose", "code", "prose", "prose"]
    assert [leaf.content.plain for leaf in found] == ["so:", code.rstrip("\n"), words, "end"]


@given(TEXTS.map("".join))
def test_each_character_has_a_place_and_they_come_in_order(text: str) -> None:
    for leaf in parse(text)[0]:
        counts = [leaf.characters_before(at) for at in range(len(text) + 1)]
        assert counts == sorted(counts) and counts[-1] == len(leaf.content.plain)


def test_a_hostile_table_loses_nothing() -> None:
    (head, row) = (leaf for leaf in leaves("| a │ b | c |\n|---|---|\n| 1 │ 2 | 3 |\n"))
    assert head.content.plain == "a │ b │ c" and head.cells == (5, 1)
    assert row.content.plain == "1 │ 2 │ 3" and row.widths == (5, 1)


def test_closed_length() -> None:
    for text, closed in (
        ("Use `tar`", ""),
        ("Use `tar`:\n\n", "Use `tar`:\n\n"),
        ("Use:\n\n```sh\ntar xf a", "Use:\n\n"),
        ("Use:\n```sh\ntar xf a\n```", "Use:\n"),
        ("Use:\n```sh\ntar xf a\n```\n", "Use:\n```sh\ntar xf a\n```\n"),
        ("````\n```\n", ""),
    ):
        assert text[: closed_length(text)] == closed
