"""Ghost text in a real zsh: a command behind the words, which is not in the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shells import KILL_LINE, ShellTerminal, environment_of, installed, stop_helper
from tests.support.terminal import visible

pytestmark = pytest.mark.skipif(not installed("zsh"), reason="zsh is not installed")
WORDS = "unpack a tar.gz file"


def test_ghost_text_follows_the_words_and_is_not_part_of_the_line(tmp_path: Path) -> None:
    home, runtime, folder = tmp_path / "home", tmp_path / "run", tmp_path / "here"
    for path in (home, runtime, folder):
        path.mkdir()
    environment = environment_of(home, runtime, OUTRIDER_MODE="offline", OUTRIDER_SHELL_GHOST="true")
    try:
        with ShellTerminal("zsh", environment, folder) as shell:
            shell.source()
            shell.type(WORDS)  # The first words start the helper.
            shell.wait_for(lambda: any(path.is_socket() for path in runtime.glob("*/*.sock")))
            begun = len(shell.raw)
            shell.type(" here")
            shell.wait_for(lambda: "→ tar" in visible(shell.raw[begun:]))
            assert shell.line() == f"{WORDS} here"
            shell.type(KILL_LINE)
            shown = shell.run("git checkout main")
            assert "→" not in shown, "a command gets none, and what was shown is gone"
    finally:
        stop_helper(environment)
