"""Prompt files in their three forms, and the errors of broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.prompts import PromptEntry, PromptsError, read_prompts


def read(tmp_path: Path, text: str) -> list[PromptEntry]:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text, encoding="utf-8")
    return read_prompts(path)


def test_three_forms(tmp_path: Path) -> None:
    prompts = read(
        tmp_path,
        '{"id": "tar", "prompt": "unpack a tarball", "accept": ["tar"]}\n\n{"turns": ["list files", "hidden too"]}\n'
        '{"platform": "common", "name": "ls", "examples": [{"task": "[L]ist [f]iles:", "command": "ls"},'
        ' {"task": "SSH into a host", "command": "ssh"}]}\n',
    )
    assert prompts == [
        PromptEntry(("unpack a tarball",), "tar"),
        PromptEntry(("list files", "hidden too")),
        PromptEntry(("How do I list files?",), "common/ls#1"),
        PromptEntry(("How do I SSH into a host?",), "common/ls#2"),
    ]


def test_a_broken_file_is_explained(tmp_path: Path) -> None:
    for text, says in (
        ("\n\n", "no prompts"),
        ('{"prompt": "a"}\nnot json\n', "line 2"),
        ('["a"]\n', "not a JSON object"),
        ('{"question": "a"}\n', "neither `prompt`"),
        ('{"turns": []}\n', "`turns`"),
        ('{"turns": ["a", 1]}\n', "no text"),
        ('{"prompt": "  "}\n', "empty"),
    ):
        with pytest.raises(PromptsError, match=says) as caught:
            read(tmp_path, text)
        assert "prompts.jsonl" in str(caught.value)


def test_a_byte_order_mark_and_the_line_ends_of_another_system(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes('{"prompt": "a"}\r\n{"prompt": "b\u2028c\x85"}\r\n'.encode("utf-8-sig"))
    assert [entry.turns for entry in read_prompts(path)] == [("a",), ("b\u2028c\x85",)]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    with pytest.raises(PromptsError, match="cannot be read"):
        read_prompts(path)
    path.write_bytes('{"prompt": "na\u00efve"}\n'.encode("latin-1"))
    with pytest.raises(PromptsError, match="is not text in UTF-8.*; save it as UTF-8"):
        read_prompts(path)
