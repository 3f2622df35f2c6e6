"""Databases of earlier versions, kept as dumps in `old/`, open without any loss."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from storage import NewerDatabase, StorageError, Store
from storage.migrations import MIGRATIONS
from storage.sqlite import Sqlite
from tests.storage.stored import assert_sound, found, said
from tests.support.serving import REPOSITORY

OLD = Path(__file__).parent / "old"
DUMPS = sorted(path.stem for path in OLD.glob("*.sql"))
SHADOWS = "name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"

Rows = dict[str, list[tuple[object, ...]]]


def load(dump: str, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((OLD / f"{dump}.sql").read_text("utf-8"))
    return path


def schema(path: Path) -> set[tuple[str, str]]:
    """The name and definition of everything in the database."""
    with closing(sqlite3.connect(path)) as connection:
        return set(connection.execute(f"SELECT name, sql FROM sqlite_master WHERE {SHADOWS}"))


def contents(path: Path, columns: dict[str, str] | None = None) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        tables = f"SELECT name FROM sqlite_master WHERE type = 'table' AND {SHADOWS} AND sql NOT LIKE 'CREATE VIRTUAL%'"
        columns = columns or dict.fromkeys((name for (name,) in connection.execute(tables)), "*")
        return {name: connection.execute(f"SELECT {of} FROM {name}").fetchall() for name, of in columns.items()}


def without_relations(message: tuple[object, ...]) -> tuple[object, ...]:
    """An old row of messages without the relations, which are columns now."""
    stats = json.loads(str(message[9]))
    if not stats.keys() & {"verifies", "resumes"}:
        return message
    kept = {name: value for name, value in stats.items() if name not in ("verifies", "resumes")}
    return (*message[:9], json.dumps(kept, separators=(",", ":")), *message[10:])


def backup_of(path: Path, before: Rows) -> Path:
    """Where the backup is of a database that had these rows."""
    return path.with_name(f"{path.name}.before-{MIGRATIONS.known[len(before['_sqlite_migrations'])]}")


def columns_of(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: ", ".join(row[1] for row in connection.execute(f"PRAGMA table_info({name})"))
            for name in contents(path)
            if name != "_sqlite_migrations"
        }


def test_a_migration_that_has_shipped_never_changes(path: Path, tmp_path: Path) -> None:
    assert [f"m{number:03}" for number in range(1, len(MIGRATIONS.known))] == DUMPS
    again = tmp_path / "again.db"
    for dump, following in zip(DUMPS, MIGRATIONS.known[1:], strict=True):
        with closing(sqlite3.connect(again, isolation_level=None)) as connection:
            MIGRATIONS.apply(Sqlite(connection), stop_before=following)
        assert schema(load(dump, path.with_name(dump))) == schema(again), dump


@pytest.mark.parametrize("dump", DUMPS)
def test_everything_is_there_afterwards(dump: str, path: Path, tmp_path: Path) -> None:
    old = load(dump, path)
    columns, before = columns_of(old), contents(old)
    untouched = shutil.copy(old, tmp_path / "untouched.db")
    with Store.open(old) as store:
        assert_sound(store)
        threads = {one.title: said(store, one.id) for one in store.conversations.all()}
        assert threads["how do I unpack a tarball?"] == [
            "how do I unpack a tarball?",
            "Use `tar`:\n\n```sh\ntar -xzf archive.tar.gz\n```\n",
            "and \"quoted\" 'words'; -- too?",
            "",
        ]
        assert threads["Ünïcode title – with dashes"] == ["list files", "ls -la shows hidden ones, too"]
        assert threads["cut off"] == ["count to three", "one two"] and threads["renamed"] == []
        (cut,) = (store.branches.thread(one.id)[1] for one in store.conversations.all() if one.title == "cut off")
        assert (cut.status, cut.tokens, cut.provenance) == ("stopped", (1, 2), (True, False))
        assert not any(one.pinned for one in store.conversations.all()) and store.bin.conversations() == []
        assert set(found(store, "naive cafe")) == {"bsdtar xf naïve_café_🦀.tar"}
        assert found(store, "one two") == ["one two"]
        (dashes,) = store.search.conversations("unicode dash")
        assert dashes.conversation.title == "Ünïcode title – with dashes"
        tarballs = store.search.conversations("tarball")[0].conversation
        assert sorted(store.branches.versions(tarballs.id).values()) == [(1, 2)]
        if "queue" in before:
            assert [(one.kind, one.text) for one in store.queue.all()] == [
                ("ask", "and a zip?"),
                ("verify", "list files"),
                ("ask", "what is my address?"),
                ("ask", "after the cut"),
            ]
        if "memories" in before:
            kept = store.memory.load(tarballs.id, b"\x01" * 16)
            assert kept == [(0, 3, bytes(range(40))), (3, 2, bytes(range(20)))]
        if "attachments" in before:
            asked, answer = store.branches.thread(tarballs.id)[:2]
            assert answer.reasoning == "The person wants tar."
            assert [(one.name, one.data) for one in asked.attachments] == [("naïve café.png", b"\x89PNG\r\n\x1a\n")]
        if "replays" in before:
            (replay,) = store.replays.all(b"\x01" * 16, 10)
            assert (replay.prompt, replay.rounds, replay.distributions) == (5, ((5, 0),), b"")
        if "calls" in before:
            assert [(one.tool, one.state, one.result) for one in store.branches.thread(tarballs.id)[1].calls] == [
                ("read", "done", "naïve")
            ]
        if before["messages"][10:]:
            related = {message.id: message for message in store.messages.of(tarballs.id)}
            related |= {message.id: message for message in store.messages.of(before["messages"][10][2])}
            verifies, resumes = before["messages"][10][1], before["messages"][11][1]
            assert related[verifies].verifies == before["messages"][6][1] and related[verifies].resumes is None
            assert related[resumes].resumes == before["messages"][2][1] and related[resumes].verifies is None
            assert store.branches.versions(before["messages"][10][2]) == {}
        store.bin.delete(tarballs.id)
        store.bin.restore(tarballs.id)
        store.conversations.pin(tarballs.id, True)
        assert store.conversations.all()[0].title == tarballs.title
    Store.open(tmp_path / "new.db").close()
    assert schema(old) == schema(tmp_path / "new.db")

    # Every row is as before, except what was recovered.
    after = contents(old, columns)
    before["messages"] = [without_relations(row) for row in before["messages"]]
    unfinished = {row[1] for row in before["messages"] if row[10] is not None}
    assert [row[1] for row in after["messages"]] == [row[1] for row in before["messages"]]
    settled = [[row for row in rows["messages"] if row[1] not in unfinished] for rows in (before, after)]
    assert settled[0] == settled[1]
    assert after["partials"] == [] and len(before["partials"]) == 1
    for table in set(after) & {"memory_chunks", "queue"}:
        assert after[table] == before[table]
    assert contents(Path(untouched)) == contents(backup_of(old, before))


def test_the_backup_holds_what_is_in_the_log_only(path: Path, tmp_path: Path) -> None:
    old = load("m004", path)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE conversations SET title = 'only in the log' WHERE title = 'renamed'")
        connection.commit()
        assert b"only in the log" not in old.read_bytes()
        before = contents(old)  # As after a crash: the log is there, and nobody has it open.
        for suffix in ("", "-wal"):
            shutil.copy(f"{old}{suffix}", tmp_path / f"left.db{suffix}")
    left = tmp_path / "left.db"
    with Store.open(left) as store:
        assert "only in the log" in [one.title for one in store.conversations.all()]
    assert contents(backup_of(left, before)) == before


def test_the_backup_of_a_migration_that_was_cut_off_is_made_again(path: Path) -> None:
    before = contents(load("m002", path))
    unfinished = path.with_name("outrider.db.before-m003_memory.part")
    unfinished.write_bytes(b"half a database")
    Store.open(path).close()
    assert not unfinished.exists() and contents(backup_of(path, before)) == before


@pytest.mark.parametrize(
    ("dump", "table", "column"), [("m001", "messages", "resumes"), ("m005", "conversations", "words")]
)
def test_a_migration_that_fails_leaves_it_as_it_was(path: Path, dump: str, table: str, column: str) -> None:
    """The failure is a column that exists already, for a later migration or for the first one."""
    old = load(dump, path)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    before, tables = contents(old), schema(old)
    for _ in range(2):
        with pytest.raises(StorageError, match="duplicate column"):
            Store.open(old)
        assert (contents(old), schema(old)) == (before, tables)
        backup = backup_of(old, before)
        assert (contents(backup), schema(backup)) == (before, tables)
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    with Store.open(old) as store:
        assert len(store.conversations.all()) == len(before["conversations"])


def test_a_database_of_a_newer_version_is_refused(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('outrider', 'm999_telepathy', '')"
        )
    with pytest.raises(NewerDatabase, match="m999_telepathy.*update Outrider"):
        Store.open(path)


def test_words_without_spaces_are_found_from_then_on(path: Path) -> None:
    with closing(sqlite3.connect(load("m005", path))) as connection, connection:
        connection.execute("INSERT INTO conversations (id, title, created, updated) VALUES ('c', '明天去公园', '', '')")
        for key, text, deleted in (("m", "今天天气怎么样", None), ("n", "今天天气很好", "2999"), ("o", "no 天", None)):
            connection.execute(
                "INSERT INTO messages (id, conversation_id, role, text, status, created, deleted)"
                " VALUES (?, 'c', 'user', ?, 'done', '', ?)",
                (key, text, deleted),
            )
    with Store.open(path) as store:
        assert_sound(store)
        assert found(store, "天气") == ["今天天气怎么样"]
        assert found(store, "天") == ["no 天", "今天天气怎么样"]
        assert [hit.snippet for hit in store.search.conversations("公园")] == ["明天去公园"]
        store.bin.restore_message("n")
        assert set(found(store, "天气")) == {"今天天气怎么样", "今天天气很好"}
        store.bin.delete_message("m")
        store.conversations.rename("c", "后天")
        assert store.search.conversations("公园") == []
        assert found(store, "天气") == ["今天天气很好"]
        assert_sound(store)


@pytest.fixture
def large(path: Path) -> Path:
    """An old database whose migration takes a while."""
    load("m004", path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany(
            "INSERT INTO messages (id, conversation_id, role, text, status, created)"
            " SELECT ?, id, 'user', ?, 'done', '' FROM conversations WHERE title = 'renamed'",
            ((f"{number:016x}", f"text number {number} " * 40) for number in range(5000)),
        )
        connection.commit()
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="sizes of files are not limited")
def test_where_there_is_no_room_for_a_copy_none_of_it_is_taken(large: Path) -> None:
    import resource

    before, limits = contents(large), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (large.stat().st_size // 2, limits[1]))
    try:
        with pytest.raises(StorageError):
            Store.open(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(large) == before
    assert [file.name for file in large.parent.iterdir()] == [large.name]


def test_several_windows_that_start_at_once_bring_it_up_to_date_once(large: Path) -> None:
    before = contents(large)
    opens = f"with Store.open(Path({str(large)!r})) as store: store.conversations.create('by a window')"
    command = [sys.executable, "-c", f"from pathlib import Path; from storage import Store\n{opens}"]
    windows = [subprocess.Popen(command, cwd=REPOSITORY) for _ in range(3)]
    assert [window.wait() for window in windows] == [0, 0, 0]
    assert contents(backup_of(large, before)) == before, "the backup is the old one"
    with Store.open(large) as store:
        assert_sound(store)
        assert [one.title for one in store.conversations.recent(3)] == ["by a window"] * 3
        assert len(contents(large)["messages"]) == len(before["messages"])
    assert len(contents(large)["_sqlite_migrations"]) == len(MIGRATIONS.known)


def test_a_kill_in_the_middle_of_a_migration_loses_nothing(large: Path) -> None:
    """The kill comes before, in or after the migration; the database is then as it was, or as it should be."""
    before = contents(large)
    opens = f"from pathlib import Path; from storage import Store; Store.open(Path({str(large)!r}))"
    backup = backup_of(large, before)
    for _ in range(3):
        if len(contents(large)["_sqlite_migrations"]) == len(MIGRATIONS.known):
            break
        with subprocess.Popen([sys.executable, "-c", opens], cwd=REPOSITORY) as process:
            while not backup.exists() and process.poll() is None:  # The backup exists: the tables change next.
                time.sleep(0.001)
            process.kill()
        backup.unlink(missing_ok=True)
    with Store.open(large) as store:
        assert_sound(store)
        renamed = next(one.id for one in store.conversations.all() if one.title == "renamed")
        assert len(store.messages.of(renamed)) == 5000 and len(store.search.messages("number 4321", limit=9)) == 1
    assert len(contents(large)["messages"]) == len(before["messages"])
