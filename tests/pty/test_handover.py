"""A command that a person takes from the chat into the shell, in a real terminal."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from storage import Store
from tests.app.tui.scripted import store_turns
from tests.pty.tmux import Tmux

COMMAND = "tar xf 'my photos.tgz'"
TURNS = [("Unpack my photos", f"Use:\n\n```sh\n{COMMAND}\n```\n")]


async def test_it_is_the_last_line_on_the_terminal_and_does_not_run(own: dict[str, str], tmp_path: Path) -> None:
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        store_turns(store, "Unpack my photos", TURNS)
    # The pane stays alive behind the program: tmux scrolls a dead one by a line.
    chat = shlex.join([sys.executable, "-m", "app.start", "chat", "--continue"])
    with Tmux(tmp_path / "tmux", ["sh", "-c", f"{chat}; exec cat"], own, tmp_path, (30, 100)) as tmux:
        await tmux.until("copy 1")
        tmux.press("M-Up")
        await tmux.until("use code")
        tmux.press("Enter")
        await tmux.until("Put it into my shell")
        tmux.press("s")
        await tmux.until("→ shell")
        tmux.press("C-q")
        await tmux.until(lambda: tmux.screen.split("\n")[0] == COMMAND and not tmux.screen[len(COMMAND) :].strip())
