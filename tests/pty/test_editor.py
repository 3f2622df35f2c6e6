"""The person's editor on a real terminal: it gets the terminal, and gives it back."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.pty.tmux import Tmux
from tests.support.serving import REPOSITORY

EDITOR = """
import pathlib, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler may miss a signal that comes just before it reads.
path = pathlib.Path(sys.argv[1])
flags = termios.tcgetattr(0)[3]
line_by_line = bool(flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG)
said = input(f"editing {path.read_text()!r}, line by line: {line_by_line}; then: ")
if said == "fail":
    sys.exit(3)
path.write_text(path.read_text().upper() + said)
"""


async def test_it_gets_the_terminal_and_gives_it_back(own: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(EDITOR)
    own["VISUAL"] = shlex.join([sys.executable, str(tmp_path / "editor.py")])
    with Tmux(tmp_path / "tmux", [sys.executable, "-m", "app.start"], own, REPOSITORY, (30, 100)) as tmux:
        await tmux.until("How do I …?")
        tmux.type("half")
        await tmux.until("│ half")
        tmux.press("C-g")
        await tmux.until("editing 'half', line by line: True; then:")
        assert "│ half" not in tmux.screen, "the screen of the program is put away"
        tmux.press("C-c")  # Ends the editor, not the program.
        await tmux.until(lambda: "was ended by signal 2" in told(tmux))
        await tmux.until("│ half")
        tmux.press("C-g")
        await tmux.until("then:")
        tmux.type("fail")
        tmux.press("Enter")
        await tmux.until(lambda: "ended with 3" in told(tmux))
        tmux.type("!")
        await tmux.until("│ half!")
        tmux.press("C-g")
        await tmux.until("editing 'half!'")
        tmux.type(" and more")
        tmux.press("Enter")
        await tmux.until("│ HALF! and more")
        tmux.type("?")
        await tmux.until("│ HALF! and more?")
        tmux.press("C-q")
        assert await tmux.ended() == 0, tmux.screen


def told(tmux: Tmux) -> str:
    """The text of the screen without its line breaks."""
    return " ".join(tmux.screen.replace("▌", " ").split())
