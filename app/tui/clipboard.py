"""Copy a text to the desktop's clipboard if there is one, else through the terminal, else to a file.

A program of the desktop (`pbcopy`, `wl-copy`, `xclip`, `xsel`, `clip.exe`) is reliable. The terminal's own way (OSC 52)
is not, and terminals cut or drop long texts, but it reaches the person's clipboard over SSH.
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

LONGEST_OSC = 74_994
"""Bytes of text that xterm and tmux take at once: 100,000 with base64 and its frame around it."""
TIMEOUT_SECONDS = 2.0


class Copied(NamedTuple):
    """How a text was copied."""

    way: str
    """Name of the program, `terminal` or `file`."""
    sequence: str = ""
    """What the caller has to write to the terminal."""
    file: Path | None = None


def programs(environment: Mapping[str, str], platform: str = sys.platform) -> list[list[str]]:
    """Commands that set the clipboard of this desktop, the best first; none over SSH."""
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
    """The control sequence that makes the terminal copy a text; None if the text is too long for it."""
    data = text.encode()
    if len(data) > LONGEST_OSC:
        return None
    sequence = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if environment.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence


async def copy(text: str, environment: Mapping[str, str] = os.environ) -> Copied:
    """Copy a text in the best way there is. Raises `OSError` if not even a file can be written."""
    for command in programs(environment):
        if await _run(command, text, environment):
            return Copied(command[0])
    sequence = osc52(text, environment)
    return Copied("terminal", sequence) if sequence is not None else Copied("file", file=await _save(text))


async def _run(command: Sequence[str], text: str, environment: Mapping[str, str]) -> bool:
    path = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if path is None:
        return False
    # `clip.exe` reads other code pages as UTF-8, unless the text begins with a byte order mark.
    data = text.encode("utf-16") if command[0] == "clip.exe" else text.encode()
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            path, *command[1:], stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet, env=environment
        )
    except OSError:
        return False
    try:
        # Not `communicate`: these programs leave a process that holds the clipboard, and it would be waited for.
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
        # Private to this account, as the conversations are.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", prefix="outrider-copied-", suffix=".md", delete=False
        ) as file:
            file.write(text)
        return Path(file.name)

    return await asyncio.to_thread(write)
