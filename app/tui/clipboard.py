"""Copy a text to the desktop's clipboard if there is one, else through tmux or the terminal, else to a file.

A program of the desktop (`pbcopy`, `wl-copy`, `xclip`, `xsel`, `clip.exe`) is reliable. The terminal's own way (OSC 52)
is not: terminals cut or drop long texts, many ask or refuse, and none replies. But it reaches the person's clipboard
over SSH. tmux passes on what is loaded into its own buffer, but by default nothing that a program writes.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app.ssh import over_ssh

LONGEST_OSC = 74_994
"""Bytes of text that xterm and tmux take at once: 100,000 with base64 and its frame around it."""
SCREEN_PIECE = 76
"""Characters in one control string: GNU Screen drops longer ones, older versions those above 256."""
KONSOLE_TAKES_IT = 241200
"""The first version of Konsole, as it calls itself, that knows OSC 52."""
TIMEOUT_SECONDS = 2.0


class Copied(NamedTuple):
    title: str
    """What was done, in a few words. A terminal never reports success."""
    note: str = ""
    """A note for the person."""
    sequence: str = ""
    """Bytes that the caller has to write to the terminal."""
    file: Path | None = None


def programs(environment: Mapping[str, str], platform: str = sys.platform) -> list[list[str]]:
    """Commands that set the clipboard of this desktop, the best first; none over SSH."""
    if over_ssh(environment):
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


def osc52(text: str, environment: Mapping[str, str]) -> str:
    """The control sequence that makes the terminal copy a text; empty if the text is too long for it."""
    data = text.encode()
    if len(data) > LONGEST_OSC:
        return ""
    encoded = base64.b64encode(data).decode()
    if environment.get("STY") and not environment.get("TMUX"):  # GNU Screen hands short pieces of it on.
        pieces = [encoded[at : at + SCREEN_PIECE] for at in range(0, len(encoded), SCREEN_PIECE)]
        return "\x1bP\x1b]52;c;" + "\x1b\\\x1bP".join(pieces) + "\x07\x1b\\"
    return f"\x1b]52;c;{encoded}\x07"


def takes_osc52(environment: Mapping[str, str]) -> bool:
    """Whether the terminal may support OSC 52; known exceptions are excluded."""
    if environment.get("TMUX") or environment.get("STY"):
        return True
    name, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if name in ("linux", "dumb", "vt100", "vt220") or program == "Apple_Terminal":
        return False
    konsole = environment.get("KONSOLE_VERSION", "")
    # Other terminals inherit the variables of the terminal that they were started from.
    own = name in ("xterm", "xterm-256color", "") and not program
    return not own or not (environment.get("VTE_VERSION") or (konsole.isdecimal() and int(konsole) < KONSOLE_TAKES_IT))


async def copy(text: str, environment: Mapping[str, str] = os.environ) -> Copied:
    """Copy a text in the best way there is. Raises `OSError` if not even a file can be written."""
    for command in programs(environment):
        if await _run(command, text, environment) is not None:
            return Copied("Copied")
    sequence = osc52(text, environment)
    if environment.get("TMUX") and (copied := await _load_into_tmux(text, sequence, environment)) is not None:
        return copied
    if sequence and takes_osc52(environment):
        return Copied("Sent to the terminal", "It is copied if your terminal lets programs copy.", sequence)
    if sequence:
        need = {"WAYLAND_DISPLAY": "wl-clipboard", "DISPLAY": "xclip"}
        package = next((name for variable, name in need.items() if environment.get(variable)), "")
        why = "This terminal does not let programs copy." + (f" Install {package}." if package else "")
    else:
        why = f"The text is too long to copy ({len(text):,} characters)."
    file = await _save(text)
    return Copied("Saved", f"{why} It was saved to {file}.", file=file)


async def _load_into_tmux(text: str, sequence: str, environment: Mapping[str, str]) -> Copied | None:
    """Put the text into tmux's buffer, and have tmux pass it on; returns None if tmux cannot be reached.

    `sequence` is written, too: a terminal that was started from within tmux is not in it.
    """
    passed = await _run(["tmux", "load-buffer", "-w", "-"], text, environment) is not None
    if not passed and await _run(["tmux", "load-buffer", "-"], text, environment) is None:  # Before tmux 3.2.
        return None
    question = ["tmux", "display-message", "-p", "#{set-clipboard} #{client_termfeatures}"]
    known = await _run(question, "", environment, answers=True)
    note = "tmux's prefix and ] paste it."
    if known is None:
        return Copied("Copied to tmux", note, sequence)
    setting, _, features = known.strip().partition(" ")
    if passed and sequence and setting != "off" and "clipboard" in features.split(","):
        return Copied("Copied to tmux, and sent to the terminal", note, sequence)
    if not sequence:
        note += f" It is too long to send to the terminal ({len(text):,} characters)."
    elif setting == "off":
        note += " tmux does not pass it on, because `set-clipboard` is off."
    else:
        note += " tmux does not know how to reach your terminal's clipboard."
    return Copied("Copied to tmux", note, sequence)


async def _run(
    command: Sequence[str], text: str, environment: Mapping[str, str], *, answers: bool = False
) -> str | None:
    """The program's output if it `answers`, with the text on its stdin, or None if it fails."""
    path = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if path is None:
        return None
    # `clip.exe` reads other code pages as UTF-8, unless the text begins with a byte order mark.
    data = text.encode("utf-16") if command[0] == "clip.exe" else text.encode()
    quiet, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            path, *command[1:], stdin=pipe, stdout=pipe if answers else quiet, stderr=quiet, env=environment
        )
    except OSError:
        return None
    try:
        # Not `communicate`: these programs leave a process that holds the clipboard, and it would be waited for.
        assert process.stdin is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with suppress(ConnectionError):  # A program that read nothing may have done its work and ended.
                process.stdin.write(data)
                await process.stdin.drain()
            process.stdin.close()
            printed = await process.stdout.read() if process.stdout is not None else b""
            return printed.decode("utf-8", "replace") if await process.wait() == 0 else None
    except (TimeoutError, OSError):
        if process.returncode is None:
            process.kill()
            await process.wait()
        return None


async def _save(text: str) -> Path:
    def write() -> Path:
        # Private to this account, as the conversations are.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", newline="", prefix="outrider-copied-", suffix=".md", delete=False
        ) as file:
            file.write(text)
        return Path(file.name)

    return await asyncio.to_thread(write)
