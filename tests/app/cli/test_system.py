"""`outrider system`, and the options that take a system prompt."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from storage import Choices, Store
from storage.choices import ASKED
from tests.support.commands import Outrider


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR", "OUTRIDER_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "4")


def kept(home: Path) -> list[Choices]:
    """What is chosen for each conversation, the newest first."""
    with Store.open(home / "data" / "outrider.db") as store:
        return [one.choices for one in store.conversations.all()]


def editor(monkeypatch: pytest.MonkeyPatch, folder: Path, program: str) -> None:
    """Let $EDITOR be a Python program; its file is `path`."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "editor.py"
    script.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n{program}\n")
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")


def test_add_list_show_replace_and_remove(outrider: Outrider, home: Path, tmp_path: Path) -> None:
    folder = home / "config" / "prompts"
    empty = outrider("system")
    assert empty.says(0, "outrider system add NAME") and empty.out == "" and str(folder) in empty.err
    assert outrider("system", "add", "verse", stdin="  Answer in verse.\n\n").code == 0
    (tmp_path / "tutor.txt").write_bytes(b"Explain \x1b[31mstep\x1b[0m by step.\r\nBe kind.\r\n")
    assert outrider("system", "add", "tutor", "--file", str(tmp_path / "tutor.txt")).code == 0
    assert (folder / "verse.md").read_text() == "Answer in verse.\n"
    (folder / "broken.md").write_bytes(b"\xff")
    (folder / "two words.md").write_text("text")
    listed = outrider("system", "list")
    assert listed.out == "tutor  Explain step by step. Be kind.\nverse  Answer in verse.\n"
    assert "broken.md is not text in UTF-8" in listed.err and "two words.md is left out" in listed.err
    assert outrider("system", "show", "tutor").out == "Explain step by step.\nBe kind.\n"
    shown = outrider("system", "show", "tutor", "--json")
    assert shown.json["text"] == "Explain \x1b[31mstep\x1b[0m by step.\nBe kind." and "\x1b" not in shown.out
    rows = outrider("system", "list", "--json").rows
    assert [(one["name"], one["problem"] is None) for one in rows] == [
        ("broken", False), ("tutor", True), ("verse", True),
    ]  # fmt: skip
    assert outrider("system", "add", "verse", stdin="Answer in prose.").says(2, "--replace"), "not by accident"
    assert outrider("system", "show", "verse").out == "Answer in verse.\n"
    assert outrider("system", "add", "verse", "Answer in prose.", "--replace").code == 0
    assert outrider("system", "show", "verse").out == "Answer in prose.\n"
    assert outrider("system", "rm", "verse").code == 0 and not (folder / "verse.md").exists()


def test_mistakes_are_told(outrider: Outrider, home: Path) -> None:
    for arguments, stdin, said in (
        (("add", "a b"), "text", "cannot be the name"),
        (("add", "a"), "", "no text"),
        (("add", "a"), "x" * 70_000, "at most 64 kB"),
        (("add", "a", "--file", "/nowhere/a.md"), "", "cannot be read"),
        (("add", "a", "text", "--file", "a.md"), "", "not both"),
        (("show", "a"), "", "no system prompt 'a'"),
        (("edit", "a"), "", "no system prompt 'a'"),
    ):
        result = outrider("system", *arguments, stdin=stdin)
        assert result.code in (1, 2) and result.out == "" and said in result.err
        assert not (home / "config" / "prompts").exists()


def test_the_editor_changes_a_prompt_and_what_cannot_be_kept_stays_in_a_file(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outrider("system", "add", "verse", stdin="Answer in verse.")
    editor(monkeypatch, tmp_path, "path.write_text(path.read_text().replace('verse', 'prose'))")
    assert outrider("system", "edit", "verse").code == 0
    assert outrider("system", "show", "verse").out == "Answer in prose.\n"
    assert outrider("system", "edit", "verse").says(0, "unchanged")
    for program, why, where, written in (
        ("path.write_text('x' * 70_000)", "at most 64 kB", "your text is in ", "x" * 70_000),
        ("path.write_text('new')\nsys.exit(3)", "exited with code 3", "your text is in ", "new"),
    ):
        editor(monkeypatch, tmp_path, program)
        failed = outrider("system", "edit", "verse")
        assert failed.says(1, why)
        file = Path(failed.err.rpartition(where)[2].strip().rstrip("."))
        assert file.read_text() == written
        file.unlink()
    assert outrider("system", "show", "verse").out == "Answer in prose.\n"


def test_a_name_or_a_text_is_kept_with_the_conversation(outrider: Outrider, home: Path) -> None:
    outrider("system", "add", "verse", stdin="Answer in verse.")
    assert outrider("ask", "-s", "verse", "list", "files").code == 0
    assert outrider("ask", "list files").code == 0
    assert outrider("ask", "-s", "prose", "list files").says(0, "no system prompt 'prose' in the library")
    unknown = outrider("ask", "-s", "@prose", "list files")
    assert unknown.says(2, "known: verse") and "outrider system add prose" in unknown.err
    assert kept(home) == [
        Choices(system="prose", origin=ASKED),
        Choices(origin=ASKED),
        Choices(system="Answer in verse.", system_name="verse", origin=ASKED),
    ]


def test_a_conversation_goes_on_with_it(outrider: Outrider, home: Path) -> None:
    outrider("ask", "-s", "Be brief.", "list files")
    outrider("ask", "-c", "hidden ones")
    assert kept(home) == [Choices(system="Be brief.", origin=ASKED)]
    outrider("ask", "-c", "-s", "Be long.", "by size")
    assert kept(home) == [Choices(system="Be long.", origin=ASKED)], "it is asked for from here on"
    outrider("ask", "-c", "-s", "none", "by date")
    assert kept(home) == [Choices(system="", origin=ASKED)]


def test_a_queued_question_and_those_of_a_prompt_file_have_it(outrider: Outrider, home: Path, tmp_path: Path) -> None:
    assert outrider("ask", "--queue", "-s", "Be brief.", "list files").code == 0
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    assert outrider("ask", "--prompts", str(tmp_path / "prompts.jsonl"), "-s", "Be brief.").code == 0
    assert kept(home) == [Choices(system="Be brief.", origin=ASKED)] * 3


def test_an_option_goes_before_the_sampling_of_the_conversation(outrider: Outrider, home: Path) -> None:
    outrider("ask", "list files")
    with Store.open(home / "data" / "outrider.db") as store:
        [conversation] = store.conversations.all()
        store.conversations.choose(conversation.id, Choices(max_tokens=2))
    assert len(outrider("ask", "-c", "--json", "again").json["token_ids"]) == 2
    assert len(outrider("ask", "-c", "--json", "--max-tokens", "3", "again").json["token_ids"]) == 3
