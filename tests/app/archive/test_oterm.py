from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.archive.importer import Unreadable, import_file
from storage import Store

DATA = Path(__file__).parent.parent.parent / "data" / "oterm-0.26.sql"


def test_chats_of_oterm(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(DATA.read_text(encoding="utf-8"))
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
