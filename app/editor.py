"""The person's own editor: which program it is, and the file by which a text is passed to it and back."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from app.sanitise import sanitise

USUAL = ("sensible-editor", "nano", "vi", "notepad")
"""Editors to try if neither $VISUAL nor $EDITOR is set."""


class EditorFailed(Exception):
    """The editor returned no text. The message says why, and where the text is."""


def editor_command(environment: Mapping[str, str] = os.environ, *, windows: bool = os.name == "nt") -> list[str]:
    """The editor with its arguments. Raises `EditorFailed` if there is none."""
    for name in ("VISUAL", "EDITOR"):
        if chosen := environment.get(name, "").strip():
            try:
                words = shlex.split(chosen, posix=not windows)
            except ValueError as error:
                raise EditorFailed(f"${name} is not a command ({error}): {sanitise(chosen)}") from None
            # Backslashes are part of paths on Windows, so shlex leaves the quotes to us.
            return [re.sub(r'^"(.*)"$', r"\1", word) for word in words] if windows else words
    for usual in USUAL:
        if found := shutil.which(usual):
            return [found]
    raise EditorFailed("No editor was found: set $VISUAL or $EDITOR.")


class EditedFile:
    """A text in a temporary file while it is in the editor."""

    def __init__(self, text: str) -> None:
        """Raises `EditorFailed`."""
        try:
            handle, name = tempfile.mkstemp(prefix="outrider-prompt-", suffix=".md")
            self.path = Path(name)
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
                file.write(text)
            self._before = self.path.read_bytes()
        except OSError as error:
            raise EditorFailed(f"A temporary file for the editor cannot be written: {error.strerror}") from None

    def result(self, problem: str = "") -> str:
        """The text as the editor left it. `problem`: what went wrong in the editor, or empty.

        Raises `EditorFailed`. If something was written in the editor, the file is kept and the message names it.
        """
        try:
            after = self.path.read_bytes()
        except OSError as error:
            raise EditorFailed(f"{problem or 'The edited text cannot be read'}: {error.strerror}") from None
        if problem:
            if after == self._before:
                self.path.unlink(missing_ok=True)
                raise EditorFailed(f"{problem}; the prompt is unchanged.")
            raise EditorFailed(f"{problem}; your text is in {self.path}.")
        self.path.unlink(missing_ok=True)
        return sanitise(after.decode("utf-8", "replace").replace("\r\n", "\n")).rstrip("\n")


def editor_problem(command: list[str], code: int) -> str:
    """The problem that an editor's exit code indicates; empty for 0. A negative code is a signal's number."""
    how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
    return f"{sanitise(command[0])} {how}" if code else ""


def start_problem(command: list[str], error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"{sanitise(command[0])} did not start ({reason})"
