"""The process of the bundled server: started, waited for, ended.

Its stdin is a pipe from the app. It ends when the pipe closes, so no server is left behind, however the app ends. It
may be started ahead, before the app has loaded its own modules, because both take about the same time. This module
imports little for that reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import secrets
import signal
import subprocess
import tempfile
import threading
from collections import deque
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import TYPE_CHECKING

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET, ConfigError, is_address
from app.own_process import own_command, own_environment
from app.remotes.registry import Remotes
from models.cores import draft_threads, usable_cores
from models.extras import how_to_install
from models.files import graph_in, is_gguf, why_absent

if TYPE_CHECKING:
    from app.config import Folders, Settings

READY = re.compile(rb"https?://\S+")
"""The address in the line that a server prints when it is ready."""
START_SECONDS = 180.0
END_SECONDS = 2.0
"""Longest wait for it to end by itself before it is killed, and for its last output."""
ADVICE = how_to_install("server")


class NotServed(Exception):
    """The server cannot run here, or did not start; the message says why."""


class OwnServer:
    """A process that serves a model on loopback, and requires `token`, because this device may have other accounts."""

    def __init__(self, target: str, drafter: str | None) -> None:
        """Start it. `target`: a model's folder, file or name; `drafter`: a folder, or None for a model that stands in
        for others: it makes no drafts, and stands back for other programs.

        Raises `NotServed`, `OSError`.
        """
        if (reason := why_not(target)) is not None:
            raise NotServed(reason)
        self.token = secrets.token_urlsafe(32)
        self._folder = tempfile.TemporaryDirectory(prefix="outrider-")  # Private to this account.
        file = Path(self._folder.name) / "token"
        file.write_text(self.token, encoding="ascii")
        if target != str(BUNDLED_TARGET) and drafter == str(BUNDLED_DRAFTER):
            # A model that the person chose has no drafter yet: the server makes one while idle.
            command = own_command("serve", "--port", "0", "--watch-stdin", "--log-format", "off")
            command += ["--threads", str(draft_threads()), "--model", target, "--token-file", str(file)]
        else:
            threads = usable_cores() if drafter is None else draft_threads()
            command = own_command(target, drafter or "", str(file), str(threads), module="app.cli.own_server")
        pipe = subprocess.PIPE
        # In its own session: Ctrl+C stops an answer, not the server.
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=own_environment()
            )
        except OSError:
            self._folder.cleanup()
            raise
        self._said: deque[str] = deque(maxlen=20)
        """The last lines of its stderr."""
        self._first_line: Future[bytes] = Future()
        self._ended: Future[int] = Future()
        for future in (self._first_line, self._ended):
            future.set_running_or_notify_cancel()  # From here on, giving up the wait does not cancel the start.
        # Daemon threads: the app can end without them, and its end closes the pipe.
        threading.Thread(target=self._watch, name="own server", daemon=True).start()
        threading.Thread(target=self._hear, name="own server's stdout", daemon=True).start()
        self._listening = threading.Thread(target=self._listen, name="own server's stderr", daemon=True)
        self._listening.start()

    @property
    def process_id(self) -> int | None:
        return None if self._ended.done() else self._process.pid

    async def url(self) -> str:
        """Its address, as soon as it answers. Raises `NotServed`."""
        try:
            line = await asyncio.wait_for(asyncio.wrap_future(self._first_line), START_SECONDS)
        except TimeoutError:
            raise NotServed(f"the server on this device was not ready within {START_SECONDS:.0f} s") from None
        self._folder.cleanup()
        found = READY.search(line)
        if found is None:
            code = await self.end()
            await asyncio.to_thread(self._listening.join, END_SECONDS)
            reason = next((line for line in reversed(self._said) if line), f"it exited with code {code}")
            if code < 0:  # Its last words were about something else.
                reason = f"it was ended by {signal.Signals(-code).name}"
            raise NotServed(f"the server on this device did not start: {reason.removeprefix('outrider: ')}")
        return found.group().decode("ascii")

    async def end(self) -> int:
        """Wait for it to end; returns its exit code."""
        return await asyncio.wrap_future(self._ended)

    async def close(self) -> None:
        """End it, and wait until it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self.end(), END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self.end()

    def _watch(self) -> None:
        """Wait for its end, whoever else may still hold its pipes: a program that it has started, for example."""
        code = self._process.wait()
        self._folder.cleanup()  # Here, because whoever closes it may not wait for its end.
        self._ended.set_result(code)
        with contextlib.suppress(InvalidStateError):
            self._first_line.set_result(b"")

    def _hear(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            line = lines.readline()
            with contextlib.suppress(InvalidStateError):
                self._first_line.set_result(line)
            self._process.wait()

    def _listen(self) -> None:
        """Keep the last lines of its stderr, and empty the pipe."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._said.append(line.decode("utf-8", "replace").strip())


def why_not(target: str) -> str | None:
    """Why this model cannot be served on this device, and what to do, or None if it can."""
    if is_gguf(target):
        runtime, package, advice = "llama.cpp", "llama_cpp", how_to_install("gguf")
    else:
        runtime, package, advice = "PyTorch", "torch", ADVICE
    if graph_in(target) is None and importlib.util.find_spec(package) is None:
        return f"the model on this device needs {runtime}: {advice}; until then the small model answers alone"
    if Path(target).is_absolute() and (why := why_absent(Path(target))) is not None:
        return f"there is no model in {target}, which is {why}; check the setting 'target', or reinstall"
    return None


_ahead: dict[tuple[str, str], OwnServer] = {}
"""Servers that were started ahead and are not in use yet, by target and drafter. Unused ones end with the app."""


def belong_together(target: str, drafter: str | None) -> bool:
    """Whether these are the bundled pair, or both were replaced. If only one was, they may not fit."""
    return (target == str(BUNDLED_TARGET)) == (drafter == str(BUNDLED_DRAFTER))


def needs_no_network(target: str, drafter: str | None) -> bool:
    """Whether a server for these may start in mode offline: they belong together, and the model is on this device."""
    return belong_together(target, drafter) and Path(target).exists()


def start_ahead(settings: Settings, folders: Folders) -> None:
    """Start the bundled server now if the settings mean it. Errors are reported where it is used."""
    pair = settings.target, settings.drafter
    alone = settings.mode == "offline" and not needs_no_network(*pair)
    if alone or (settings.remote and is_address(settings.remote)):
        return
    with contextlib.suppress(ConfigError, NotServed, OSError):
        if Remotes(folders).meant_by(settings.remote) is None:
            _ahead[pair] = OwnServer(*pair)


def started(target: str, drafter: str) -> OwnServer:
    """The server for this pair that was started ahead, or else a new one. Raises `NotServed`, `OSError`."""
    return started_ahead(target, drafter) or OwnServer(target, drafter)


def started_ahead(target: str, drafter: str) -> OwnServer | None:
    """The server for this pair that was started ahead, only for the first caller, or None if there is none."""
    return _ahead.pop((target, drafter), None)
