"""Databases of other programs: `llm`, of which three versions wrote to one file, and oterm (`tests/data`)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.archive.errors import Unreadable
from app.archive.importer import ImportReport, import_file
from storage import Message, Store

DATA = Path(__file__).parent.parent.parent / "data"
BRIEF = [
    ("system", "Be brief."),
    ("user", "how do I unpack a tarball?"),
    ("assistant", "Use tar -xf."),
    ("user", "and a zip?"),
    ("assistant", "Then unzip a.zip."),
]
WHY = [("user", "why?"), ("assistant", "Because tar keeps permissions.")]


def logs(folder: Path, version: str) -> Path:
    path = folder / f"logs-{version}.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA synchronous = OFF")  # Each statement is a transaction of its own.
        database.executescript((DATA / f"llm-{version}.sql").read_text(encoding="utf-8"))
    return path


def read(store: Store, path: Path) -> ImportReport:
    report = import_file(store, path)
    assert report.kind == "logs of llm"
    return report


def thread_with(store: Store, text: str) -> list[Message]:
    """The only shown branch that contains this text."""
    threads = [store.branches.thread(found.id) for found in store.conversations.all()]
    (thread,) = (thread for thread in threads if any(message.text == text for message in thread))
    return thread


def spoken(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def test_the_first_tables(store: Store, tmp_path: Path) -> None:
    report = read(store, logs(tmp_path, "0.13"))
    assert [(result.outcome, result.messages) for result in report.results] == [("new", 5), ("new", 2)]
    thread = thread_with(store, "how do I unpack a tarball?")
    assert spoken(thread) == BRIEF
    assert store.conversations.get(thread[0].conversation_id).title == "how do I unpack a tarball?"
    assert thread[-1].stats == {"source": "llm", "model": "scripted", "seconds": 0.0}
    assert thread[0].created == "2026-11-22T06:27:53.874+00:00"
    assert store.conversations.get(thread[0].conversation_id).updated == thread[-1].created
    assert spoken(thread_with(store, "Sure.")) == [("user", "one more é\x1b[2J?"), ("assistant", "Sure.")]


def test_fragments_are_text_and_attachments_remarks(store: Store, tmp_path: Path) -> None:
    report = read(store, logs(tmp_path, "0.26"))
    thread = thread_with(store, "A blue dot.")
    assert spoken(thread) == [
        ("system", "You read manuals."),
        ("user", "TAR(1) User Commands\nwhat is this?"),
        ("assistant", "It is a manual page."),
        ("user", "and this?\n\n[attachment image/png: not in the import]"),
        ("assistant", "A blue dot."),
    ]
    assert thread[-1].stats["output_tokens"] == 5
    assert thread_with(store, "what is the weather there?")[-1].text == "Sunny, says the tool."
    assert report.left_out == {"attachments (image/png)": 1}


def test_the_tree_of_messages(store: Store, tmp_path: Path) -> None:
    report = read(store, logs(tmp_path, "0.36"))
    assert spoken(thread_with(store, "why?")) == BRIEF + WHY
    assert thread_with(store, "what is the weather?")[-1].text == "The weather is fine."
    forked = thread_with(store, "A shorter answer.")
    assert spoken(forked) == [("user", "TAR(1) User Commands\nwhat is this?"), ("assistant", "A shorter answer.")]
    question, *answers = store.messages.of(forked[0].conversation_id)
    assert [answer.text for answer in answers] == ["It is a manual.", "A shorter answer."]
    assert {answer.parent_id for answer in answers} == {question.id}
    assert report.left_out == {"attachments (image/png)": 2, "thoughts": 1, "tool calls": 1, "tool outputs": 1}


def test_an_upgraded_file_continues_what_was_imported_before(store: Store, tmp_path: Path) -> None:
    read(store, logs(tmp_path, "0.13"))
    report = read(store, logs(tmp_path, "0.36"))
    outcomes = {result.title: (result.outcome, result.messages) for result in report.results}
    assert outcomes["how do I unpack a tarball?"] == ("added", 2)
    assert outcomes["one more é\x1b[2J?"] == ("same", 0)
    assert spoken(thread_with(store, "why?")) == BRIEF + WHY
    assert {result.outcome for result in read(store, tmp_path / "logs-0.36.db").results} == {"same"}


@pytest.mark.parametrize(
    "payload", ["{", '{"text_ref": [1, {"fragment": [2]}]}', pytest.param("[" * 100_000, id="deep")]
)
def test_a_part_that_cannot_be_read_costs_no_other(store: Store, tmp_path: Path, payload: str) -> None:
    path = logs(tmp_path, "0.36")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE parts SET text = NULL, payload = ? WHERE text = 'why?'", (payload,))
    outcomes = [result.outcome for result in read(store, path).results]
    assert outcomes and set(outcomes) == {"new"}
    assert [WHY[1][1] in hit.message.text for hit in store.search.messages("permissions")] == [True]


def test_a_damaged_file_is_named(store: Store, tmp_path: Path) -> None:
    path = logs(tmp_path, "0.26")
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(Unreadable, match=path.name):
        import_file(store, path)
    assert store.conversations.all() == []


def test_bytes_in_place_of_text_are_text(store: Store, tmp_path: Path) -> None:
    path = logs(tmp_path, "0.13")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE responses SET response = CAST(response AS BLOB), prompt = CAST(prompt AS BLOB)")
        database.execute("UPDATE conversations SET id = CAST(id AS BLOB), name = CAST(x'ff' AS TEXT)")
    assert {result.outcome for result in read(store, path).results} == {"new"}
    assert spoken(thread_with(store, "and a zip?")) == BRIEF


# ---- oterm -----------------------------------------------------------------------------------------------------------


def test_chats_of_oterm(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript((DATA / "oterm-0.26.sql").read_text(encoding="utf-8"))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    report = import_file(store, path)
    assert report.kind == "chats of oterm" and report.left_out == {"attachments (picture)": 1}
    assert [(result.title, result.outcome) for result in report.results] == [
        ("chat #1 - llama3.2", "new"), ("and a zip?", "new"), ("never used", "failed"),
    ]  # fmt: skip
    first, second = (store.transfer.whole(result.conversation_id or "") for result in report.results[:2])
    assert [(message.role, message.text) for message in first.messages] == [
        ("system", "Be brief."),
        ("user", "how do I unpack a tarball?\n\n[picture: not in the import]"),
        ("assistant", "tar -xf"),
    ]
    assert first.messages[-1].stats == {"source": "oterm", "model": "llama3.2"}
    assert first.conversation.created == first.conversation.updated == "2023-11-14T22:13:20.000+00:00"
    assert [message.text for message in second.messages] == ["and a zip?", "unzip"]

    (link := tmp_path / "link.db").symlink_to(path)
    with closing(sqlite3.connect(path)) as database:  # This changes the time of the file.
        database.execute("PRAGMA journal_mode = wal")
        database.execute("INSERT INTO message (chat_id, author, text) VALUES (2, 'user', 'thanks')")
        database.commit()
        again = import_file(store, link)
    assert [(result.outcome, result.messages) for result in again.results[:2]] == [("same", 0), ("added", 1)]


def test_an_older_file_without_pictures_and_system_prompts(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("""
            CREATE TABLE chat (id INTEGER PRIMARY KEY, name TEXT, model TEXT NOT NULL);
            CREATE TABLE message (id INTEGER PRIMARY KEY, chat_id INTEGER, author TEXT NOT NULL, text TEXT NOT NULL);
            INSERT INTO chat VALUES (1, 'old', 'llama2');
            INSERT INTO message VALUES (1, 1, 'user', 'how?');
        """)
    assert [(result.title, result.outcome) for result in import_file(store, path).results] == [("old", "new")]


@pytest.mark.parametrize(
    "tables",
    [
        "CREATE TABLE chat (guid); CREATE TABLE message (chat_id, body)",
        "CREATE TABLE chat (id, guid); INSERT INTO chat VALUES (1, 'a'); CREATE TABLE message (id, chat_id, body); "
        "INSERT INTO message VALUES (1, 1, 'b')",
        "CREATE TABLE conversations (id, title); CREATE TABLE responses (id, conversation_id, body); "
        "INSERT INTO responses VALUES (1, 1, 'b')",
    ],
)
def test_tables_of_another_program_with_the_same_names_are_told(store: Store, tmp_path: Path, tables: str) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.executescript(tables)
    with pytest.raises(Unreadable, match="Outrider reads: "):
        import_file(store, tmp_path / "other.db")
