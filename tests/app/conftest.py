"""Fixtures of the assistant's tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config import Folders
from models.text.chat_text import ChatText
from storage import Store
from tests.support.commands import Outrider, runner
from tests.support.keyring import MemoryKeyring, NoKeyring, use_keyring
from tests.support.made_once import made_once
from tests.support.tiny_text import tiny_text


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no proxy of this machine's environment get between a client and its server."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def text() -> ChatText:
    return tiny_text()


@pytest.fixture(scope="session")
def other_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair with another tokenizer than the tiny pair."""
    from tests.support.tiny import build_pair  # torch takes seconds; most tests need none of it.

    return made_once(tmp_path_factory, "other-pair", lambda folder: build_pair(folder, seed=5, marks=True))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The place of a device's home that is not there yet."""
    return tmp_path / "home"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The place of a database that is not there yet."""
    return tmp_path / "outrider.db"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all its tables, which take 80 ms to make."""
    path = tmp_path_factory.mktemp("empty") / "outrider.db"
    Store.open(path).close()
    return path


@pytest.fixture
def store(database: Path, empty_database: Path) -> Iterator[Store]:
    shutil.copy(empty_database, database)
    with Store.open(database) as store:
        yield store


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders.locate({"OUTRIDER_HOME": str(tmp_path)})


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    """The keyring of this device."""
    ring = MemoryKeyring()
    use_keyring(monkeypatch, ring)
    return ring


@pytest.fixture
def no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without a keyring."""
    use_keyring(monkeypatch, NoKeyring())


@pytest.fixture
def outrider(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, tiny_pair: Path
) -> Outrider:
    """Runs commands in `home` with the drafter of the tiny pair."""
    return runner(monkeypatch, capsys, home, tiny_pair / "drafter")
