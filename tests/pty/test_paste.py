"""A paste into the prompt on a real terminal: it stays text, in its order, and nothing is sent."""

from __future__ import annotations

import sys
from pathlib import Path

from app.sanitise import sanitise_paste
from storage import Store
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

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
