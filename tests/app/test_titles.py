"""Names as they are shown: the title of a conversation says its matter and does not ask, and a model is no path."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.model_names import short_model
from app.titles import TITLE_LENGTH, title_from


def test_titles() -> None:
    for question, title in (
        ("How do I unpack a .tar.gz file?", "Unpack a .tar.gz file"),
        ("Hi, how can I find\nlarge files ?", "Find large files"),
        ("Could you please tell me how to rename a branch?", "Rename a branch"),
        ("I want to e2fsck a disk", "e2fsck a disk"),
        ("What is eating my disk?", "What is eating my disk"),
        ("解凍するには？", "解凍するには"),
        ("ls -l, please", "ls -l"),
        ("How do I?", "How do I"),
    ):
        assert title_from(question) == title
    for question in ("and list what is in it", "list images, pdfs etc.", "???", ""):
        assert title_from(question) == question


@given(st.text(max_size=200))
def test_any_question_has_a_title_from_one_line(question: str) -> None:
    title = title_from(question)
    assert len(title) <= TITLE_LENGTH and title == " ".join(title.split())
    assert bool(title) == bool(question.split())


def test_a_long_one_is_cut() -> None:
    assert title_from("how do I " + "very " * 40).startswith("Very very")
    assert title_from("word " * 40).endswith("…")


def test_the_last_part_of_a_path_is_shown() -> None:
    for name, shown in (
        ("/srv/models/qwen.gguf", "qwen.gguf"),
        ("models/7B/ggml-model.gguf", "ggml-model.gguf"),
        ("./guide", "guide"),
        (r"C:\Users\me\guide.gguf", "guide.gguf"),
        (r"\\server\share\guide", "guide"),
        ("/srv/guide@main", "guide@main"),
    ):
        assert short_model(name) == shown
    for name in ("meta-llama/Llama-3.1-8B", "llama3:8b", "/", ""):
        assert short_model(name) == name
