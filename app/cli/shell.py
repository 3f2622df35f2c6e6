"""`outrider shell`: the script for a shell, and the helper that answers its keys."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated, Any, Literal

import typer

from app.cli.settings import settings_with
from app.exits import FAILED, USAGE, complain, fail

END_SECONDS = 20.0
"""Longest wait for a helper to release its models."""


def shell(
    name: Annotated[
        Literal["bash", "zsh", "fish"] | None, typer.Argument(metavar="[SHELL]", help="bash, zsh or fish.")
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Print whether the background helper runs and how much memory it uses.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the background helper. The next key press starts a new one.")
    ] = False,
) -> None:
    """Print a script that adds keys to your shell for writing, fixing and explaining commands.

    \b
    eval "$(outrider shell bash)"       # the last line of ~/.bashrc
    eval "$(outrider shell zsh)"        # in ~/.zshrc
    outrider shell fish | source        # in ~/.config/fish/config.fish

    Alt+M turns the words in the line into a command, or fixes the last command if the line is empty. Alt+I explains the
    command in the line. Nothing runs by itself.
    """
    if sys.platform == "win32":
        fail("The shell integration needs Unix sockets, which Python does not have on Windows.", FAILED)
    if (name is not None) + status + stop != 1:
        fail('Name a shell, or give --status or --stop. For example: eval "$(outrider shell bash)"', USAGE)
    from app.shell.connection import NoHelper
    from app.shell.place import NoPlace

    try:
        if name is not None:
            from app.shell.integration import script

            settings, _ = settings_with()
            print(script(name, settings), end="")
        elif status:
            _print_status()
        else:
            _stop()
    except (NoHelper, NoPlace) as error:
        fail(str(error), FAILED)


def _print_status() -> None:
    said = _exchange("status")
    if said is None:
        print("No helper runs. The first key press in a shell starts one.")
        return
    memory = said["memory_bytes"]
    print(f"running for {said['seconds'] / 60:.0f} min, idle for {said['idle_seconds'] / 60:.0f} min")
    print(f"process {said['pid']}, {f'{memory / 1e6:.0f} MB' if memory else 'memory not known'}")
    print(f"answers {said['answered']}, {said['remote'] or 'no model loaded'}")


def _stop() -> None:
    from app.shell.place import socket_path

    if _exchange("stop") is None:
        complain("No helper runs.")
        return
    deadline = time.monotonic() + END_SECONDS
    while (left := _holder(socket_path())) is not None:
        if time.monotonic() > deadline:
            fail(f"The helper does not exit. To force it: kill -9 {left}", FAILED)
        time.sleep(0.02)


def _exchange(kind: str) -> dict[str, Any] | None:
    """The reply of the running helper, or None if none runs; it is not started. Raises `NoHelper`."""
    from app.shell.connection import SIGN_SECONDS, NoHelper, connect, request
    from app.shell.place import socket_path

    path = socket_path()
    line = connect(path)
    if line is None:
        return None
    try:
        line.send(request(kind, ""))
        said = line.reply(SIGN_SECONDS)
        if kind == "stop":
            if said is not None:
                line.ended()
        elif said is not None:
            said = line.reply(SIGN_SECONDS)
    except (ConnectionError, json.JSONDecodeError):
        return None
    finally:
        line.close()
    if said is None:
        holder = _holder(path)
        raise NoHelper(f"The shell helper does not answer{f'. To end it: kill {holder}' if holder else ''}.")
    return said


def _holder(path: str) -> int | None:
    """The process that holds the helper's lock, if any."""
    import fcntl
    import os

    try:
        with open(f"{path}.lock", "r+", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text.isdecimal() and int(text) != os.getpid() else None
    except OSError:
        pass
    return None
