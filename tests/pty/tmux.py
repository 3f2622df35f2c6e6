"""A program in a tmux session of its own: type to it, and read its screen."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.support.patience import PATIENCE_SECONDS

LOOK_SECONDS = 0.05


class Tmux:
    """A tmux server with one session, which ends with it. `socket`: a file that no other tmux uses."""

    def __init__(
        self, socket: Path, command: Sequence[str], environment: Mapping[str, str], folder: Path, size: tuple[int, int]
    ) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        self._ended = socket.with_name(f"{socket.name}.ended")
        self._command = command
        self._environment = environment
        self._folder = folder
        self._lines, self._columns = size

    def __enter__(self) -> Self:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        given = [part for name, value in self._environment.items() for part in ("-e", f"{name}={value}")]
        size = ["-x", str(self._columns), "-y", str(self._lines)]
        # Its last output stays readable after its end.
        self._run(
            "new-session", "-d", *size, "-c", str(self._folder), *given, "sleep 600",
            ";", "set-option", "-g", "remain-on-exit", "on", ";", "set-option", "-g", "escape-time", "0",
            ";", "respawn-pane", "-k", *given, "-c", str(self._folder),
            # The program writes its exit code: on a busy machine tmux may never learn it.
            f"{shlex.join(self._command)}; echo $? > {shlex.quote(str(self._ended))}",
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True).stdout

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: `Enter`, `C-q`."""
        self._run("send-keys", *keys)

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    @property
    def code(self) -> int | None:
        """The exit code of the program; None while it runs."""
        text = self._ended.read_text() if self._ended.exists() else ""
        return int(text) if text.endswith("\n") else None

    async def ended(self) -> int:
        """Wait for the end of the program; its exit code."""
        await self.until(lambda: self.code is not None)
        assert self.code is not None
        return self.code

    async def until(self, seen: str | Callable[[], bool]) -> None:
        """Wait until the screen shows this text, or `seen()` is true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while not (seen in self.screen if isinstance(seen, str) else seen()):
            if loop.time() > deadline or (self.code is not None and isinstance(seen, str)):
                raise AssertionError(f"never seen: {seen!r}; this is:\n{self.screen}")
            await asyncio.sleep(LOOK_SECONDS)
