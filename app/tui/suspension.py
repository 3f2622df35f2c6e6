"""Gives up the terminal for a while: to an editor, or to the shell on Ctrl+Z (POSIX job control)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from textual.app import App, SuspendNotSupported

from app.editor import EditedFile, editor_command, editor_problem, start_problem


async def edit(app: App[None], text: str) -> str:
    """The text as the editor left it. A running reply continues meanwhile, but nothing is drawn.

    Raises `EditorFailed`. If something was written in the editor, its file is kept and the message names it.
    """
    command = editor_command()
    file = EditedFile(text)
    return file.result(await _run(app, [*command, str(file.path)]))


async def _run(app: App[None], command: list[str]) -> str:
    """Run the editor; returns what went wrong, or an empty text."""
    # Ctrl+C belongs to the editor now. A handler, because a child process would inherit an ignored signal.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        with app.batch_update(), app.suspend():  # A batch, because drawing would wait for a writer that has ended.
            try:
                process = await asyncio.create_subprocess_exec(*command)
                code = await process.wait()
            except (OSError, ValueError) as error:
                return start_problem(command, error)
    except SuspendNotSupported:
        return "This terminal cannot be lent to an editor"
    finally:
        signal.signal(signal.SIGINT, before)
    return editor_problem(command, code)


def has_shell() -> bool:
    """Whether a shell can bring this program back. A shell gives each job its own process group."""
    return sys.platform != "win32" and os.getpgrp() != os.getsid(0)


def stop_job() -> None:
    """Stop the whole job, and return when the shell has continued it. The terminal must be as it was before.

    Not with SIGTSTP: the rest of the job (`make`) would stop first, and this program then as one in the background.
    """
    if sys.platform == "win32":
        return
    continued = False

    def go_on(*_: object) -> None:
        nonlocal continued
        continued = True

    before = signal.signal(signal.SIGCONT, go_on)
    try:
        os.killpg(os.getpgrp(), signal.SIGSTOP)
        # Another thread may get the signal, so this one can still run for a moment.
        while not continued:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGCONT, before)
