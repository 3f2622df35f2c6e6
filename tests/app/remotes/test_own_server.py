"""The bundled server started ahead: by which settings, who takes it, and that none is left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.config import Folders, Settings
from app.remotes import own_server
from app.remotes.loopback import Loopback
from app.remotes.own_server import start_ahead
from app.remotes.registry import Remote, Remotes
from tests.app.remotes.test_loopback import lives
from tests.support.serving import REPOSITORY

ANOTHER = "http://127.0.0.1:9"
SECONDS = 30.0


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "config", tmp_path / "data", tmp_path / "logs")


@pytest.fixture
def settings(tiny_pair: Path) -> Settings:
    return Settings(target=str(tiny_pair / "target"), drafter=str(tiny_pair / "drafter"))


async def test_it_is_taken_once(settings: Settings, folders: Folders) -> None:
    start_ahead(settings, folders)
    (ahead,) = own_server._ahead.values()
    source, other = (Loopback(settings.target, settings.drafter) for _ in range(2))
    try:
        await source.client()
        assert source.process_id == ahead.process_id is not None
        await other.client()
        assert other.process_id not in (None, ahead.process_id)
    finally:
        await source.close()
        await other.close()
    assert ahead.process_id is None


async def test_it_ends_where_another_server_is_chosen_first(settings: Settings, folders: Folders) -> None:
    start_ahead(settings, folders)
    (ahead,) = own_server._ahead.values()
    await Loopback(settings.target, settings.drafter).close()
    assert ahead.process_id is None and not own_server._ahead


@pytest.mark.parametrize("changes", [{"mode": "offline"}, {"remote": ANOTHER}, {"target": "/nowhere"}])
def test_settings_that_need_none_start_none(changes: dict[str, str], settings: Settings, folders: Folders) -> None:
    start_ahead(settings.replaced(changes, "the test"), folders)
    assert not own_server._ahead


def test_a_remote_in_use_starts_none(settings: Settings, folders: Folders) -> None:
    remotes = Remotes(folders)
    remotes.put("work", Remote(url=ANOTHER))
    remotes.use("work")
    start_ahead(settings, folders)
    assert not own_server._ahead


def test_one_that_nobody_takes_ends_with_the_program(settings: Settings, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from app.config import Folders, Settings
from app.remotes import own_server
folders = Folders(*(Path({str(tmp_path)!r}) / name for name in ("config", "data", "logs")))
own_server.start_ahead(Settings(target={settings.target!r}, drafter={settings.drafter!r}), folders)
(server,) = own_server._ahead.values()
print(server.process_id)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=SECONDS
    )
    ends = time.monotonic() + SECONDS
    while lives(int(out.stdout)):
        assert time.monotonic() < ends, "it outlived the program"
        time.sleep(0.05)
    assert out.stderr == ""


def test_neither_side_waits_for_what_it_does_not_need() -> None:
    out = subprocess.run(
        [sys.executable, "-c", "import app.remotes.own_server, app.cli.own_server, sys; print(*sys.modules)"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not set(out.stdout.split()) & {"numpy", "onnxruntime", "httpx", "torch", "typer", "jinja2"}
    served = subprocess.run(
        [sys.executable, "-c", "import remote.verifier.serve, sys; print(*sys.modules)"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not set(served.stdout.split()) & {"httpx", "torch", "typer"}
