"""Unreadable settings and folders give a sentence with a path and advice, never a traceback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config import ConfigError, Folders, load_settings
from storage import Store
from tests.support.commands import Outrider
from tests.support.permissions import as_somebody

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")


@pytest.fixture
def home() -> Iterator[Path]:
    with as_somebody():
        home = Path(tempfile.mkdtemp(prefix="outrider-unreadable-"))
        for name in ("config", "data", "logs"):
            (home / name).mkdir()
        (home / "config" / "config.toml").write_text("seed = 3\n")
        (home / "config" / "remotes.toml").write_text("")
    yield home
    for place in (home, *home.iterdir()):
        place.chmod(0o700)
    shutil.rmtree(home)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_MODE", "offline")


@pytest.mark.parametrize("closed", ["config", "config/config.toml"])
def test_settings(home: Path, closed: str) -> None:
    (home / closed).chmod(0o000)
    folders = Folders.locate({"OUTRIDER_HOME": str(home)})
    with as_somebody(), pytest.raises(ConfigError, match=r"config\.toml cannot be read: Permission denied"):
        load_settings(folders, {})


@pytest.mark.parametrize("closed", ["config", "data", "logs", ""])
@pytest.mark.parametrize(
    "command", [["history"], ["doctor"], ["history", "search", "tar"], ["queue"], ["remote"], ["log"], ["keys"]]
)
def test_every_command_ends_in_a_sentence(outrider: Outrider, home: Path, closed: str, command: list[str]) -> None:
    outrider(*command)  # Its imports may be readable only by root.
    for made in home.rglob("*"):
        os.chown(made, home.stat().st_uid, home.stat().st_gid)
    (home / closed).chmod(0o000)
    with as_somebody():
        ended = outrider(*command)
    assert ended.code in (0, 1, 2) and "Traceback" not in ended.err
    assert ended.code == 0 or str(home / closed) in ended.out + ended.err


@pytest.mark.parametrize(
    "command", [["history"], ["history", "show"], ["history", "search", "tarball"], ["export", "--all"], ["queue"]]
)
def test_commands_that_read_need_nothing_to_be_written(outrider: Outrider, home: Path, command: list[str]) -> None:
    database = home / "data" / "outrider.db"
    with Store.open(database) as store:
        conversation = store.conversations.create("Unpack a tarball").id
        store.messages.add(conversation, "user", "unpack a tarball", parent_id=None, status="done")
        store.queue.add(conversation, "and the next tarball")
    outrider(*command)  # Its imports may be readable only by root.
    for made in home.rglob("*"):
        os.chown(made, home.stat().st_uid, home.stat().st_gid)
    for closed in (database, database.parent, home):
        closed.chmod(0o500 if closed.is_dir() else 0o400)
    with as_somebody():
        ended = outrider(*command)
    assert ended.code == 0 and "tarball" in ended.out
