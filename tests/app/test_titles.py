"""A title names the matter of a conversation and does not ask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.titles import TITLE_LENGTH, title_from


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("How do I unpack a .tar.gz file?", "Unpack a .tar.gz file"),
        ("how to list hidden files", "List hidden files"),
        ("Hi, how can I find\nlarge files ?", "Find large files"),
        ("Could you please tell me how to rename a branch?", "Rename a branch"),
        ("What is the best way to copy a disk?", "Copy a disk"),
        ("please delete old logs", "Delete old logs"),
        ("I want to e2fsck a disk", "e2fsck a disk"),
        ("What is eating my disk?", "What is eating my disk"),
        ("Was ist das?", "Was ist das"),
        ("解凍するには？", "解凍するには"),
        ("ls -l, please", "ls -l"),
        ("and list what is in it", "and list what is in it"),
        ("list images, pdfs etc.", "list images, pdfs etc."),
        ("How do I?", "How do I"),
        ("please?", "please?"),
        ("???", "???"),
        ("how do I ?", "how do I ?"),
        ("", ""),
    ],
)
def test_titles(question: str, title: str) -> None:
    assert title_from(question) == title


@given(st.text(max_size=200))
def test_any_question_has_a_title_from_one_line(question: str) -> None:
    title = title_from(question)
    assert len(title) <= TITLE_LENGTH and title == " ".join(title.split())
    assert bool(title) == bool(question.split())


def test_a_long_one_is_cut() -> None:
    assert title_from("how do I " + "very " * 40).startswith("Very very")
    assert title_from("word " * 40).endswith("…")
