"""Prompt files in their three forms, and the library of system prompts: what is read, and what broken ones tell."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from app.config import ConfigError, Folders
from app.prompts import PromptEntry, PromptsError, read_prompts
from app.system_prompts import MOST_BYTES, SystemPrompt, SystemPrompts, name_problem


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
        ('{"prompt": "a"}\nnot json\n', 'line 2 is not JSON. Each line is .* {"prompt": "list files"}'),
        ('["a"]\n', "not a JSON object"),
        ('{"question": "a"}\n', "neither `prompt`"),
        ('{"turns": []}\n', "`turns`"),
        ('{"turns": ["a", 1]}\n', "no text"),
        ('{"prompt": "  "}\n', "empty"),
    ):
        with pytest.raises(PromptsError, match=says) as caught:
            read(tmp_path, text)
        assert "prompts.jsonl" in str(caught.value)


def test_a_byte_order_mark_and_other_line_ends_are_read_and_what_cannot_be_is_told(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    with pytest.raises(PromptsError, match="cannot be read"):
        read_prompts(path)
    path.write_bytes('{"prompt": "a"}\r\n{"prompt": "b\u2028c\x85"}\r\n'.encode("utf-8-sig"))
    assert [entry.turns for entry in read_prompts(path)] == [("a",), ("b\u2028c\x85",)]
    path.write_bytes('{"prompt": "na\u00efve"}\n'.encode("latin-1"))
    with pytest.raises(PromptsError, match="is not text in UTF-8.*; save it as UTF-8"):
        read_prompts(path)


# ---- the library of system prompts -----------------------------------------------------------------------------------


@pytest.fixture
def prompts(folders: Folders) -> SystemPrompts:
    return SystemPrompts(folders)


def written(prompts: SystemPrompts, file: str, data: bytes) -> Path:
    prompts.folder.mkdir(parents=True, exist_ok=True)
    path = prompts.folder / file
    path.write_bytes(data)
    return path


def test_files_of_a_persons_own_editor_are_read(prompts: SystemPrompts) -> None:
    written(prompts, "Übersetzer.txt", "\ufeffDeutsch.\r\nKurz.\r\n".encode())
    written(prompts, "notes.pdf", b"no prompt")
    written(prompts, ".hidden.md", b"no prompt")
    (prompts.folder / "folder.md").mkdir()
    assert prompts.names() == ["Übersetzer"] and prompts.get("Übersetzer") == "Deutsch.\nKurz."
    with pytest.raises(ConfigError, match="cannot be read"):
        prompts.get("folder")
    prompts.put("Übersetzer", "Englisch.")
    assert [path.name for path in prompts.folder.glob("Ü*")] == ["Übersetzer.txt"], "the same file is written again"


@pytest.mark.parametrize("name", ["", "../evil", "a b", ".hidden", "a/b", "x" * 64, "a\n", "none", "-s"])
def test_a_bad_name_is_told(prompts: SystemPrompts, name: str) -> None:
    assert name_problem(name) is not None and name not in prompts
    for call in (partial(prompts.put, name, "text"), partial(prompts.get, name), partial(prompts.remove, name)):
        with pytest.raises(ConfigError, match="name"):
            call()
    assert not prompts.folder.exists()


def test_a_name_of_the_library_goes_before_a_text(prompts: SystemPrompts) -> None:
    prompts.put("tutor", "Explain.")
    assert prompts.meant_by("tutor") == prompts.meant_by("@tutor") == SystemPrompt("Explain.", "tutor")
    assert prompts.meant_by("Answer in verse.") == SystemPrompt("Answer in verse.")
    assert prompts.meant_by("teacher") == SystemPrompt("teacher")
    assert prompts.meant_by("none") == prompts.meant_by("") == SystemPrompt("")
    assert prompts.meant_by("bro\udcffken") == SystemPrompt("bro?ken"), "what no UTF-8 carries could not be stored"
    with pytest.raises(ConfigError, match="there is no system prompt 'teacher'"):
        prompts.meant_by("@teacher")
    with pytest.raises(ConfigError, match="at most"):
        prompts.meant_by("long " * MOST_BYTES)
