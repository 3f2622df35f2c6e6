"""Processes that work for a server while nobody asks it: they stop while the engine is wanted, and go on afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from remote.verifier.learning.answers import Answer
from remote.verifier.learning.task import Outcome, Task, Told, send

PACKAGES = Path(__file__).resolve().parents[3]
CAN_PAUSE = hasattr(signal, "SIGSTOP")
"""Windows cannot stop a process; there, only its low priority makes room."""
NICENESS = 15
"""How far such a process stands back behind the server."""
DIES_WITH_PARENT = 1
"""`PR_SET_PDEATHSIG` of Linux."""
IDLE_PRIORITY = 0x40
"""`IDLE_PRIORITY_CLASS` of Windows."""


class StandingBack:
    """A module that runs in a process of its own and stands back. It begins stopped, where it can be: call `go_on`.

    On Linux the process dies with the thread that made this object.
    """

    def __init__(self, module: str, send: Callable[[BinaryIO], None], hear: Callable[[bytes], None]) -> None:
        """`send` writes to its stdin, which stays open; `hear` is called with each line of its stdout, on another
        thread. Whatever `hear` raises of `OSError` or `msgspec.DecodeError` ends the process."""
        # In a process group of its own Ctrl+C does not reach it. In the same session, the system continues and ends
        # it where the server is killed while it is stopped.
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
        """Whether it may run now."""
        self.pause()
        self._send, self._hear = send, hear
        self._talk = threading.Thread(target=self._speak, daemon=True)
        self._talk.start()

    @property
    def id(self) -> int:
        """Its process id."""
        pid: int = self._process.pid
        return pid

    @property
    def ended(self) -> bool:
        """Whether it has ended, and all that it said was read."""
        return not self._talk.is_alive()

    def pause(self) -> None:
        """Stop it where it is. It takes no time."""
        if self.running and CAN_PAUSE:
            self._signal(signal.SIGSTOP)
            self.running = False

    def go_on(self) -> None:
        """Let it run."""
        if not self.running:
            self._signal(signal.SIGCONT)
            self.running = True

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._talk.join()

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


def stand_back() -> None:
    """Give this process a low priority, and let it end with the server that started it. Call it first."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)


def end_with_stdin() -> None:
    """End this process when its stdin ends, on another thread. Call it once all is read that was sent."""
    threading.Thread(target=_end, daemon=True).start()


def _end() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)


def tell(message: msgspec.Struct) -> None:
    """Write a line of JSON to the server."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


def _silent(done: int, of: int) -> None:
    """Tells nobody what is done."""


class LearningProcess(StandingBack):
    """One try to learn. `told` is called with the steps that are done, on another thread."""

    def __init__(
        self, task: Task, answers: Sequence[tuple[bool, Answer]], told: Callable[[int, int], None] = _silent
    ) -> None:
        self.outcome: Outcome | None = None
        """How it ended. None: it runs, or it was killed."""
        self._told = told
        super().__init__("remote.verifier.learning.worker", lambda stdin: send(stdin, task, answers), self._take)

    def _take(self, line: bytes) -> None:
        message = msgspec.json.decode(line, type=Told | Outcome)
        if isinstance(message, Outcome):
            self.outcome = message
        else:
            self._told(message.done, message.of)
