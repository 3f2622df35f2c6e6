"""A model that is named after its file is shown by the file's name."""

from __future__ import annotations

import pytest

from app.model_names import short_model


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/srv/models/qwen.gguf", "qwen.gguf"),
        ("/srv/models/qwen/", "qwen"),
        ("models/7B/ggml-model.gguf", "ggml-model.gguf"),
        ("~/models/guide", "guide"),
        ("./guide", "guide"),
        (r"C:\Users\me\guide.gguf", "guide.gguf"),
        (r"\\server\share\guide", "guide"),
        ("/srv/guide@main", "guide@main"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("llama3:8b", "llama3:8b"),
        ("gpt-5", "gpt-5"),
        ("/", "/"),
        ("//", "//"),
        ("", ""),
    ],
)
def test_the_last_part_of_a_path_is_shown(name: str, shown: str) -> None:
    assert short_model(name) == shown
