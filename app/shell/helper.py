"""The resident helper: it holds the loaded assistant and answers the shells of one account over a Unix socket.

It is started by the first key press, and ends after some minutes without requests. Its folder is private, and every
connection is checked to come from the same account. No request is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import resource
import signal
import socket
import struct
import sys
import time
from pathlib import Path

import msgspec

from app.config import ConfigError, Folders, load_settings
from app.exits import code_of
from app.log import open_log
from app.shell.answers import Answers, NoCommand
from app.shell.place import NoPlace, build, home, socket_path
from app.shell.requests import MOST_LINE, Answer, Refusal, Reply, Request, Stale, Status, Taken
from models.telemetry import switch_off

log = logging.getLogger("outrider.shell")


LOOK_SECONDS = 30.0
"""Longest time after which a helper notices that it can no longer be reached."""


class Helper:
    """Listens on `path` until there was no request for `idle_seconds`, or until it is stopped."""

    def __init__(self, path: str, answers: Answers, idle_seconds: float) -> None:
        self._path = path
        self._answers = answers
        self._idle_seconds = idle_seconds
        self._build = build()
        self._begun = self._asked = time.monotonic()
        self._answered = 0
        self._busy: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._socket: tuple[int, int] | None = None
        """Device and inode of our socket."""

    async def run(self, listening: socket.socket) -> None:
        """Serve on a socket that is already bound."""
        self._socket = _identity(self._path)
        server = await asyncio.start_unix_server(self._connected, sock=listening, limit=MOST_LINE)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._over.set)
        try:
            await self._until_over()
        finally:
            server.close()
            if self._is_reachable():
                os.unlink(self._path)
            for task in self._busy:
                task.cancel()
            await asyncio.gather(*self._busy, return_exceptions=True)
            await self._answers.close()

    async def _until_over(self) -> None:
        while not self._over.is_set():
            left = self._idle_seconds - (time.monotonic() - self._asked)
            if left <= 0 and not self._busy:
                log.info("exits after %.0f s without a request", time.monotonic() - self._asked)
                return
            if not self._is_reachable() and not self._busy:
                log.info("exits, because its socket is gone")
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), min(max(left, 1.0), LOOK_SECONDS))

    def _is_reachable(self) -> bool:
        """Whether our socket still exists. Systems clear such folders, and then another helper may use the path."""
        return self._socket is not None and _identity(self._path) == self._socket

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            with contextlib.closing(writer), contextlib.suppress(ConnectionError):
                if not is_ours(writer.get_extra_info("socket")):
                    log.warning("refused a connection of another account")
                    return
                await self._serve(reader, writer)
                await writer.drain()
        finally:
            self._busy.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            # Names of folders need not be UTF-8, which msgspec would demand.
            request = msgspec.convert(json.loads(line.decode("utf-8", "surrogateescape")), Request)
        except (ValueError, RecursionError, msgspec.ValidationError):  # Too long, or not a request.
            _say(writer, Refusal("The helper did not understand the request. Open a new shell."))
            return
        if request.kind == "stop":
            _say(writer, Taken())
            self._over.set()
            return
        if request.kind == "status":
            _say(writer, Taken())
            _say(writer, self._status())
            return
        if not request.plain and request.build != self._build:
            _say(writer, Stale())
            self._over.set()
            return
        self._asked = time.monotonic()
        if request.plain:
            reply = await self._answer(request)
            writer.write((reply.text if isinstance(reply, Answer) else "").replace("\n", " ").encode() + b"\n")
            return
        _say(writer, Taken())
        await writer.drain()
        answering = asyncio.create_task(self._answer(request))
        gone = asyncio.create_task(reader.read(1))  # The client sends nothing more; it closes to cancel.
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not answering.done():
            answering.cancel()
            await asyncio.wait({answering})
            return
        self._asked = time.monotonic()
        self._answered += 1
        _say(writer, answering.result())

    async def _answer(self, request: Request) -> Answer | Refusal:
        try:
            return await self._answers.answer(request)
        except NoCommand as error:
            return Refusal(str(error))
        except Exception as error:
            if code_of(error) is None:
                log.critical("a bug", exc_info=error)
                return Refusal(f"The shell helper has a bug: {type(error).__name__}. Its log: outrider log")
            return Refusal(str(error))

    def _status(self) -> Status:
        now = time.monotonic()
        return Status(
            pid=os.getpid(),
            seconds=now - self._begun,
            idle_seconds=now - self._asked,
            answered=self._answered,
            memory_bytes=memory_bytes(),
            remote=self._answers.remote,
        )


def is_ours(line: socket.socket) -> bool:
    """Whether the other end belongs to this account. Systems other than Linux rely only on the private folder."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())


def memory_bytes() -> int | None:
    """The memory that this process holds now, or its maximum if only that is known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def bound(path: str) -> socket.socket:
    """Bind a socket at `path`, replacing one that a crash left there. The caller holds the lock."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    os.chmod(path, 0o600)
    listening.listen(16)
    return listening


def locked(path: str) -> int:
    """The lock that one helper holds while it runs. Waits for an older helper that is about to end."""
    handle = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def _identity(path: str) -> tuple[int, int] | None:
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(path)
        return found.st_dev, found.st_ino
    return None


def _say(writer: asyncio.StreamWriter, message: Taken | Stale | Reply) -> None:
    writer.write(json.dumps(msgspec.to_builtins(message)).encode() + b"\n")


async def serve() -> None:
    """Run the helper of this environment. Says `ready` on stdout as soon as it listens."""
    path = socket_path()
    folders = Folders.locate()
    settings = load_settings(folders)
    open_log(folders.log, settings.log, [settings.token or ""])
    held = locked(path)
    os.chdir("/")  # The file system of any other folder could not be unmounted.
    try:
        answers = Answers(folders, home(), Path(f"{path}.d"))
        helper = Helper(path, answers, settings.shell_idle_minutes * 60)
        listening = bound(path)
        os.write(1, b"ready\n")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        await helper.run(listening)
    finally:
        os.close(held)


def main() -> None:
    """Run the helper until it has been idle for long; an expected error is one line on stderr."""
    switch_off()
    try:
        asyncio.run(serve())
    except (ConfigError, NoPlace) as error:
        print(f"outrider: {error}", file=sys.stderr)
        sys.exit(1)
