"""Bytes a second that the terminal receives while an answer streams: what `outrider chat` costs a line over SSH.

    python -m benchmarks.terminal_bytes [--tokens-per-second N ...] [--seconds N] [--ssh] [--json OUT]

The real program runs on a pseudo-terminal, with a stored conversation and a list of others. An OpenAI-compatible server
on loopback streams Markdown with code. Counted is what arrives from the first token on until a moment after the last.
`--ssh`: as in a session over SSH.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.cli.machine import machine
from benchmarks.bundled import REPOSITORY, write
from benchmarks.screen import ANSWERS, TOKEN_CHARACTERS, write_conversation
from storage import Store
from tests.support.chat_server import ChatServer, Script, in_thread
from tests.support.terminal import Terminal

SIZES = ((24, 80), (36, 120))
"""Lines and columns."""
OTHERS = 40
"""Conversations in the list besides the open one."""
SETTLED_SECONDS = 1.0
"""After the last token."""


class Stream:
    """An answer that is sent at its speed whatever the machine does, and when its tokens went out."""

    def __init__(self, tokens_per_second: float, seconds: float) -> None:
        self.begun = self.ended = 0.0
        self._speed, self._count = tokens_per_second, round(tokens_per_second * seconds)

    def __iter__(self) -> Iterator[str]:
        text = "".join(itertools.islice(itertools.cycle("\n".join(ANSWERS)), self._count * TOKEN_CHARACTERS))
        self.begun = time.monotonic()
        for number in range(self._count):
            if (early := self.begun + number / self._speed - time.monotonic()) > 0:
                time.sleep(early)  # The server has a thread of its own.
            yield text[number * TOKEN_CHARACTERS : (number + 1) * TOKEN_CHARACTERS]
        self.ended = time.monotonic()


def measure(size: tuple[int, int], tokens_per_second: float, seconds: float, *, ssh: bool = False) -> dict[str, float]:
    """Bytes a second of one answer."""
    stream = Stream(tokens_per_second, seconds)
    with (
        tempfile.TemporaryDirectory() as home,
        in_thread(ChatServer([Script(stream)]).listening()) as port,
    ):
        with Store.open(Path(home) / "data" / "outrider.db") as store:
            for number in range(OTHERS):
                other = store.conversations.create(f"{number}. conversation about something else").id
                store.messages.add(other, "user", "Any question", parent_id=None, status="done")
            write_conversation(store, 10)
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY),
            "OUTRIDER_HOME": home,
            "OUTRIDER_MODE": "auto",
            "OUTRIDER_REMOTE": f"http://127.0.0.1:{port}/v1",
        }
        if ssh:
            environment["SSH_CONNECTION"] = "192.0.2.1 50000 192.0.2.2 22"
        command = [sys.executable, "-m", "app.start", "chat", "--continue"]
        with Terminal(command, environment=environment, folder=REPOSITORY, size=size) as terminal:
            terminal.wait_for("talker")
            terminal.type("Tell me all of it\r")
            terminal.wait_for(lambda: stream.begun > 0)
            before = len(terminal.raw)
            while not stream.ended or time.monotonic() < stream.ended + SETTLED_SECONDS:
                terminal.read(0.05)
            raw, took = terminal.raw[before:], time.monotonic() - stream.begun
            terminal.type("\x11")
            terminal.end()
    row = {"lines": size[0], "columns": size[1], "tokens_per_second": tokens_per_second}
    return {**row, "bytes_per_second": round(len(raw) / took)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens-per-second", type=float, nargs="+", default=[30.0, 100.0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--ssh", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for size, speed in itertools.product(SIZES, options.tokens_per_second):
        rows.append(measure(size, speed, options.seconds, ssh=options.ssh))
        kilobytes = rows[-1]["bytes_per_second"] / 1000
        print(f"{size[1]}x{size[0]}, {speed:3.0f} tokens/s: {kilobytes:5.1f} kB/s", flush=True)
    write(options.json, rows, machine(), ssh=options.ssh)


if __name__ == "__main__":
    main()
