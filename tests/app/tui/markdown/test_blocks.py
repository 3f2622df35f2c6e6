from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.tui.markdown.blocks import closed_length, split

PIECES = st.lists(
    st.sampled_from(["a", "b c", "\n", "\n\n", "```", "```sh\n", "~~~~\n", "~~~", "- x", " ", "`", "# h\n"])
)


@given(PIECES.map("".join), PIECES.map("".join))
@example("~~~~\n~~~~\n ", "a")
def test_what_is_closed_stays_as_it_is(text: str, more: str) -> None:
    closed = [block for block in split(text) if block.closed]
    assert split(text + more)[: len(closed)] == closed
    assert closed_length(text) <= closed_length(text + more)


@given(PIECES.map("".join))
def test_blocks_cover_all_but_blank_lines(text: str) -> None:
    at = 0
    for block in split(text):
        assert not text[at : block.start].strip()
        assert block.start < block.end
        at = block.end
    assert not text[at:].strip()


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("", ""),
        ("Use `tar`", ""),
        ("Use `tar`:\n", ""),
        ("Use `tar`:\n\n", "Use `tar`:\n\n"),
        ("Use:\n\n```sh\ntar xf a", "Use:\n\n"),
        ("Use:\n```sh\ntar xf a\n```", "Use:\n"),
        ("Use:\n```sh\ntar xf a\n```\n", "Use:\n```sh\ntar xf a\n```\n"),
        ("````\n```\n", ""),
    ],
)
def test_closed_length(text: str, closed: str) -> None:
    assert text[: closed_length(text)] == closed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("none", []),
        ("```sh\nls -l\n```", ["ls -l"]),
        ("```sh\nls\n```\n\nor\n\n~~~\na\n\nb\n~~~\n", ["ls", "a\n\nb"]),
        ("```sh\nstopped half", ["stopped half"]),
        ("1. so:\n   ```sh\n   ls\n   ```\n", ["   ls"]),
    ],
)
def test_code_blocks(text: str, code: list[str]) -> None:
    assert [text[slice(*block.body)].removesuffix("\n") for block in split(text) if block.fenced] == code
