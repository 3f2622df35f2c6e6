"""Hands a command from the chat to the person's shell, after the screen has closed. Nothing here runs it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from app.exits import complain

COMMAND_FILE = "OUTRIDER_COMMAND_FILE"
"""The variable with the file that receives the command. The shell integration sets it, and puts the command into the
next prompt."""


def hand_over(command: str, environment: Mapping[str, str]) -> None:
    """Write the command to the file that the environment names, or without one, print it as the last line."""
    if path := environment.get(COMMAND_FILE):
        try:
            # Opened, not replaced: the shell made it, and it may be a pipe.
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(f"{command}\n")
        except OSError as error:
            complain(f"The command could not be written to {COMMAND_FILE} ({path}: {error.strerror}). Here it is:")
        else:
            return
    print(command, flush=True)
