"""`outrider doctor` on set-ups that are really broken, one part at a time."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.cli import checks
from app.config import Folders
from app.remotes.registry import Remote, Remotes
from storage import Store
from tests.remote.toy_verifier import http, listening
from tests.support.chat_server import JSON, ChatServer, Script
from tests.support.commands import CommandResult, Outrider
from tests.support.model_servers import OTHER


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "offline")


@pytest.fixture
def database(home: Path) -> Path:
    """With enough in it for several pages."""
    path = home / "data" / "outrider.db"
    with Store.open(path) as store:
        conversation = store.conversations.create("old")
        for number in range(200):
            text = f"question {number} " * 20
            store.messages.add(conversation.id, "user", text, parent_id=None, status="done")
        store.memory.save(conversation.id, b"format", 0, 1, b"MEMORY" * 10000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


@pytest.fixture
def config(home: Path) -> Path:
    """The place of the settings."""
    (home / "config").mkdir(parents=True)
    return home / "config" / "config.toml"


def said(outcome: CommandResult, part: str) -> str:
    """The lines about one part."""
    return "\n".join(line for line in outcome.out.splitlines() if line.split()[1] == part)


def test_broken_settings_are_named_and_the_other_parts_are_looked_at_all_the_same(
    outrider: Outrider, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = outrider("doctor", "--json")
    assert well.code == 0 and well.json["ok"] is True
    config.write_text("mode = 'x\x1b'")
    found = outrider("doctor", "--json").json
    assert found["ok"] is False and all(set(one) == {"state", "part", "text"} for one in found["findings"])
    assert {one["part"]: one["state"] for one in found["findings"]}["settings"] == "broken"
    config.write_text("mode = ")
    found = outrider("doctor")
    assert "config.toml is not valid TOML" in said(found, "settings")
    assert not said(found, "server"), "the environment says offline, so no server is started"
    monkeypatch.setenv("OUTRIDER_MODE", "auto")
    Remotes(Folders.locate()).put("far", Remote(url="http://127.0.0.1:9", token_variable="OUTRIDER_FAR"))
    for variable in ("OUTRIDER_MODLE", "OUTRIDER_FAR", "OUTRIDER_LAST_CODE"):
        monkeypatch.setenv(variable, "s3cret")
    found = outrider("doctor", "--remote", "http://127.0.0.1:9")
    why = "OUTRIDER_MODLE has no effect; did you mean OUTRIDER_MODE?"
    assert why in (settings := said(found, "settings")) and settings.count("has no effect") == 1
    assert "s3cret" not in found.out
    assert found.code == 1 and "✗ settings" in found.out and "✓ drafter" in found.out
    assert "nothing listens at 127.0.0.1:9" in said(found, "server")


def test_a_folder_that_something_is_in_the_way_of(outrider: Outrider, home: Path) -> None:
    home.mkdir()
    (home / "logs").write_text("in the way")
    found = outrider("doctor")
    assert found.code == 0 and "! folders" in found.out and str(home / "logs") in said(found, "folders")
    shutil.rmtree(home / "data")
    (home / "data").write_text("in the way")
    found = outrider("doctor")
    assert found.code == 1 and "✗ folders" in found.out and "✗ database" in found.out
    assert "OUTRIDER_HOME" in said(found, "folders")


def test_a_disk_that_is_full(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SCARCE_BYTES", 1 << 60)
    for least, code, mark in ((0, 0, "!"), (1 << 60, 1, "✗")):
        monkeypatch.setattr(checks, "LEAST_BYTES", least)
        found = outrider("doctor")
        assert found.code == code and f"{mark} disk" in found.out and "free some space" in said(found, "disk")


def test_a_database_that_is_none_or_of_a_newer_version(outrider: Outrider, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        row = "('outrider', 'm999_telepathy', '')"
        connection.execute(f"INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES {row}")
    found = outrider("doctor")
    assert found.code == 1 and "update Outrider" in said(found, "database")
    shutil.copy(database, database.with_name("outrider.db.before-m005"))
    database.write_bytes(b"no database " * 1000)
    found = outrider("doctor")
    assert found.code == 1 and "✗ database" in found.out and "before-m005" in said(found, "database")


def test_a_database_with_a_broken_page(outrider: Outrider, database: Path) -> None:
    assert "✓ database" in outrider("doctor").out
    with closing(sqlite3.connect(database)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    # A page of a chain, which begins with the number of the next.
    page = database.read_bytes().index(b"MEMORY" * 100) // size + 3
    with database.open("r+b") as file:
        file.seek(page * size)
        file.write(b"\xff" * 4)
    Store.open(database).close()  # Opening it does not notice the damage.
    found = outrider("doctor")
    assert found.code == 1 and "✗ database" in found.out and "damaged" in said(found, "database")


def test_remotes_and_their_tokens(outrider: Outrider, config: Path) -> None:
    assert said(outrider("doctor"), "servers") == ""
    file, tokens = config.with_name("remotes.toml"), config.with_name("tokens.json")
    file.write_text('[remotes.home]\nurl = "http://localhost:1"\ntoken = "file"\n')
    tokens.write_text("{}")
    tokens.chmod(0o644)
    found = outrider("doctor")
    assert found.code == 0 and "holds no token of home" in said(found, "servers")
    assert f"chmod 600 {tokens}" in said(found, "servers")
    file.write_text("remotes = 3")
    found = outrider("doctor")
    assert found.code == 1 and "✗ servers" in found.out and "remotes.toml" in said(found, "servers")
    assert "expected a table" in said(found, "servers")


async def test_a_silent_server_has_no_tick(outrider: Outrider, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "auto")
    async with ChatServer([Script(["x"])]).listening() as port, listening(silent) as refusing:
        remotes = Remotes(Folders.locate({"OUTRIDER_HOME": str(home)}))
        for name, number in (("alive", port), ("dead", 9), ("stranger", refusing)):
            remotes.put(name, Remote(url=f"http://127.0.0.1:{number}"))
        remotes.use("alive")
        found = await asyncio.to_thread(outrider, "doctor")
    marks = {line.split()[2]: line[0] for line in said(found, "servers").splitlines()}
    assert marks == {"alive:": "✓", "dead:": "!", "stranger:": "!"}
    assert "nothing listens" in said(found, "servers")
    monkeypatch.setenv("OUTRIDER_MODE", "offline")
    assert said(await asyncio.to_thread(outrider, "doctor"), "servers").count("not asked in mode offline") == 3


async def silent(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Another program's port: it hangs up."""


