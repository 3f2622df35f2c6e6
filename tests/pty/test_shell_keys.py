"""The integration in real shells: words become a command in the line, and nothing is run, lost or changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.chat_server import ChatServer, Script
from tests.support.reciting import chosen
from tests.support.shells import (
    COMMAND_KEY,
    EXPLAIN_KEY,
    INTERRUPT,
    KILL_LINE,
    NAMES,
    QUESTION,
    UNDO,
    Name,
    ShellTerminal,
    environment_of,
    installed,
    served,
    stop_helper,
)
from tests.support.terminal import visible

WORDS = "say hello to the file greeting.txt"
COMMAND = "echo hello > greeting.txt"
ANSWER = Script(["Use `echo`:\n\n```sh\n", COMMAND, "\n```\n"])
PROSE = Script(["I only know the command line, and this is about the weather."])
HELD = Script(["Let me think"], hold=True)


@contextmanager
def opened(name: Name, tmp_path: Path, **settings: str) -> Iterator[ShellTerminal]:
    """A shell in an empty folder, with a helper of its own."""
    if not installed(name):
        pytest.skip(f"{name} is not installed")
    home, runtime, folder = (tmp_path / part for part in ("home", "run", "here"))
    for path in (home, runtime, folder):
        path.mkdir()
    environment = environment_of(home, runtime, **settings)
    try:
        with ShellTerminal(name, environment, folder) as shell:
            shell.source()
            yield shell
    finally:
        stop_helper(environment)


@pytest.mark.parametrize("name", NAMES)
def test_keys_write_into_the_line_and_the_rest_is_as_before(name: Name, tmp_path: Path) -> None:
    server, here = ChatServer([ANSWER]), tmp_path / "here"
    with served(server) as url, opened(name, tmp_path, OUTRIDER_REMOTE=url) as shell:
        # A program that the integration starts may write the next line, whatever characters it has.
        line = "echo 'a  \"b\" $HOME `id` \\n !x' # ü"
        (here / "chosen").write_text(line)
        folder = next((tmp_path / "run").iterdir())
        shell.run(f"cp chosen {folder}/line.{'$fish_pid' if name == 'fish' else '$$'}")
        shell.wait_for_line(line)
        assert not list(folder.glob("line.*"))
        # bash asks the terminal once, and again each time that it draws the prompt anew: for the line, and for a probe.
        assert shell.raw.count(QUESTION) <= 2 + shell.probes
        clear(shell)

        # Words become a command, which is not run.
        shell.type(WORDS + COMMAND_KEY)
        shell.wait_for_line(COMMAND)
        assert not (here / "greeting.txt").exists()
        assert WORDS in server.asked[0]["messages"][-1]["content"]
        shell.type(UNDO)
        shell.wait_for_line(WORDS)
        clear(shell)
        # Into a file: the terminal may still draw what was typed before.
        history = tmp_path / "history"
        shell.run(f"{'fc -l' if name == 'zsh' else 'history'} >{history}")
        assert "greeting.txt" not in history.read_text(), "what was not run is not in the history"

        # Without a command the line stays, and the reason is said.
        server.scripts = [PROSE]
        shell.press(WORDS + COMMAND_KEY, "about the weather")
        assert shell.line() == WORDS

        # Ctrl+C cancels a slow answer and keeps the line.
        server.asked.clear()
        server.scripts = [HELD, ANSWER]
        shell.type(COMMAND_KEY)
        shell.wait_for(lambda: len(server.asked) == 1)
        shell.type(INTERRUPT)
        shell.wait_for(server.hung_up.is_set)
        assert shell.line() == WORDS
        shell.type(COMMAND_KEY)
        shell.wait_for_line(COMMAND)
        clear(shell)

        # The command in the line is explained above it.
        server.asked.clear()
        server.scripts = [Script(["It prints hello into a file."])]
        told = "It prints hello into a file."
        assert told in shell.press("echo hello > x" + EXPLAIN_KEY, "> echo hello > x" if name == "zsh" else told)
        assert shell.line() == "echo hello > x"
        assert "echo hello > x" in server.asked[0]["messages"][-1]["content"]
        clear(shell)

        # A failed command is mended; what a command printed is read over a pipe.
        (here / "Letters").mkdir()
        (here / "notes.txt").write_text("a\n")
        shell.press("cd Letetrs\r", "Letetrs")
        shell.wait_for(lambda: shell.line() == "")
        shell.type("outrider fix\r")
        shell.wait_for_line("cd Letters")
        shell.type(KILL_LINE + COMMAND_KEY)  # The key does the same where the line is empty.
        shell.wait_for_line("cd Letters")
        clear(shell)
        shell.type("cat ntoes.txt 2>&1 | outrider fix\r")
        shell.wait_for_line("cat notes.txt")
        clear(shell)

        # Other programs and keys are as before.
        assert "outrider" in shell.run("outrider --version")
        if name == "bash":
            assert "unbound" not in shell.run("set -u") + shell.run("true"), "nor do a person's own options trouble it"
        assert "7" in shell.run("false; sh -c 'exit 7'; echo $status" if name == "fish" else "(exit 7); echo $?")
        shell.type("abc\x01x")  # Ctrl+A goes to the beginning.
        shell.wait_for_line("xabc")
        shell.type("\x05")  # Ctrl+E goes to the end.
        clear(shell)

        # A server that does not answer, and then an installation that is gone.
        server.away = True
        shell.press(WORDS + COMMAND_KEY, "outrider: ")
        assert shell.line() == WORDS
        clear(shell)
        variable = "_outrider_python" if name == "zsh" else "__outrider_python"
        shell.run(f"set -g {variable} /gone" if name == "fish" else f"{variable}=/gone")
        shell.press(WORDS + COMMAND_KEY, "/gone does not run. Open a new shell.")
        assert shell.line() == WORDS


def test_ghost_text_follows_the_words_and_is_not_part_of_the_line(tmp_path: Path, reciting: Path) -> None:
    """In zsh a command stands behind the words, which is not in the line."""
    words = "how much disk space is left"
    settings = {"OUTRIDER_MODE": "offline", "OUTRIDER_SHELL_GHOST": "true", **chosen(reciting)}
    with opened("zsh", tmp_path, **settings) as shell:
        shell.type(words)  # The first words start the helper.
        shell.wait_for(lambda: any(path.is_socket() for path in (tmp_path / "run").glob("*/*.sock")))
        begun = len(shell.raw)
        shell.type(" here")
        shell.wait_for(lambda: "→ df -h" in visible(shell.raw[begun:]))
        assert shell.line() == f"{words} here"
        shell.type(KILL_LINE)
        assert "→" not in shell.run("git checkout main"), "a command gets none, and what was shown is gone"


def clear(shell: ShellTerminal) -> None:
    shell.type(KILL_LINE)
    shell.wait_for_line("")
