"""`outrider export` and `outrider import` as scripts see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.support.commands import Outrider, runner
from tests.support.serving import REPOSITORY

CHATGPT = REPOSITORY / "tests" / "data" / "chatgpt.json"


@pytest.fixture
def outrider(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Outrider:
    return runner(monkeypatch, capsys, home, home / "no drafter")


@pytest.fixture
def kept(home: Path) -> Iterator[Store]:
    """The database that the commands use."""
    with Store.open(home / "data" / "outrider.db") as store:
        yield store


@pytest.fixture
def two(kept: Store) -> list[str]:
    """The ids of two conversations, the older one first."""
    ids = []
    for title in ("tarballs", "zips\x1b[2J"):
        conversation = kept.conversations.create(title).id
        asked = kept.messages.add(conversation, "user", f"about {title}", parent_id=None, status="done")
        kept.messages.add(conversation, "assistant", "yes\x1b]0;x\x07", parent_id=asked.id, status="done")
        kept.messages.add(conversation, "assistant", "no", parent_id=asked.id, status="done")
        ids.append(conversation)
    return ids


def test_the_last_conversation_goes_to_stdout(outrider: Outrider, two: list[str], kept: Store) -> None:
    kept.conversations.pin(two[0], True)
    exported = outrider("export")
    assert exported.code == 0 and exported.err == ""
    assert exported.out.startswith("# zips\n") and "no\n" in exported.out and "yes" not in exported.out
    everything = outrider("export", "--branches", "--format", "html")
    assert everything.out.startswith("<!DOCTYPE html>") and "yes" in everything.out
    assert "\x1b" not in exported.out + everything.out
    named = outrider("export", two[1], two[0], two[1])
    headings = [line for line in named.out.splitlines() if line.startswith("# ")]
    assert headings == ["# Conversations", "# zips", "# tarballs"], "in their order, each once"


def test_everything_to_a_file_and_back(outrider: Outrider, two: list[str], kept: Store, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    exported = outrider("export", "--all", "-o", str(path))
    assert (exported.code, exported.out) == (0, "") and f"2 conversations in {path}" in exported.err
    assert [item["id"] for item in json.loads(path.read_text(encoding="utf-8"))["conversations"]] == two
    kept.bin.erase(two[0])
    imported = outrider("import", str(path))
    assert imported.code == 0
    assert imported.out.splitlines() == [f"{two[0]}  new  tarballs", f"{two[1]}  same  zips"]
    assert "Outrider export, 2 conversations: 1 imported, 1 already here; 3 messages" in imported.err
    again = outrider("import", "--again", str(path))
    assert [line.split("  ")[1] for line in again.out.splitlines()] == ["new", "new"]
    assert len(kept.conversations.all()) == 4


BEGINNINGS = {"md": "# ", "json": '{"', "html": "<!DOCTYPE html>"}


def test_the_ending_or_the_option_chooses_the_format(outrider: Outrider, two: list[str], tmp_path: Path) -> None:
    (tmp_path / "v1.2").mkdir()
    for name, options, format in (
        ("x.MARKDOWN", "", "md"), ("x.json", "", "json"), ("x.htm", "--format html", "html"), ("x", "", "md"),
        (".notes", "", "md"), ("v1.2/x", "", "md"), ("x.backup", "--format json", "json"),
        ("x.json.gz", "", ""), ("y.json", "--format md", ""),
    ):  # fmt: skip
        file = tmp_path / name
        done = outrider("export", *options.split(), "-o", str(file))
        if format:
            assert done.code == 0 and file.read_text(encoding="utf-8").startswith(BEGINNINGS[format]), name
        else:
            assert done.says(2, "--format") and name in done.err and not file.exists()


def test_a_folder_and_a_pipe_have_no_ending(outrider: Outrider, two: list[str], tmp_path: Path) -> None:
    (tmp_path / "exports.d").mkdir()
    assert outrider("export", "-o", str(tmp_path / "exports.d")).code == 0
    assert [path.suffix for path in (tmp_path / "exports.d").iterdir()] == [".md"]
    assert outrider("export", "--format", "json", "-o", "-").out.startswith(BEGINNINGS["json"])
    assert not Path("-").exists()


def test_what_was_imported_and_what_was_not_is_said(outrider: Outrider, kept: Store) -> None:
    imported = outrider("import", str(CHATGPT))
    assert imported.code == 1
    assert [line.split("  ", 1)[1] for line in imported.out.splitlines()] == [
        "new  Unpacking",
        "new  Tools and pictures",
    ]
    assert "ChatGPT export, 5 conversations: 2 imported, 3 not imported; 7 messages" in imported.err
    assert "left out: " in imported.err and "1 custom instructions" in imported.err
    assert "not imported: An empty shell: it has no messages" in imported.err
    assert len(kept.conversations.all()) == 2


def test_several_files_of_which_one_is_none(outrider: Outrider, two: list[str], tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    outrider("export", two[0], "-o", str(path))
    imported = outrider("import", str(tmp_path / "gone.json"), str(path))
    assert imported.says(1, "gone.json cannot be read") and "same" in imported.out


def test_what_is_wrong_is_said(outrider: Outrider, two: list[str]) -> None:
    for arguments, code, says in (
        (["export", "c0ffee"], 1, "outrider history"),
        (["export", "--all", "c0ffee"], 2, "not both"),
        (["export", "-o", "/nowhere/x.md"], 1, "/nowhere/x.md cannot be written"),
        (["export", "--format", "pdf"], 2, "pdf"),
    ):
        done = outrider(*arguments)
        assert done.says(code, says) and done.out == "" and "Traceback" not in done.err


def test_nothing_to_export(outrider: Outrider) -> None:
    exported = outrider("export")
    assert exported.says(1, "no conversation") and exported.out == ""
    assert outrider("export", "--all", "--format", "json").json["conversations"] == []