def test_proxies_of_the_environment(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "ftp://me:hunter2@proxy.example:21")
    monkeypatch.setenv("NO_PROXY", "localhost,[::1],10.0.0.0/99,fe80::/10")
    found = outrider("doctor")
    assert found.code == 0 and "! proxy" in found.out and "hunter2" not in found.out
    assert "HTTPS_PROXY" in said(found, "proxy") and "'10.0.0.0/99', which cannot be read" in said(found, "proxy")
    monkeypatch.setenv("HTTPS_PROXY", "me:hunter2@proxy.example:8080")
    found = outrider("doctor", "--remote", "https://far.example")
    assert found.code == 0 and "hunter2" not in found.out
    assert "far.example is reached through http://proxy.example:8080" in said(found, "proxy")


async def test_a_clock_that_is_far_off(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        page = json.dumps(OTHER["/v1/models"]).encode()
        writer.write(http(page, content_type=JSON, extra="date: Sat, 06 Jan 2001 12:00:00 GMT\r\n"))
        await writer.drain()

    monkeypatch.setenv("OUTRIDER_MODE", "hosted")
    async with listening(serve) as port:
        found = await asyncio.to_thread(outrider, "doctor", "--remote", f"http://127.0.0.1:{port}")
    assert said(found, "clock").startswith("!") and "ahead of 127.0.0.1" in said(found, "clock")


def test_a_damaged_file_of_models_stops_no_chat_that_needs_none_and_is_never_overwritten(
    outrider: Outrider, config: Path, tiny_pair: Path
) -> None:
    config.with_name("local.toml").write_text("[models")
    asked = outrider("ask", "list files")
    assert asked.code == 0 and asked.out and asked.err.count("local.toml is not valid TOML") == 1
    assert outrider("remote", "list").code == 0
    found = outrider("doctor")
    assert found.code == 1 and "local.toml is not valid TOML" in said(found, "local")
    adding = ["local", "add", str(tiny_pair / "target")]
    for words in (["ask", "--local", "guide", "list files"], ["local", "list"], ["local", "use", "guide"], adding):
        assert outrider(*words).says(2, "local.toml is not valid TOML")
    assert config.with_name("local.toml").read_text() == "[models"
