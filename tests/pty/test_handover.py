"""A command that a person takes from the chat into the shell, in a real terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from app.cli.handover import COMMAND_FILE
from storage import Store
from tests.app.tui.scripted import store_turns
from tests.pty.tmux import Tmux

COMMAND = "tar xf 'my photos.tgz'"
TURNS = [("Unpack my photos", f"Use:\n\n```sh\n{COMMAND}\n```\n")]
PROGRAM = [sys.executable, "-m", "app.start", "chat", "--continue"]
SIZE = 30, 100


@pytest.fixture(autouse=True)
def conversation(tmp_path: Path) -> None:
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        store_turns(store, "Unpack my photos", TURNS)


async def choose(tmux: Tmux) -> None:
    """Put the command of the last answer into the shell, and quit."""
    await tmux.until("copy 1")
    tmux.press("M-Up")
    await tmux.until("use code")
    tmux.press("Enter")
    await tmux.until("Put it into my shell")
    tmux.press("s")
    await tmux.until("→ shell")
    tmux.press("C-q")


async def test_a_chosen_command_is_written_into_the_file_that_the_shell_names(
    own: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "command"
    with Tmux(tmp_path / "tmux", PROGRAM, {**own, COMMAND_FILE: str(file)}, tmp_path, SIZE) as tmux:
        await choose(tmux)
        await tmux.until(lambda: tmux.code == 0)
    assert file.read_text() == f"{COMMAND}\n"


async def test_without_a_file_it_is_the_last_line_on_the_terminal_and_does_not_run(
    own: dict[str, str], tmp_path: Path
) -> None:
    # The pane stays alive behind the program: tmux scrolls a dead one by a line.
    program = ["sh", "-c", f"{shlex.join(PROGRAM)}; exec cat"]
    with Tmux(tmp_path / "tmux", program, own, tmp_path, SIZE) as tmux:
        await choose(tmux)
        await tmux.until(lambda: tmux.screen.split("\n")[0] == COMMAND and not tmux.screen[len(COMMAND) :].strip())
