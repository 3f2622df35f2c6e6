"""The process that learns, as the server holds it: it is stopped while the engine is wanted, and goes on afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from remote.verifier.learning.answers import Answer
from remote.verifier.learning.task import Outcome, Task, Told, send

PACKAGES = Path(__file__).resolve().parents[3]
CAN_PAUSE = hasattr(signal, "SIGSTOP")
"""Windows cannot stop a process; there, only its low priority makes room."""
IDLE_PRIORITY = 0x40
"""`IDLE_PRIORITY_CLASS` of Windows."""


def _silent(done: int, of: int) -> None:
    """Tells nobody what is done."""


class LearningProcess:
    """One try to learn, in a process of its own. It begins stopped, where it can be: call `go_on`.

    `told` is called with the steps that are done, on another thread. On Linux the process dies with the thread that
    made this object.
    """

    def __init__(
        self, task: Task, answers: Sequence[tuple[bool, Answer]], told: Callable[[int, int], None] = _silent
    ) -> None:
        self.outcome: Outcome | None = None
        """How it ended. None: it runs, or it was killed."""
        # In a process group of its own Ctrl+C does not reach it. In the same session, the system continues and ends
        # it where the server is killed while it is stopped.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "remote.verifier.learning.worker"],
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
        self._task, self._told = task, told
        self._talk = threading.Thread(target=self._speak, args=(answers,), daemon=True)
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

    def _speak(self, answers: Sequence[tuple[bool, Answer]]) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            send(stdin, self._task, answers)  # type: ignore[arg-type]
            for line in stdout:
                message = msgspec.json.decode(line, type=Told | Outcome)
                if isinstance(message, Outcome):
                    self.outcome = message
                else:
                    self._told(message.done, message.of)
        except (OSError, msgspec.DecodeError):
            self._process.kill()
        finally:
            self._process.wait()
            for pipe in (stdin, stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
