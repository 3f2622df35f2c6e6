"""Edit the prompt in the person's own editor, which gets the terminal meanwhile."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from textual.app import App, SuspendNotSupported

from app.sanitise import sanitise

USUAL = ("sensible-editor", "nano", "vi", "notepad")
"""Editors to try if neither $VISUAL nor $EDITOR is set."""


class EditorFailed(Exception):
    """The editor gave no text back. The message says why, and where the text is."""


def editor_command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The editor with its arguments. Raises `EditorFailed` if there is none."""
    for name in ("VISUAL", "EDITOR"):
        if chosen := environment.get(name, "").strip():
            try:
                return shlex.split(chosen, posix=os.name != "nt")
            except ValueError as error:
                raise EditorFailed(f"${name} is no command ({error}): {sanitise(chosen)}") from None
    for usual in USUAL:
        if found := shutil.which(usual):
            return [found]
    raise EditorFailed("There is no editor: set $VISUAL or $EDITOR to one.")


async def edit(app: App[None], text: str) -> str:
    """The text as the editor left it. A running reply goes on meanwhile, but nothing is drawn.

    Raises `EditorFailed`. If something was written in the editor, its file is kept and the message names it.
    """
    command = editor_command()
    handle, name = tempfile.mkstemp(prefix="outrider-prompt-", suffix=".md")
    path = Path(name)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
    before = path.read_bytes()
    problem = await _run(app, [*command, name])
    try:
        after = path.read_bytes()
    except OSError as error:
        raise EditorFailed(f"{problem or 'What was written cannot be read'}: {error.strerror}") from None
    if problem:
        if after == before:
            path.unlink(missing_ok=True)
            raise EditorFailed(f"{problem}; the prompt is as it was.")
        raise EditorFailed(f"{problem}; what was written there is in {name}.")
    path.unlink(missing_ok=True)
    return sanitise(after.decode("utf-8", "replace").replace("\r\n", "\n")).rstrip("\n")


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
                reason = error.strerror if isinstance(error, OSError) else str(error)
                return f"{sanitise(command[0])} did not start ({reason})"
    except SuspendNotSupported:
        return "This terminal cannot be lent to an editor"
    finally:
        signal.signal(signal.SIGINT, before)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
    return f"{sanitise(command[0])} {how}" if code else ""
