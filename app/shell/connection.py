"""Asks the shell helper over its socket, and starts one if none runs. Uses little, and only of the standard library.

A request is one line of JSON, and so is each reply (`app/shell/requests.py`). A connection carries one request; closing
it cancels the request.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from typing import Any

from app.shell.place import ROOT, build, home, settings_environment, socket_path

SIGN_SECONDS = 10.0
"""Longest wait for a helper's first reply, which it sends at once unless it hangs."""
START_SECONDS = 60.0
"""Longest wait for a helper to listen. It loads no model before it listens."""
MOST_STARTS = 3
"""Tries to reach a helper that ends or is replaced at the same moment."""
HELPER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from app.shell.helper import main; main()"


class NoHelper(Exception):
    """The helper cannot be reached; the message says why and what to do."""


class Conversation:
    """A request in progress: wait for its reply with `reply`, or `close` it to cancel."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._read = b""

    def send(self, request: dict[str, Any]) -> None:
        self._line.sendall(json.dumps(request).encode("ascii") + b"\n")

    def reply(self, seconds: float | None) -> dict[str, Any] | None:
        """The next reply, or None on timeout. Raises `ConnectionError` if the helper is gone."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._read:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and (left <= 0 or not select.select([self._line], [], [], left)[0]):
                return None
            data = self._line.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the helper has exited")
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def ended(self) -> None:
        """Wait until the helper has closed the connection, at most as long as it may take to start."""
        deadline = time.monotonic() + START_SECONDS
        try:
            while (left := deadline - time.monotonic()) > 0:
                if not select.select([self._line], [], [], left)[0] or not self._line.recv(1 << 16):
                    return
        except ConnectionError:
            pass

    def close(self) -> None:
        self._line.close()


def request(kind: str, text: str, **fields: object) -> dict[str, Any]:
    """A request with this shell's context: folder, home, programs and settings."""
    try:
        cwd = os.getcwd()
    except FileNotFoundError:  # Somebody removed it.
        cwd = ""
    about = {"cwd": cwd, "home": home(), "build": build(), "path": os.environ.get("PATH", "")}
    return {"kind": kind, "text": text, **about, "environment": settings_environment(), **fields}


def ask(wanted: dict[str, Any]) -> Conversation:
    """Send a request to the helper, which is started if none runs. Raises `NoHelper`, `NoPlace`."""
    path = socket_path()
    for _ in range(MOST_STARTS):
        conversation = connect(path) or _started(path)
        try:
            conversation.send(wanted)
            sign = conversation.reply(SIGN_SECONDS)
        except ConnectionError:  # It was about to end.
            conversation.close()
            continue
        if sign is None:
            conversation.close()
            raise NoHelper("The shell helper does not answer. To end it: outrider shell --stop")
        if "error" in sign:
            conversation.close()
            raise NoHelper(str(sign["error"]))
        if not sign.get("stale"):
            return conversation
        conversation.ended()
        conversation.close()
    raise NoHelper("The shell helper exits as soon as it is started. Its log: outrider log")


def connect(path: str) -> Conversation | None:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):  # Never started, or it crashed and left its socket.
        line.close()
        return None
    except OSError as error:
        line.close()
        raise NoHelper(f"The socket {path} cannot be used: {error.strerror}.") from None
    return Conversation(line)


def _started(path: str) -> Conversation:
    """Start a helper, and connect to it. Shells that need one at the same time take turns."""
    import fcntl

    turn = os.open(path + ".turn", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if (conversation := connect(path)) is not None:
            return conversation
        said = _start()
        if (conversation := connect(path)) is not None:
            return conversation
        raise NoHelper(said or "The shell helper did not start. Its log: outrider log")
    finally:
        os.close(turn)


def _start() -> str:
    """Start a helper and wait until it listens; returns its error message if it ended instead."""
    ours, its = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    command = [sys.executable, "-P", "-c", HELPER, ROOT, "helper"]
    # The pipe is its stdout: it prints one line when it listens. Error messages come the same way.
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, its, 1), (os.POSIX_SPAWN_DUP2, its, 2)]
    try:
        os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setsid=True)
    except (OSError, NotImplementedError) as error:
        os.close(ours)
        raise NoHelper(f"The shell helper cannot be started: {error}.") from None
    finally:
        os.close(its)
        os.close(null)
    try:
        return _first_words(ours)
    finally:
        os.close(ours)


def _first_words(pipe: int) -> str:
    said = b""
    deadline = time.monotonic() + START_SECONDS
    while (left := deadline - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
        data = os.read(pipe, 4096)
        said += data
        if not data or b"ready\n" in said:
            break
    lines = said.decode("utf-8", "replace").split("\n")
    return next((line.removeprefix("outrider: ") for line in reversed(lines) if line.strip()), "")
