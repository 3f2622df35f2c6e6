"""Background processes for the server's idle time, which are suspended while anybody wants the engine.

The server sends a task over stdin, so none of it is written to disk. A frame is its length in eight bytes, then
MessagePack. Stdin stays open, so the process notices when the server is gone. It answers with lines of JSON on stdout.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
PACKAGES = Path(__file__).resolve().parents[2]
CAN_PAUSE = hasattr(signal, "SIGSTOP")
"""Windows cannot suspend a process; there, only its low priority helps."""
NICENESS = 10
"""By how much such a process's priority is below the server's."""
END_SECONDS = 2.0
"""Longest wait for the end of a killed process's output."""
DIES_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux."""
IDLE_PRIORITY = 0x40
"""`IDLE_PRIORITY_CLASS` of Windows."""


class StandingBack:
    """A module that runs in a background process. It starts suspended, where the system allows it: call `go_on`.

    On Linux the process dies with the thread that made this object.
    """

    def __init__(self, module: str, send: Callable[[BinaryIO], None], hear: Callable[[bytes], None]) -> None:
        """`send` writes to its stdin, which stays open; `hear` is called with each line of its stdout, on a thread.

        If `hear` raises `OSError` or `msgspec.DecodeError`, the process is ended.
        """
        # In its own process group, Ctrl+C does not reach it. In the same session, the system continues and ends it if
        # the server is killed while it is suspended.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.getenv("PYTHONPATH")]))},
            creationflags=IDLE_PRIORITY if sys.platform == "win32" else 0,
            process_group=None if sys.platform == "win32" else 0,
        )
        self.running = True
        """Whether it is running now."""
        self.pause()
        self._send, self._hear = send, hear
        self._talk = threading.Thread(target=self._speak, daemon=True)
        self._talk.start()

    @property
    def ended(self) -> bool:
        """Whether it has ended and all its output was read."""
        return not self._talk.is_alive()

    def pause(self) -> None:
        """Suspend it immediately."""
        if self.running and CAN_PAUSE:
            self._signal(signal.SIGSTOP)
            self.running = False

    def go_on(self) -> None:
        if not self.running:
            self._signal(signal.SIGCONT)
            self.running = True

    def kill(self) -> None:
        """End it at once. Somebody else may hold its pipes, so the end of its output is not awaited for long."""
        self._process.kill()
        self._talk.join(END_SECONDS)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _speak(self) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            self._send(stdin)  # type: ignore[arg-type]
            for line in stdout:
                self._hear(line)
        except (OSError, msgspec.DecodeError):
            self._process.kill()
        finally:
            self._process.wait()
            for pipe in (stdin, stdout):
                with contextlib.suppress(OSError):
                    pipe.close()


class Quiet:
    """Tracks how long nobody has wanted the engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self.wanted_before = False
        """Whether the engine was wanted since the start."""
        self._since = time.monotonic()
        self._process: StandingBack | None = None

    @contextlib.contextmanager
    def kept_waiting(self) -> Iterator[None]:
        """Mark the engine as wanted while the block runs."""
        with self._lock:
            self._wanted += 1
            if self._process is not None:
                self._process.pause()
        try:
            yield
        finally:
            with self._lock:
                self._wanted -= 1
                self.wanted_before = True
                self._since = time.monotonic()

    def lasted(self, seconds: float) -> bool:
        """Whether nobody has wanted it for this long."""
        return not self._wanted and time.monotonic() - self._since >= seconds

    def hold(self, process: StandingBack | None) -> None:
        """Suspend and resume this process on demand, or none."""
        with self._lock:
            self._process = process

    def let_go_on(self, seconds: float) -> None:
        """Resume the process if it has been quiet for this long."""
        with self._lock:
            if self._process is not None and self.lasted(seconds):
                self._process.go_on()


# ---- in the process --------------------------------------------------------------------------------------------------


def stand_back() -> None:
    """Give this process a low priority, and have it end with the server that started it. Call this first."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)


def end_with_stdin(end: Callable[[], None] = lambda: os._exit(1)) -> None:
    """Watch stdin on another thread, and end this process when it ends: a killed parent leaves no orphan.

    Call this once everything sent has been read.
    """

    def watch() -> None:
        while os.read(0, 4096):
            pass
        end()

    threading.Thread(target=watch, daemon=True).start()


def tell(message: msgspec.Struct) -> None:
    """Write a line of JSON to the server."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


# ---- between the two -------------------------------------------------------------------------------------------------


def put(file: BinaryIO, message: msgspec.Struct) -> None:
    """Write a frame. Raises `OSError`."""
    data = msgspec.msgpack.encode(message)
    file.write(len(data).to_bytes(8, "big") + data)
    file.flush()


def take(file: BinaryIO, kind: type[T]) -> T:
    """Read a frame. Raises `EOFError` if it is incomplete."""
    size = int.from_bytes(_exactly(file, 8), "big")
    return msgspec.msgpack.decode(_exactly(file, size), type=kind)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
