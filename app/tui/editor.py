"""Edit a text in the person's own editor, which gets the terminal meanwhile."""

from __future__ import annotations

import asyncio
import signal

from textual.app import App, SuspendNotSupported

from app.editor import EditedFile, editor_command, editor_problem, start_problem


async def edit(app: App[None], text: str) -> str:
    """The text as the editor left it. A running reply goes on meanwhile, but nothing is drawn.

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
