"""A terminal that goes away, and one that its variables describe wrongly."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

from app.sanitise import sanitise_paste
from app.tui.textual_private import outlive_terminal
from storage import Store
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.terminal import TRUE_COLOUR, Terminal

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


def test_the_chat_ends_with_its_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    with Terminal([*IGNORING, *CHAT], environment=environment, folder=REPOSITORY) as terminal:
        terminal.wait_for("How do I")
        terminal.type("not sent")
        terminal.wait_for("not sent")
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE_SECONDS) == 0
    assert [path.read_text() for path in (tmp_path / "data" / "unsent").glob("new-*")] == ["not sent"]


def test_what_a_terminal_did_not_take_before_it_went_fails_no_later_flush() -> None:
    master, end = os.openpty()
    with open(end, "w") as file:
        driver = SimpleNamespace(_file=file)
        outlive_terminal(driver)
        os.close(master)
        driver._file.write("a frame")
        driver._file.flush()
        file.flush()  # As Python does when it ends.


async def test_an_answer_is_saved_when_its_terminal_goes(environment: dict[str, str], tmp_path: Path) -> None:
    async with ChatServer([Script(["Half of ", "an answer"], hold=True)]).listening() as port:
        environment |= {"OUTRIDER_REMOTE": f"http://127.0.0.1:{port}/v1", "OUTRIDER_MODE": "auto"}

        def sitting() -> None:
            with Terminal([*IGNORING, *CHAT], environment=environment, folder=REPOSITORY) as terminal:
                terminal.wait_for("Ask it anything")
                terminal.type("list files\r")
                terminal.wait_for("Half of an answer")
                terminal.hang_up()
                assert terminal.process.wait(PATIENCE_SECONDS) == 0

        await asyncio.to_thread(sitting)
    with Store(tmp_path / "data" / "outrider.db") as store:
        _, answer = store.messages.of(store.conversations.all()[0].id)
    assert (answer.status, answer.text) == ("stopped", "Half of an answer")


# ---- a paste ---------------------------------------------------------------------------------------------------------


COLOURED = "".join(f"\x1b[3{n % 8}mline {n}\x1b[0m \x1b[1;38;5;{n}mbold\x1b[m\r" for n in range(8))
PASTES = {
    "colours": COLOURED,
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
    with Terminal([sys.executable, "-m", "app.start"], environment=environment, folder=REPOSITORY) as terminal:
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
    assert questions(tmp_path) == []


def queued(home: Path) -> list[str]:
    database = home / "data" / "outrider.db"
    if not database.exists():
        return []
    with Store.open(database) as store:
        return [one.text for one in store.queue.all()]


def questions(home: Path) -> list[str]:
    """What was sent as it is."""
    with Store.open(home / "data" / "outrider.db") as store:
        return [message.text for one in store.conversations.all() for message in store.branches.thread(one.id)]
