"""A server that runs as a child process and speaks MCP over its pipes: a transport of the SDK.

The SDK's own transport reads lines of any length, passes on more of the environment, and does not tell how a process
ended. Here lines are bounded, the environment is exact, and the end is known. It runs in its own process group.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

MOST_LINE = 16 << 20
"""Longest message of a server, in bytes."""
GRACE_SECONDS = 2.0
"""Time for a process to end after its input was closed, and again after SIGTERM."""
KEPT_LINES = 5
"""Last lines of its stderr that an error shows."""
MOST_CHARACTERS = 300
"""Longest such line."""

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Child(Transport):
    """Starts the command when it is entered, and ends it and its descendants when it is left. Entered once.

    `heard` gets each line of its stderr. Entering raises `OSError` if the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str | None,
        heard: Callable[[str], None],
    ) -> None:
        self._command, self._environment, self._folder, self._heard = command, environment, folder, heard
        self.ended = False
        """Whether it closed its output, which most do when they end."""
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.stray: str | None = None
        """The first line of its output that was no message of MCP."""
        self.too_long = False
        """Whether it was given up because of a message over `MOST_LINE`."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def exit_code(self) -> int | None:
        """The code that it ended with, a signal as a negative number, or None if it runs or never started."""
        return self._process.returncode if hasattr(self, "_process") else None

    async def __aenter__(self) -> Streams:
        pipe = asyncio.subprocess.PIPE
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=self._environment,
                cwd=self._folder,
                limit=MOST_LINE,
                start_new_session=True,
            )
        )
        try:
            self._process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # asyncio itself would wait here for all descendants to end.
            self._process = await starting
            self._signal(signal.SIGKILL)
            self._close_pipes()
            raise
        self._in, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, self._out = anyio.create_memory_object_stream[SessionMessage](0)
        self._tasks = [asyncio.create_task(work) for work in (self._receive(), self._send(), self._listen())]
        return read, write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        try:
            self._out.close()
            if self._process.stdin is not None:
                self._process.stdin.close()
            if not await self._gone():
                self._signal(signal.SIGTERM)
                await self._gone()
        finally:
            self._signal(signal.SIGKILL)  # Also its descendants, if any are left.
            for task in self._tasks:
                task.cancel()
            self._in.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with suppress(TimeoutError):  # Its code; a descendant that left the group may hold its pipes for ever.
                await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
            self._close_pipes()

    async def _receive(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    if self.stray is None and line.strip():
                        self.stray = line.decode(errors="replace").strip()[:MOST_CHARACTERS]
                    continue
                await self._in.send(SessionMessage(message))
        except ValueError:
            self.too_long = True
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            pass
        finally:
            self.ended = True
            self._in.close()

    async def _send(self) -> None:
        assert self._process.stdin is not None
        try:
            async for sent in self._out:
                line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._process.stdin.write(line.encode() + b"\n")
                await self._process.stdin.drain()
        except (ConnectionError, RuntimeError):
            self.ended = True
            self._in.close()
        finally:
            self._out.close()  # Otherwise the session would wait for ever to send its next message.

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        rest = ""
        while data := await self._process.stderr.read(1 << 16):
            *lines, rest = (rest + data.decode(errors="replace")).split("\n")
            rest = rest[-MOST_CHARACTERS:]
            for line in filter(str.strip, lines):
                self._hear(line)
        if rest.strip():
            self._hear(rest)

    def _hear(self, line: str) -> None:
        self.last_lines.append(line.rstrip()[:MOST_CHARACTERS])
        self._heard(self.last_lines[-1])

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _close_pipes(self) -> None:
        getattr(self._process, "_transport").close()  # noqa: B009  # Nothing public does, while a descendant holds them.

    async def _gone(self) -> bool:
        """Whether the whole process group ends within `GRACE_SECONDS`."""
        deadline = asyncio.get_running_loop().time() + GRACE_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            try:
                os.killpg(self._process.pid, 0)
            except ProcessLookupError:
                return True
            except PermissionError:  # macOS says so of a process that has ended and was not waited for yet.
                pass
            await asyncio.sleep(0.01)
        return False
