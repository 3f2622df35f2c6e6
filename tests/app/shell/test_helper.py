"""The resident helper, as a real process: it starts on demand, survives crashes, and keeps nothing."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.config import Folders
from app.local.registry import LocalModels
from app.shell import place
from app.shell.connection import NoHelper, ask, connect, request
from app.shell.helper import is_ours
from app.shell.place import NoPlace, socket_path
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.reciting import COMMAND, chosen
from tests.support.shells import environment_of, served

WORDS = "unpack a tar.gz file"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory, reciting: Path) -> Iterator[Path]:
    """The variables of a person who has no server; yields the home. The tests share a helper where they can."""
    home, runtime = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("OUTRIDER_")]:
            patch.delenv(name)
        for name, value in environment_of(home, runtime, OUTRIDER_MODE="offline", **chosen(reciting)).items():
            patch.setenv(name, value)
        yield home
        stop()


def reply_to(kind: str, text: str, **fields: object) -> dict[str, Any]:
    conversation = ask(request(kind, text, **fields))
    try:
        reply = conversation.reply(PATIENCE_SECONDS)
        assert reply is not None
        return reply
    finally:
        conversation.close()


def ended() -> None:
    with open(f"{socket_path()}.lock", "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def stop() -> None:
    line = connect(socket_path())
    if line is not None:
        line.send(request("stop", ""))
        line.ended()
        line.close()
        ended()


def test_it_answers_from_the_device_is_replaced_if_it_crashed_or_is_of_another_version_and_ends_when_nobody_asks(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connect(socket_path()) is None
    reply = reply_to("command", WORDS, shell="bash")
    assert reply["text"] == COMMAND and "not checked" not in reply["note"]
    first = reply_to("status", "")
    assert first["answered"] == 1
    scratch = Path(f"{socket_path()}.d")
    assert scratch.exists() and not (person / "data").exists()
    os.kill(first["pid"], signal.SIGKILL)
    ended()
    assert Path(socket_path()).exists()
    with ThreadPoolExecutor(4) as shells:  # They share one.
        replies = list(shells.map(lambda number: reply_to("command", f"{WORDS} {number}"), range(4)))
    assert all("text" in reply for reply in replies)
    second = reply_to("status", "")
    assert second["answered"] == 4 and second["pid"] != first["pid"]
    monkeypatch.setenv("OUTRIDER_SHELL_IDLE_MINUTES", "0.001")
    line = connect(socket_path())
    assert line is not None
    line.send({**request("command", WORDS), "build": "another"})
    assert line.reply(PATIENCE_SECONDS) == {"stale": True}
    line.ended()
    line.close()
    assert reply_to("command", WORDS)["text"] == COMMAND
    ended()
    assert connect(socket_path()) is None and not scratch.exists()
    assert WORDS not in (person / "logs" / "outrider.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the end of another process is waited for as Linux does")
def test_one_whose_socket_was_cleared_away_leaves_the_next_one_alone(person: Path) -> None:
    first = reply_to("status", "")["pid"]
    for path in Path(place.folder()).iterdir():
        path.unlink()
    second = reply_to("status", "")["pid"]
    assert second != first
    exited = os.pidfd_open(first)
    os.kill(first, signal.SIGTERM)
    select.select([exited], [], [], PATIENCE_SECONDS)
    os.close(exited)
    assert reply_to("status", "")["pid"] == second


def test_it_obeys_the_settings_of_the_shell_that_asks_and_ghost_text_never_goes_to_a_server(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ChatServer([Script(["```sh\nuptime\n```"])])
    with served(server) as url:
        monkeypatch.setenv("OUTRIDER_MODE", "auto")
        monkeypatch.setenv("OUTRIDER_REMOTE", url)
        assert reply_to("ghost", "please unpack photos.tar.gz")["text"] == "tar xzf photos.tar.gz"
        assert reply_to("ghost", "which meal shall we cook on friday")["text"] == ""
        assert reply_to("status", "")["remote"] == "" and server.asked == []
        assert reply_to("command", WORDS)["text"] == "uptime"
        monkeypatch.setenv("OUTRIDER_MODE", "offline")
        assert "no other model answers in its place" in reply_to("command", WORDS)["error"]
        monkeypatch.setenv("OUTRIDER_REMOTE", "bundled")
        assert reply_to("command", WORDS)["text"] == COMMAND
        assert len(server.asked) == 1, "what is asked offline goes nowhere"
        monkeypatch.delenv("OUTRIDER_TARGET")  # A drafter that replaced the bundled one answers alone.
        assert "not checked" in reply_to("command", WORDS)["note"]
        assert WORDS in server.asked[0]["messages"][-1]["content"]


def test_what_is_no_request_or_comes_from_another_home_is_refused(person: Path) -> None:
    assert "OUTRIDER_HOME has changed" in reply_to("command", WORDS, home="/elsewhere")["error"]
    for bad in (b"hello\n", b'{"kind": "command", "text": 3}\n', b'{"kind": "run"}\n', b"x" * (2 << 20)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(socket_path())
            try:
                line.sendall(bad)
                said = line.recv(1 << 16)
            except ConnectionError:
                said = b"error"
            assert b"error" in said
    assert reply_to("command", WORDS)["text"] == COMMAND, "and it goes on"


def test_only_this_account_is_answered() -> None:
    ours, ends = socket.socketpair(socket.AF_UNIX)
    assert is_ours(ours)
    ours.close()
    ends.close()
    if os.getuid() != 0 or not hasattr(socket, "SO_PEERCRED"):
        pytest.skip("another account can only be tried as root, on Linux")
    name = f"\0outrider-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(name)
        listening.listen()

        def connect_as_nobody() -> None:
            os.setuid(65534)
            socket.socket(socket.AF_UNIX).connect(name)

        subprocess.run(["/bin/true"], preexec_fn=connect_as_nobody, check=True)
        line, _ = listening.accept()
        assert not is_ours(line)
        line.close()


def test_the_client_loads_next_to_nothing() -> None:
    """It is run as the scripts run it: without the packages of the installation."""
    program = f"import sys; sys.path.insert(0, {place.ROOT!r}); import app.shell.client; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    modules = set(ran.stdout.split())
    ours = {name for name in modules if name.startswith("app")}
    assert ours == {"app", "app.shell", "app.shell.client", "app.shell.connection", "app.shell.place"}
    assert not modules & {"asyncio", "msgspec", "subprocess", "dataclasses", "logging", "inspect"}


def test_an_explanation_needs_no_server_and_a_model_on_this_device_stands_in_and_is_named(
    person: Path, reciting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LocalModels(Folders.locate()).add("guide", reciting / "target")
    with served(ChatServer([], away=True)) as url:
        monkeypatch.setenv("OUTRIDER_MODE", "auto")
        monkeypatch.setenv("OUTRIDER_REMOTE", url)
        alone = reply_to("explain", "tar xzf a.tgz")
        assert "broke" in reply_to("explain", "x=1")["error"] and "broke" in reply_to("command", WORDS)["error"]
        monkeypatch.setenv("OUTRIDER_OFFLINE", "local")
        helped, command = reply_to("explain", "tar xzf a.tgz"), reply_to("command", WORDS)
    assert "tar -x: extracts" in alone.get("text", "") and "broke" in alone["note"], alone
    assert "Your model:" in helped["text"] and helped["note"] == "from guide on this device, not checked"
    assert "from guide on this device, not checked" in command.get("note", "") and command["text"] == COMMAND, command


@pytest.mark.skipif(sys.platform == "darwin", reason="every file name is UTF-8 there")
def test_names_need_not_be_utf8(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.fsencode(person) + b"/\xe9t\xe9"
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{os.getcwd()}")
    Path("notes.txt").touch()
    Path(os.fsdecode(b"\xe9t\xe9.txt")).touch()
    assert reply_to("command", WORDS)["text"] == COMMAND
    assert reply_to("fix", "cat note.txt", status=1)["text"] == "cat notes.txt"
    asked = reply_to("fix", "cat ete.txt", status=1)
    assert asked["text"] == COMMAND, "that name cannot be sent as text, so the model is asked"


def test_it_is_stopped_and_a_bad_setting_is_told_where_the_key_was_pressed(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "pid" in reply_to("status", "")
    path, scratch = Path(socket_path()), Path(f"{socket_path()}.d")
    assert path.exists() and scratch.exists()
    stop()
    assert not path.exists() and not scratch.exists()
    monkeypatch.setenv("OUTRIDER_MODE", "sometimes")
    with pytest.raises(NoHelper, match="OUTRIDER_MODE"):
        reply_to("command", WORDS)


def test_a_folder_that_others_can_open_is_not_used(person: Path) -> None:
    stop()
    folder = Path(place.folder())
    folder.chmod(0o755)
    with pytest.raises(NoPlace, match="not a private folder"):
        socket_path()
    shutil.rmtree(folder)
    folder.symlink_to(person)
    with pytest.raises(NoPlace, match="not a private folder"):
        socket_path()
    folder.unlink()
