"""The JSON format loses nothing, and `outrider export` and `import` as scripts see them."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.archive import outrider_json as format
from app.archive.errors import Unreadable
from app.archive.exporter import every_conversation, export_conversations
from app.archive.importer import import_file
from app.cli.archive import summary
from app.config import Settings
from storage import Choices, Store
from tests.storage.trees import TALKS, Talk, fill, rows
from tests.support.commands import Outrider, runner
from tests.support.serving import REPOSITORY

DOCUMENT = Path(__file__).parent.parent.parent.parent / "docs" / "data.md"


def exported(store: Store, path: Path) -> Path:
    return export_conversations(store, every_conversation(store), "json", path, settings=Settings())


def a_conversation(store: Store) -> None:
    conversation = store.conversations.create("tar").id
    question = store.messages.add(conversation, "user", "how?", parent_id=None, status="done")
    answer = store.messages.add(conversation, "assistant", "", parent_id=question.id, status="pending")
    store.messages.finish(answer.id, [5, 6], [True, False], "tar \x9b2J", "done", {"tau": 2.0})
    store.queue.add_verification(answer.id)
    store.queue.add(conversation, "and a zip?")
    store.conversations.choose(conversation, Choices(system="Be brief.", system_name="brief", temperature=0.9, seed=7))


def test_import_of_export_is_the_same_and_leaves_others_as_they_were(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as source, Store.open(tmp_path / "b.db") as target:
        a_conversation(target)
        others, waited = by_id(target), [queued.id for queued in target.queue.all()]

        @settings(max_examples=20)
        @given(TALKS, st.integers())
        def check(talks: list[Talk], seed: int) -> None:
            for identifier in every_conversation(source):
                source.bin.erase(identifier)
                target.bin.erase(identifier)
            fill(source, talks)
            waiting = [queued.id for queued in source.queue.all()]
            random.Random(seed).shuffle(waiting)
            source.queue.order(waiting)
            path, everything = exported(source, tmp_path / "all.json"), by_id(source)
            for outcome in ("new", "same"):
                report = import_file(target, path)
                assert [result.outcome for result in report.results] == [outcome] * len(talks)
                assert by_id(target) == {table: everything[table] | others[table] for table in others}
            assert [one for one in every_conversation(target) if one in everything["conversations"]] == (
                every_conversation(source)
            )
            assert [queued.id for queued in target.queue.all() if queued.id not in waited] == waiting

        check()


def by_id(store: Store) -> dict[str, dict[str, tuple[Any, ...]]]:
    """The rows by id. Rows of different conversations may be in another order than in the file."""
    return {table: {row[0]: row for row in found} for table, found in rows(store).items()}


def test_what_is_unknown_is_skipped_and_rows_keep_their_order(store: Store, other: Store, tmp_path: Path) -> None:
    a_conversation(store)
    a_conversation(store)
    path = exported(store, tmp_path / "all.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    document["conversations"][0]["colour"] = "blue"
    for conversation in document["conversations"]:  # Messages may come in any order.
        conversation["messages"].reverse()
    path.write_text(json.dumps(document, indent=2), encoding="utf-8-sig")
    import_file(other, path)
    assert rows(other) == rows(store)
    assert [one.choices for one in other.conversations.all()] == [one.choices for one in store.conversations.all()]


def test_a_file_says_what_it_is_and_no_secret(store: Store, tmp_path: Path) -> None:
    a_conversation(store)
    chosen = Settings(token="s3cret", remote="https://me:pass@example.org", temperature=0.5, seed=7)
    path = export_conversations(store, every_conversation(store), "json", tmp_path / "x.json", settings=chosen)
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    assert (document["format"], document["version"]) == ("outrider-conversations", 1)
    assert document["settings"]["temperature"] == 0.5 and document["settings"]["seed"] == 7
    assert "s3cret" not in text and "example.org" not in text and "token" not in document["settings"]
    assert "\x9b" not in text and "\\u009b2J" in text
    assert len(text.splitlines()) == 3


def test_relations_are_statistics_in_the_file_as_they_always_were(store: Store, other: Store, tmp_path: Path) -> None:
    a_conversation(store)
    (conversation,) = store.conversations.all()
    answer = store.messages.of(conversation.id)[-1]
    beside, longer = store.messages.verify(answer.id), store.messages.resume(answer.id)
    assert beside is not None
    store.messages.finish(beside.id, [5], [True], "tar", "done", {"kept": 1, "of": 2})
    store.messages.finish(longer.id, [5, 6, 7], [True] * 3, "tar xf", "done", {"rounds": 1})
    path = exported(store, tmp_path / "all.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    first, second = document["conversations"][0]["messages"][-2:]
    assert first["stats"] == {"kept": 1, "of": 2, "verifies": answer.id}
    assert second["stats"] == {"rounds": 1, "resumes": answer.id}
    assert set(first) == {"id", "parent", "role", "text", "status", "tokens", "provenance", "stats", "created"}
    import_file(other, path)
    assert other.messages.get(beside.id).verifies == other.messages.get(longer.id).resumes == answer.id
    assert other.messages.get(beside.id).stats == {"kept": 1, "of": 2}


def test_a_newer_version_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "newer.json"
    path.write_text('{"format": "outrider-conversations", "version": 2, "conversations": {"other": "shape"}}')
    with pytest.raises(Unreadable, match=r"newer Outrider \(format 2, .* up to 1\); update Outrider"):
        import_file(store, path)


BROKEN: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("is missing", lambda it: it["messages"].pop(0)),
    ("is its own ancestor", lambda it: it["messages"][0].update(parent=it["messages"][1]["id"])),
    ("same id", lambda it: it["messages"].append(it["messages"][0])),
    ("its last shown message", lambda it: it.update(tip="c0ffee")),
    ("2 tokens, but 1 verdicts", lambda it: it["messages"][1].update(provenance="v")),
    ("provenance", lambda it: it["messages"][1].update(provenance="vx")),
    ("role", lambda it: it["messages"][1].update(role="oracle")),
    ("tokens", lambda it: it["messages"][1].update(tokens=[-1, 2])),
    ("created", lambda it: it["messages"][1].update(created="\x1b[2Jnow")),
    ("id", lambda it: it.update(id="\x1b]0;title\x07")),
    ("stats", lambda it: it["messages"][1].update(stats={"mode": "\x1b[2J"})),
    ("neither a prompt nor an answer", lambda it: it["queue"][1].update(message=it["queue"][0]["message"])),
    ("its queue has an answer", lambda it: it["queue"][0].update(message=it["messages"][0]["id"])),
    ("its queue has an answer", lambda it: it["queue"].append(it["queue"][0])),
    ("title", lambda it: it.pop("title")),
]


def test_a_broken_conversation_is_refused_and_others_are_imported(store: Store, other: Store, tmp_path: Path) -> None:
    a_conversation(store)
    a_conversation(store)
    path = exported(store, tmp_path / "all.json")
    whole = path.read_text(encoding="utf-8")
    for says, breaks in BROKEN:
        document = json.loads(whole)
        breaks(document["conversations"][0])
        path.write_text(json.dumps(document), encoding="utf-8")
        first, second = import_file(other, path).results
        assert (first.outcome, second.outcome) == ("failed", "new" if says == BROKEN[0][0] else "same"), says
        assert says in first.problem
    assert [found.id for found in other.conversations.all()] == [document["conversations"][1]["id"]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[]", "cannot be imported"),
        pytest.param(b"[" * 100_000, "cannot be imported", id="deep"),
        (b'{"format":"outrider-conversations","version":1,"conversations":[{"id"', "not a complete export"),
        (b'{"format":"outrider-conversations","version":1}', "not a complete export"),
        (b"SQLite format 3\0garbage", "cannot be read"),
        (b"PK\x03\x04garbage", "download it again"),
        (b"\xff\xfe\x00", "cannot be imported"),
    ],
)
def test_what_is_no_export_is_named(store: Store, tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "thing.json"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=says) as refused:
        import_file(store, path)
    assert "thing.json" in str(refused.value)


def test_another_database_or_a_backup_is_imported(store: Store, other: Store, tmp_path: Path) -> None:
    a_conversation(store)
    a_conversation(store)
    backup = tmp_path / "outrider.db.before-m005"
    backup.write_bytes(b"")
    store.close()
    backup.write_bytes(store.path.read_bytes())
    before = backup.read_bytes()
    with pytest.raises(Unreadable, match="the database in use"):
        import_file(other, other.path)
    report = import_file(other, backup)
    assert report.kind == "database of Outrider" and len(report.results) == 2
    assert backup.read_bytes() == before and not list(tmp_path.glob("*-wal"))
    with Store.open(store.path) as again:
        assert rows(other) == rows(again)


HARM = [
    "UPDATE conversations SET created = '<img src=x>'",
    "UPDATE conversations SET updated = '2026' || char(27) || ']52;c;aGk=' || char(7)",
    "UPDATE conversations SET title = x'ff', created = ''",
    "UPDATE messages SET created = '<script>'",
    "UPDATE messages SET stats = 'no json'",
    """UPDATE messages SET stats = '{"\u001b[2J": 1}'""",
    "UPDATE messages SET provenance = 'vd', tokens = 'abcdefgh'",
    "UPDATE messages SET text = CAST(x'ff' AS TEXT)",
    "UPDATE messages SET role = 'root'",
    "UPDATE queue SET id = char(155) || '2J' || key",
]


def test_a_database_made_to_do_harm_is_refused(store: Store, other: Store, tmp_path: Path) -> None:
    a_conversation(store)
    store.close()
    for number, harm in enumerate(HARM):
        path = tmp_path / f"{number}.db"
        path.write_bytes(store.path.read_bytes())
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {trigger}")
            connection.execute(harm)
        report = import_file(other, path)
        assert [result.outcome for result in report.results] == ["failed"] and other.conversations.all() == [], harm
        assert "<" not in report.results[0].problem and report.results[0].problem.isprintable()
        assert list(summary(report, path))


def test_the_document_names_every_field() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for struct in (format.ConversationRecord, format.MessageRecord, format.QueueRecord):
        for name in msgspec.structs.fields(struct):
            assert f"`{name.encode_name}`" in text, name
    assert f'"{format.FORMAT}"' in text and all(f"`{name}`" in text for name in format.ANSWERING)


# ---- the commands ----------------------------------------------------------------------------------------------------


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
    both = outrider("import", str(tmp_path / "gone.json"), str(path))
    assert both.says(1, "gone.json cannot be read") and "same" in both.out
    again = outrider("import", "--again", str(path))
    assert [line.split("  ")[1] for line in again.out.splitlines()] == ["new", "new"]
    assert len(kept.conversations.all()) == 4


BEGINNINGS = {"md": "# ", "json": '{"', "html": "<!DOCTYPE html>"}


def test_the_ending_or_the_option_chooses_the_format(outrider: Outrider, two: list[str], tmp_path: Path) -> None:
    (tmp_path / "v1.2").mkdir()
    for name, options, kind in (
        ("x.MARKDOWN", "", "md"), ("x.json", "", "json"), ("x.htm", "--format html", "html"), ("x", "", "md"),
        (".notes", "", "md"), ("v1.2/x", "", "md"), ("x.backup", "--format json", "json"),
        ("x.json.gz", "", ""), ("y.json", "--format md", ""),
    ):  # fmt: skip
        file = tmp_path / name
        done = outrider("export", *options.split(), "-o", str(file))
        if kind:
            assert done.code == 0 and file.read_text(encoding="utf-8").startswith(BEGINNINGS[kind]), name
        else:
            assert done.says(2, "--format") and name in done.err and not file.exists()


def test_a_folder_and_a_pipe_have_no_ending(outrider: Outrider, two: list[str], tmp_path: Path) -> None:
    (tmp_path / "exports.d").mkdir()
    assert outrider("export", "-o", str(tmp_path / "exports.d")).code == 0
    assert [path.suffix for path in (tmp_path / "exports.d").iterdir()] == [".md"]
    assert outrider("export", "--format", "json", "-o", "-").out.startswith(BEGINNINGS["json"])
    assert not Path("-").exists()


def test_what_was_imported_and_what_was_not_is_said(outrider: Outrider, kept: Store, tmp_path: Path) -> None:
    imported = outrider("import", str(CHATGPT))
    assert imported.code == 1
    assert [line.split("  ", 1)[1] for line in imported.out.splitlines()] == [
        "new  Unpacking",
        "new  Tools and pictures",
    ]
    assert "ChatGPT export, 5 conversations: 2 imported, 3 not imported; 7 messages" in imported.err
    (cut := tmp_path / "cut.json").write_bytes(CHATGPT.read_bytes()[:-20])
    assert outrider("import", str(cut)).says(1, f"what comes before in {cut} was read: ")
    assert "left out: " in imported.err and "1 custom instructions" in imported.err
    assert "not imported: An empty shell: it has no messages" in imported.err
    assert len(kept.conversations.all()) == 2


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
