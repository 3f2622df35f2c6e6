"""A terminal that goes away, that its variables describe wrongly, or that an editor or the shell gets for a while."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from app.sanitise import sanitise_paste
from storage import Store
from tests.app.tui.scripted import store_turns
from tests.pty.tmux import Tmux
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.shells import installed
from tests.support.terminal import TRUE_COLOUR, Terminal, visible

CHAT = [sys.executable, "-m", "app.start"]
ROW = re.compile(rb"\x1b\[(\d+);\d+H")
IGNORING = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
"""Runs a command as `nohup` and some terminal multiplexers do."""


def test_the_screen_has_the_size_of_its_terminal_and_takes_bytes_that_are_no_text(environment: dict[str, str]) -> None:
    kind = {**TRUE_COLOUR, "COLUMNS": "200", "LINES": "12"}
    with Terminal(CHAT, environment=environment, folder=REPOSITORY, size=(36, 120), kind=kind) as terminal:
        terminal.wait_for("How do I")
        os.write(terminal.master, b"na\xefve and more")
        terminal.wait_for("and more")
        terminal.type("\x11")
        assert terminal.end() == 0
        assert max(map(int, ROW.findall(terminal.raw))) == 36


async def test_the_chat_ends_with_its_terminal_and_what_was_said_and_typed_is_saved(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with ChatServer([Script(["Half of ", "an answer"], hold=True)]).listening() as port:
        environment |= {"OUTRIDER_REMOTE": f"http://127.0.0.1:{port}/v1", "OUTRIDER_MODE": "auto"}

        def sitting() -> None:
            with Terminal([*IGNORING, *CHAT], environment=environment, folder=REPOSITORY) as terminal:
                terminal.wait_for("Ask it anything")
                terminal.type("list files\r")
                terminal.wait_for("Half of an answer")
                terminal.type("not sent")
                terminal.wait_for("not sent")
                terminal.hang_up()
                assert terminal.process.wait(PATIENCE_SECONDS) == 0

        await asyncio.to_thread(sitting)
    with Store(tmp_path / "data" / "outrider.db") as store:
        _, answer = store.messages.of(store.conversations.all()[0].id)
    assert (answer.status, answer.text) == ("stopped", "Half of an answer")
    assert [path.read_text() for path in (tmp_path / "data" / "unsent").glob("in-*")] == ["not sent"]


COLOURED = "".join(f"\x1b[3{n % 8}mline {n}\x1b[0m \x1b[1;38;5;{n}mbold\x1b[m\r" for n in range(8))
PASTES = {
    "bell": "one\x07two\x1b]0;title\x07three\r",
    "keys": "a\x1b[A\x1bOP\x1b[15~\x1b\rb\x03\x11c\x1b",
    "newlines": "one\rtwo\r\nthree\nfour\r\r",
    "nested": "a\x1b[200~b\x1b[200~c",
    "long": (COLOURED + "x" * 300 + "\r") * 160,
}
READ = 700
"""Bytes that are written at once."""


def test_a_paste_is_text(environment: dict[str, str], tmp_path: Path) -> None:
    environment["VISUAL"] = "false"
    with Terminal(CHAT, environment=environment, folder=REPOSITORY) as terminal:
        terminal.wait_for("How do I")
        for number, pasted in enumerate(PASTES.values(), 1):
            sent = f"first \x1b[200~{pasted}\x1b[201~ last"
            for at in range(0, len(sent), READ):
                terminal.type(sent[at : at + READ])
                terminal.read(0.01)
            terminal.type("\x13")  # Ctrl+S: the whole prompt is queued.
            terminal.wait_for(lambda: len(queued(tmp_path)) == number)  # noqa: B023
        terminal.type("\x11")
        assert terminal.end() == 0
    assert queued(tmp_path) == [f"first {sanitise_paste(pasted)} last" for pasted in PASTES.values()]
    with Store.open(tmp_path / "data" / "outrider.db") as store:
        assert not store.messages.asked(9), "nothing is sent as it is"


def queued(home: Path) -> list[str]:
    database = home / "data" / "outrider.db"
    if not database.exists():
        return []
    with Store.open(database) as store:
        return [one.text for one in store.queue.all()]


# ---- the terminal is given away, and comes back ----------------------------------------------------------------------

EDITOR = """
import pathlib, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler may miss a signal that comes just before it reads.
path = pathlib.Path(sys.argv[1])
flags = termios.tcgetattr(0)[3]
line_by_line = bool(flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG)
said = input(f"editing {path.read_text()!r}, line by line: {line_by_line}; then: ")
path.write_text(path.read_text().upper() + said)
"""


async def test_an_editor_gets_the_terminal_and_gives_it_back(own: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "editor.py").write_text(EDITOR)
    own["VISUAL"] = shlex.join([sys.executable, str(tmp_path / "editor.py")])
    with Tmux(tmp_path / "tmux", CHAT, own, REPOSITORY, (30, 100)) as tmux:
        await tmux.until("How do I …?")
        tmux.type("half")
        await tmux.until("│ half")
        tmux.press("C-g")
        await tmux.until("editing 'half', line by line: True; then:")
        assert "│ half" not in tmux.screen, "the screen of the program is put away"
        tmux.press("C-c")  # Ends the editor, not the program.
        await tmux.until(lambda: "was ended by signal 2" in told(tmux))
        await tmux.until("│ half")
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


COMMAND = "tar xf 'my photos.tgz'"
TURNS = [("Unpack my photos", f"Use:\n\n```sh\n{COMMAND}\n```\n")]


async def test_a_command_for_the_shell_is_the_last_line_on_the_terminal_and_does_not_run(
    own: dict[str, str], tmp_path: Path
) -> None:
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


@pytest.mark.skipif(not installed("bash"), reason="bash is not installed")
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


async def test_lines_that_scroll_in_stand_in_a_real_terminal_as_they_were_written(
    own: dict[str, str], tmp_path: Path
) -> None:
    said = [
        f"{number:02} 字 `code` 👩‍🚀 and *words* that are as long as the line is wide at least" for number in range(60)
    ]
    pieces = [f"- {line}\n" for line in said]
    async with ChatServer([Script(pieces, pause=0.03)]).listening() as port:
        own |= {"OUTRIDER_REMOTE": f"http://127.0.0.1:{port}/v1", "OUTRIDER_MODE": "auto", "COLORTERM": "truecolor"}
        own["SSH_TTY"] = "/dev/pts/1"
        with Tmux(tmp_path / "tmux", CHAT, own, REPOSITORY, (36, 120)) as tmux:
            await tmux.until("Ask it anything")
            tmux.type("Count")
            tmux.press("Enter")
            await tmux.until("59 字")
            await tmux.until("talker\n")
            shown = [line.partition("• ")[2].strip(" ▁▂▃▄▅▆▇█") for line in tmux.screen.split("\n") if "• " in line]
            plain = [line.replace("`", "").replace("*", "") for line in said]
            assert len(shown) > 20 and shown == plain[-len(shown) :]
            tmux.press("C-q")
            assert await tmux.ended() == 0
