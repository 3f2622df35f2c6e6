"""Unreadable settings and folders give a sentence with a path and advice, never a traceback."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Store
from tests.support.commands import CommandResult, Outrider
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


def run_all(
    outrider: Outrider, home: Path, commands: list[list[str]], *times: tuple[Path, ...], mode: int
) -> Iterator[list[CommandResult]]:
    """What these commands end with for somebody who, each time, may do no more with these folders and files."""
    for command in commands:
        outrider(*command)  # Its imports may be readable only by root.
    for made in home.rglob("*"):
        os.chown(made, home.stat().st_uid, home.stat().st_gid)
    for closed in times:
        for path in closed:
            path.chmod(mode)
        with as_somebody():
            ended = [outrider(*command) for command in commands]
        for path in closed:
            path.chmod(0o700)
        yield ended


def test_every_command_ends_in_a_sentence(outrider: Outrider, home: Path) -> None:
    # Without its settings, the doctor would ask the bundled server, which nobody can start.
    commands = [["keys"], ["history"], ["doctor", "--remote", "http://127.0.0.1:9"], ["remote"], ["log"]]
    places = [home / "config", home / "data", home / "logs", home]
    for closed, every in zip(places, run_all(outrider, home, commands, *((place,) for place in places), mode=0)):
        for command, ended in zip(commands, every):
            assert ended.code in (0, 1, 2) and "Traceback" not in ended.err, command
            assert ended.code == 0 or str(closed) in ended.out + ended.err, command
            if command == ["keys"] and closed.name == "config":
                assert ended.code == 2 and "config.toml cannot be read: Permission denied" in ended.err


def test_commands_that_read_need_nothing_to_be_written(outrider: Outrider, home: Path) -> None:
    database = home / "data" / "outrider.db"
    with Store.open(database) as store:
        conversation = store.conversations.create("Unpack a tarball").id
        store.messages.add(conversation, "user", "unpack a tarball", parent_id=None, status="done")
        store.queue.add(conversation, "and the next tarball")
    commands = [["history"], ["history", "show"], ["history", "search", "tarball"], ["export", "--all"], ["queue"]]
    (every,) = run_all(outrider, home, commands, (database, home / "data", home), mode=0o500)
    for command, ended in zip(commands, every):
        assert ended.code == 0 and "tarball" in ended.out, command
