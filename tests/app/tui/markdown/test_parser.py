from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tui.markdown import parser as markdown
from app.tui.markdown.blocks import closed_length
from app.tui.markdown.leaf import Leaf
from app.tui.markdown.parser import LONGEST, close_marks, leaves, parse

TEXT = (
    "# Unpack\n\nUse `tar` to **unpack** it\nhere, see [the *manual*](https://gnu.org/tar):\n\n"
    "```sh\ntar xf a.tar\n\nls\n```\n\n- `-x` extracts\n  into a folder\n- `-f` names it\n  1. first\n  2. second\n\n"
    "> quoted *words*\n\n| a | b |\n|---|---|\n| `x` | y & z |\n\n---\n\n<b>bold</b> &amp; done\n\n<div>\nraw\n</div>\n"
)
MARKS = ["```", "```sh\n", "~~~~\n", "~~~", "`", "**", "# h\n", "> q", "- x", "1. y", "|", "--", "=\n"]
PIECES = st.lists(st.sampled_from(["a", "b c", " ", "\n", "\n\n", *MARKS]))


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


@given(PIECES.map("".join), PIECES.map("".join))
def test_what_is_closed_is_parsed_once(text: str, more: str) -> None:
    closed = text[: closed_length(text)]
    before, last = parse(closed)
    kept = [leaf for leaf in before if leaf.source[0] < last]
    whole, _ = parse(closed + more)
    assert same(whole[: len(kept)], kept)


@given(PIECES.map("".join))
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


@given(PIECES.map("".join))
def test_each_character_has_a_place_and_they_come_in_order(text: str) -> None:
    for leaf in parse(text)[0]:
        counts = [leaf.characters_before(at) for at in range(len(text) + 1)]
        assert counts == sorted(counts) and counts[-1] == len(leaf.content.plain)


def test_a_hostile_table_loses_nothing() -> None:
    (head, row) = (leaf for leaf in leaves("| a │ b | c |\n|---|---|\n| 1 │ 2 | 3 |\n"))
    assert head.content.plain == "a │ b │ c" and head.cells == (5, 1)
    assert row.content.plain == "1 │ 2 │ 3" and row.widths == (5, 1)
