"""A program on a real pseudo-terminal: its raw bytes, with the times they came at, and keys that are typed to it.

Nothing answers what the program asks the terminal, as on a terminal that does not know these questions.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

SEQUENCES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]*[0-~]"
)
TRUE_COLOUR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
OF_A_TERMINAL = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES")
"""Variables that describe somebody else's terminal."""
PATIENCE_SECONDS = 60.0


def _take_terminal() -> None:
    """Make stdin the controlling terminal. Ctrl+C works in it, also where the tests themselves ignore it (`nohup`)."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class NothingCame(AssertionError):
    """What was waited for did not appear. The message ends with what did."""


class Terminal:
    """A child process with a pty of its own as its controlling terminal."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path | None = None,
        size: tuple[int, int] = (30, 100),
        kind: Mapping[str, str] = TRUE_COLOUR,
    ) -> None:
        """`size`: lines and columns. `kind`: the terminal that its variables describe."""
        self._command = command
        others = {name: value for name, value in environment.items() if name not in OF_A_TERMINAL}
        self._environment = {**others, **kind}
        self._folder = folder
        self._size = size
        self._process: subprocess.Popen[bytes] | None = None
        self.master = -1
        """The other end of the terminal; negative where there is none."""
        self.raw = b""
        self.begun = 0.0
        """`time.perf_counter()` just before the process was started."""

    def __enter__(self) -> Self:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *self._size, 0, 0))
        self.begun = time.perf_counter()
        self._process = subprocess.Popen(
            self._command, stdin=slave, stdout=slave, stderr=slave, cwd=self._folder, env=self._environment,
            start_new_session=True, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def text(self) -> str:
        """All text that was written, without escape sequences: not the picture, but every word of it."""
        return visible(self.raw)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def read(self, seconds: float) -> bytes:
        """The first output within that time. Empty if nothing came."""
        if not select.select([self.master], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # The program has closed its end.
            time.sleep(min(seconds, 0.01))
            return b""
        self.raw += data
        return data

    def wait_for(self, shown: str | Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Read until the text holds `shown`, or `shown()` is true. Raises `NothingCame`."""
        deadline = time.monotonic() + seconds
        while not (shown in self.text if isinstance(shown, str) else shown()):
            if time.monotonic() > deadline:
                raise NothingCame(f"not within {seconds:.0f} s: {shown!r}; last came: {self.text[-600:]!r}")
            self.read(0.05)

    def end(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Read until the program has ended, and return its exit code. Raises `NothingCame`."""
        self.wait_for(lambda: self.process.poll() is not None, seconds)
        while self.read(0.05):
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal, as its window does."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1


def visible(raw: bytes) -> str:
    """The bytes outside escape sequences. A sequence that is cut off at the end counts as text."""
    return SEQUENCES.sub("", raw.decode("utf-8", "replace"))
