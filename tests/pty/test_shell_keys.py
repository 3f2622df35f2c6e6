"""The integration in real shells: words become a command in the line, and nothing is run, lost or changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chat_server import ChatServer, Script
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

WORDS = "say hello to the file greeting.txt"
COMMAND = "echo hello > greeting.txt"
ANSWER = Script(["Use `echo`:\n\n```sh\n", COMMAND, "\n```\n"])
PROSE = Script(["I only know the command line, and this is about the weather."])
HELD = Script(["Let me think"], hold=True)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> Name:
    shell: Name = request.param
    if not installed(shell):
        pytest.skip(f"{shell} is not installed")
    return shell


@pytest.fixture
def server() -> ChatServer:
    return ChatServer([ANSWER])


@pytest.fixture
def shell(name: Name, server: ChatServer, tmp_path: Path) -> Iterator[ShellTerminal]:
    """A shell in an empty folder, whose commands the scripted server writes."""
    home, runtime, folder = tmp_path / "home", tmp_path / "run", tmp_path / "here"
    for path in (home, runtime, folder):
        path.mkdir()
    with served(server) as url:
        environment = environment_of(home, runtime, OUTRIDER_REMOTE=url)
        try:
            with ShellTerminal(name, environment, folder) as terminal:
                terminal.source()
                yield terminal
        finally:
            stop_helper(environment)


def test_words_become_a_command_that_is_not_run(shell: ShellTerminal, server: ChatServer, tmp_path: Path) -> None:
    shell.type(WORDS + COMMAND_KEY)
    shell.wait_for_line(COMMAND)
    assert {path.name for path in (tmp_path / "here").iterdir()} <= {"line-probe"}, "nothing is run"
    assert WORDS in server.asked[0]["messages"][-1]["content"]
    shell.type(UNDO)
    shell.wait_for_line(WORDS)
    clear(shell)
    # Into a file: the terminal may still draw what was typed before.
    history = tmp_path / "history"
    shell.run(f"{'fc -l' if shell.name == 'zsh' else 'history'} >{history}")
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
    shell.press("echo hello > x" + EXPLAIN_KEY, "It prints hello into a file.")
    assert shell.line() == "echo hello > x"
    assert "echo hello > x" in server.asked[0]["messages"][-1]["content"]
    clear(shell)

    # A server that does not answer, and then an installation that is gone.
    server.away = True
    shell.press(WORDS + COMMAND_KEY, "outrider: ")
    assert shell.line() == WORDS
    clear(shell)
    variable = "_outrider_python" if shell.name == "zsh" else "__outrider_python"
    shell.run(f"set -g {variable} /gone" if shell.name == "fish" else f"{variable}=/gone")
    shell.press(WORDS + COMMAND_KEY, "/gone does not run. Open a new shell.")
    assert shell.line() == WORDS


def test_the_next_line_is_written_and_the_rest_is_as_before(shell: ShellTerminal, tmp_path: Path) -> None:
    # A program that the integration starts may write the next line, whatever characters it has.
    here, line = tmp_path / "here", "echo 'a  \"b\" $HOME `id` \\n !x' # ü"
    (here / "chosen").write_text(line)
    folder = next((tmp_path / "run").iterdir())
    shell.run(f"cp chosen {folder}/line.{'$fish_pid' if shell.name == 'fish' else '$$'}")
    shell.wait_for_line(line)
    assert not list(folder.glob("line.*"))
    # bash asks the terminal once, and again each time that it draws the prompt anew: for the line, and for a probe.
    assert shell.raw.count(QUESTION) <= 2 + shell.probes
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
    if shell.name == "bash":
        assert "unbound" not in shell.run("set -u") + shell.run("true"), "nor do a person's own options trouble it"
    assert "7" in shell.run("false; sh -c 'exit 7'; echo $status" if shell.name == "fish" else "(exit 7); echo $?")
    shell.type("abc\x01x")  # Ctrl+A goes to the beginning.
    shell.wait_for_line("xabc")


def clear(shell: ShellTerminal) -> None:
    shell.type(KILL_LINE)
    shell.wait_for_line("")
