"""Copying: to the desktop's clipboard where there is one, else through the terminal, else to a file. Never lost.

A program of the desktop (`pbcopy`, `wl-copy`, `xclip`, `xsel`, `clip.exe`) is sure to work; the terminal's own way
(OSC 52) is not, and has a limit, but reaches the person's clipboard over SSH. Terminals cut or drop what is longer.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from textual.app import App

from app.tui.textual_private import keep_as_clipboard, write_to_terminal

LONGEST_OSC = 74_994
"""Bytes of text that xterm and tmux take at once: 100,000 with base64 and its frame around it."""
TIMEOUT_SECONDS = 2.0
EXCERPT = 200
"""Characters of what was copied that are shown."""


class Copied(NamedTuple):
    """What came of it."""

    way: str
    """The program, `terminal` or `file`."""
    sequence: str = ""
    """What is to be written to the terminal, where that is the way."""
    file: Path | None = None


def programs(environment: Mapping[str, str], platform: str = sys.platform) -> list[list[str]]:
    """Commands that set the clipboard of the desktop that this runs on, best first; none over SSH."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return []
    if platform == "darwin":
        return [["pbcopy"]]
    if platform == "win32":
        return [["clip.exe"]]
    commands: list[list[str]] = []
    if environment.get("WAYLAND_DISPLAY"):
        commands.append(["wl-copy"])
    if environment.get("DISPLAY"):
        commands += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    if environment.get("WSL_DISTRO_NAME"):
        commands.append(["clip.exe"])
    return commands


def osc52(text: str, environment: Mapping[str, str]) -> str | None:
    """The sequence that has the terminal copy a text; None where it is too long for that."""
    data = text.encode()
    if len(data) > LONGEST_OSC:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environment.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence


async def copy(text: str, environment: Mapping[str, str] = os.environ) -> Copied:
    """Copies a text by the best way there is. Raises `OSError` where even no file can be written."""
    for command in programs(environment):
        if await _run(command, text, environment):
            return Copied(command[0])
    sequence = osc52(text, environment)
    return Copied("terminal", sequence) if sequence is not None else Copied("file", file=await _save(text))


async def _run(command: Sequence[str], text: str, environment: Mapping[str, str]) -> bool:
    path = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if path is None:
        return False
    # `clip.exe` takes text of another code page for UTF-8, unless it begins with this mark.
    data = text.encode("utf-16") if command[0] == "clip.exe" else text.encode()
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            path, *command[1:], stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet, env=environment
        )
    except OSError:
        return False
    try:
        # Not `communicate`: these programs leave a process behind that holds the clipboard.
        assert process.stdin is not None
        process.stdin.write(data)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.stdin.drain()
            process.stdin.close()
            return await process.wait() == 0
    except (TimeoutError, OSError):
        if process.returncode is None:
            process.kill()
            await process.wait()
        return False


async def _save(text: str) -> Path:
    def write() -> Path:
        # For this account's eyes only, as the conversations are.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", prefix="outrider-copied-", suffix=".md", delete=False
        ) as file:
            file.write(text)
        return Path(file.name)

    return await asyncio.to_thread(write)


class Copying(App[None]):
    """An application that says what became of a copy."""

    def copy_to_clipboard(self, text: str) -> None:
        """Begins to copy; what the application itself pastes is the text from now on."""
        keep_as_clipboard(self, text)
        self.run_worker(self._copy(text), group="clipboard")

    async def _copy(self, text: str) -> None:
        try:
            copied = await copy(text, {} if self.is_headless else os.environ)
        except OSError as error:
            self.notify(f"It could not be copied, nor saved: {error}.", severity="error", markup=False)
            return
        if copied.file is not None:
            self.notify(
                f"{len(text):,} characters are more than the terminal takes; they are in {copied.file}.",
                title="Saved",
                timeout=15,
                markup=False,
            )
            return
        if copied.sequence:
            write_to_terminal(self, copied.sequence)
        self.notify(text if len(text) <= EXCERPT else f"{text[:EXCERPT]} …", title="Copied", markup=False)
