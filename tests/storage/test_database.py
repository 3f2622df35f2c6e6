from __future__ import annotations

import sqlite3
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from storage import Conversation, Message, NotADatabase, StorageBusy, StorageFull, Store, database
from storage.database import MEMORY
from tests.storage.stored import add, said


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_only_the_owner_may_read_what_was_said(store: Store, path: Path, answer: Message) -> None:
    files = sorted(path.parent.glob("outrider.db*"))
    assert len(files) == 4  # The database, its log, the log's index, and the lock of the answer being written.
    assert {stat.S_IMODE(file.stat().st_mode) for file in files if "-owner-" not in file.name} == {0o600}


@pytest.mark.parametrize("garbage", [b"hello", b"hello " * 2000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_database_is_left_as_it_is(path: Path, garbage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(garbage)
    with pytest.raises(NotADatabase, match="move it away"):
        Store.open(path)
    assert path.read_bytes() == garbage


def test_a_damaged_database_is_told_and_that_of_another_program_is_left_as_it_is(path: Path) -> None:
    Store.open(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xaa" * (len(whole) - 4096))
    with pytest.raises(NotADatabase, match="damaged"):
        Store.open(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name)")
    before = path.read_bytes()
    with pytest.raises(NotADatabase, match="another program"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_full_disk_keeps_what_was_stored_and_is_survived(store: Store, question: Message, answer: Message) -> None:
    store.messages.checkpoint(answer.id, [1], [True], "tar")
    with store.database.read() as sql:
        (pages,) = sql.execute("PRAGMA page_count").fetchone()
        sql.execute(f"PRAGMA max_page_count = {pages}")
    long = "word " * 20_000
    with pytest.raises(StorageFull, match="free some disk space"):
        store.messages.add(answer.conversation_id, "user", long, parent_id=answer.id, status="done")
    with pytest.raises(StorageFull):
        store.messages.checkpoint(answer.id, [1, 2], [True, True], long)
    with pytest.raises(StorageFull):
        store.messages.finish(answer.id, [1, 2], [True, True], long, "done", {})
    assert said(store, answer.conversation_id) == [question.text, "tar"]

    with store.database.read() as sql:
        sql.execute(f"PRAGMA max_page_count = {pages + 1000}")
    store.messages.finish(answer.id, [1, 2], [True, True], long, "done", {})
    assert store.messages.get(answer.id).text == long


def test_a_database_that_another_program_holds(store: Store, path: Path) -> None:
    with store.database.read() as sql:
        sql.execute("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy, match="try again"):
            store.conversations.create()
        assert store.conversations.all() == []
        other.execute("ROLLBACK")
    store.conversations.create()


def test_a_write_waits_for_its_turn(store: Store, path: Path) -> None:
    tried = threading.Event()
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        store.database._sql.connection.set_trace_callback(lambda sql: tried.set() if sql == "BEGIN IMMEDIATE" else None)
        writing = pool.submit(store.conversations.create, "waited")
        assert tried.wait(30) and not writing.done()
        other.execute("COMMIT")
        conversation = writing.result(30)
    assert store.conversations.all() == [conversation]
    with store.database.read() as sql:
        assert sql.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_a_long_log_is_written_back_when_its_readers_are_gone(
    store: Store, path: Path, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, most = path.with_name(f"{path.name}-wal"), 1 << 17
    monkeypatch.setattr(database, "LOG_BYTES", most)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM conversations").fetchall()
        for _ in range(12):
            add(store, conversation.id, "word " * 5000)
        assert log.stat().st_size > most
        other.execute("ROLLBACK")
        store.conversations.rename(conversation.id, "afterwards")
        assert log.stat().st_size < most
    assert len(store.messages.of(conversation.id)) == 12
    with store.database.read() as sql:
        assert sql.execute("PRAGMA busy_timeout").fetchone() == (5000,)


def test_several_may_open_a_new_database_at_once(path: Path) -> None:
    together = threading.Barrier(6)

    def start(title: str) -> None:
        together.wait()
        with Store.open(path) as store:
            store.conversations.create(title)

    titles = list("abcdef")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(start, titles))
    with Store.open(path) as store:
        assert sorted(conversation.title for conversation in store.conversations.all()) == titles


def test_threads_take_turns(store: Store, conversation: Conversation) -> None:
    def add(number: int) -> str:
        message = store.messages.add(conversation.id, "user", str(number), parent_id=None, status="streaming")
        store.messages.checkpoint(message.id, [number], [True], f"so far {number}")
        store.messages.finish(message.id, [number], [True], f"in the end {number}", "done", {})
        return store.messages.get(message.id).text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(add, range(40))) == [f"in the end {number}" for number in range(40)]
    assert len(store.messages.of(conversation.id)) == 40


def test_a_database_in_memory_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(MEMORY) as store, Store.open(MEMORY) as other:
        conversation = store.conversations.create("secret").id
        answer = store.messages.ask(conversation, "what?", parent_id=None)
        store.messages.finish(answer.id, (1,), (True,), "that", "done", {})
        assert said(store, conversation) == ["what?", "that"]
        assert store.search.messages("that", 5) and not other.conversations.all()
        assert not list(tmp_path.iterdir())
