"""Ctrl+Z gives the terminal back to the shell, `fg` brings the chat back, and Ctrl+L draws what was overwritten."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal, visible

SHELL = shutil.which("bash")
pytestmark = pytest.mark.skipif(SHELL is None, reason="bash is not installed")


@pytest.mark.parametrize("through", ["", "sh -c '{}; exit'"], ids=["alone", "as make starts it"])
def test_the_shell_has_the_terminal_until_fg(environment: dict[str, str], through: str) -> None:
    command = f"{sys.executable} -m app.start"
    environment |= {"PS1": "> ", "HISTFILE": "", "PROMPT_COMMAND": ""}
    with Terminal(["bash", "--norc", "--noprofile", "-i"], environment=environment, folder=REPOSITORY) as terminal:
        terminal.type((through.format(command) if through else command) + "\r")
        terminal.wait_for("How do I")
        terminal.type("typed")
        terminal.wait_for("typed")
        before = len(terminal.raw)
        terminal.type("\x1a")
        terminal.wait_for(lambda: b"Stopped" in terminal.raw[before:])
        terminal.type("echo shell-'is'-here\r")
        terminal.wait_for(lambda: b"shell-is-here" in terminal.raw[before:])
        before = len(terminal.raw)
        terminal.type("fg\r")
        terminal.wait_for(lambda: b"typed" in terminal.raw[before:])
        before = len(terminal.raw)
        # What is typed while it comes back may be lost, so keys are typed until one shows.
        terminal.wait_for(lambda: "§" in visible(terminal.raw[before:]) or bool(terminal.type("§")))
        before = len(terminal.raw)
        terminal.type("\x0c")  # Ctrl+L draws every cell again.
        terminal.wait_for(lambda: "O U T R I D E R" in visible(terminal.raw[before:]))
        terminal.type("\x03\x04")  # Ctrl+C clears the prompt, Ctrl+D quits.
        terminal.wait_for(lambda: terminal.text.endswith("> "))
        terminal.type("echo over-'and'-out\r")
        terminal.wait_for("over-and-out")
