"""Seconds until a question leaves this device, in conversations of a hundred to ten thousand messages.

    python -m benchmarks.long_conversations [--messages N ...] [--repeats N] [--before FILE] [--json OUT]

Questions have 150 characters on average and answers 700: Markdown with commands. A server behind OpenAI's API has
written the answers. It runs in this process, on loopback, and notes when the head of a request is there.

- `chat`: the real screen on a pseudo-terminal, with the conversation open; from Enter to the request
- `ask`: the same in a new process, from its start to the request; in a new conversation, it is the price of the start
- `gateway`: a program sends the whole conversation, from its first byte to the request; first, and with a question more
- `drafted`: the conversation as tokens, as a server needs it that checks drafts, and as many messages as such a server
  can read; first, and with a question more

`--before`: the results of an earlier version, which stand beside these.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from app.cli.machine import machine
from app.config import BUNDLED_DRAFTER, Folders
from benchmarks.screen import ANSWERS
from storage import Store
from tests.support.gateways import CHAT, GatewayProcess
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal

MESSAGES = (2, 100, 400, 3_000, 10_000)
DOORS = ("chat", "ask", "gateway", "gateway again")
QUESTION = "And what else should I know before I run this on the server?"
QUESTIONS = (
    "I have a .tar.gz file of holiday photos on an external disk. How do I unpack only the folder of last summer?",
    "My disk is nearly full, although I have deleted a lot in the last weeks. What is eating it, and how do I find the "
    "largest folders without walking through all of them by hand?",
    "How would a script look that tidies a folder every night, and that tells me on the next morning what it removed?",
    "I want to sort a file of numbers, the largest first and each of them only once. Some lines have a unit behind the "
    "number, as in `12 kB`. Does that matter?",
)
PATIENCE_SECONDS = 600.0


# ---- the server ------------------------------------------------------------------------------------------------------


class Talker(ThreadingHTTPServer):
    """Answers every question with one word, and notes when each request for it was there."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.came: list[float] = []
        self.changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next(self, known: int) -> float:
        """`time.perf_counter()` at the head of the request that comes after `known` ones."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.came) > known, PATIENCE_SECONDS):
                raise SystemExit(f"no question came within {PATIENCE_SECONDS:.0f} s")
            return self.came[known]


class _Page(BaseHTTPRequestHandler):
    server: Talker

    def do_GET(self) -> None:
        self._send(
            json.dumps({"object": "list", "data": [{"id": "talker", "owned_by": "somebody"}]}), "application/json"
        )

    def do_POST(self) -> None:
        with self.server.changed:
            self.server.came.append(time.perf_counter())
            self.server.changed.notify_all()
        self.rfile.read(int(self.headers["Content-Length"]))
        chunks = [{"delta": {"content": "Nothing."}}, {"delta": {}, "finish_reason": "stop"}]
        said = "".join(f"data: {json.dumps({'choices': [chunk]})}\n\n" for chunk in chunks)
        self._send(f"{said}data: [DONE]\n\n", "text/event-stream")

    def _send(self, said: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def talking() -> Iterator[Talker]:
    """The server, as long as the block runs."""
    with Talker() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


# ---- what is said ----------------------------------------------------------------------------------------------------


def turns(messages: int) -> list[tuple[str, str]]:
    """(role, text) of so many messages. No two are alike."""
    said = []
    for number in range(messages // 2):
        said.append(("user", f"{QUESTIONS[number % len(QUESTIONS)]} (Case {number}.)"))
        answer = f"{ANSWERS[number % len(ANSWERS)]}\n{ANSWERS[(number + 1) % len(ANSWERS)]}"
        said.append(("assistant", f"{answer}\nThat was case {number}.\n"))
    return said


def write_conversation(database: Path, said: Sequence[tuple[str, str]]) -> None:
    """Store a conversation as a server's answers are stored."""
    with Store.open(database) as store:
        conversation, parent = store.conversations.create("A long one").id, None
        for question, answer in zip(said[::2], said[1::2]):
            pending = store.messages.ask(conversation, question[1], parent_id=parent)
            stats = {"model": "talker", "reason": "end", "streamed": len(answer[1]) // 4, "temperature": 0.0}
            store.messages.finish(pending.id, (), (), answer[1], "done", stats)
            parent = pending.id


# ---- what is measured ------------------------------------------------------------------------------------------------


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    return {**kept, "OUTRIDER_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}


def in_the_chat(home: Path, server: Talker, repeats: int) -> list[float]:
    """Seconds from Enter to the request, once for each question in one window."""
    command = [sys.executable, "-m", "app.start", "chat", "-c", "--remote", server.url]
    taken = []
    with Terminal(command, environment=environment(home), size=(40, 120)) as terminal:
        terminal.wait_for("talker")
        for number in range(repeats):
            _rest(terminal)
            word = f"жзий{number}"
            terminal.type(f"{QUESTION} {word}")
            terminal.wait_for(word)
            _rest(terminal)
            known, began = len(server.came), time.perf_counter()
            terminal.type("\r")
            found = threading.Event()
            threading.Thread(target=lambda: (server.next(known), found.set()), daemon=True).start()  # noqa: B023
            terminal.wait_for(found.is_set, PATIENCE_SECONDS)
            taken.append(server.came[known] - began)
        _rest(terminal)
        terminal.type("\x11")
        terminal.end()
    return taken


def _rest(terminal: Terminal) -> None:
    """Read until nothing has come for a second: the screen has counted and drawn what it wants to."""
    while terminal.read(1.0):
        pass


def by_ask(home: Path, server: Talker, repeats: int) -> list[float]:
    """Seconds from the start of a process to its request."""
    taken = []
    for _ in range(repeats):
        known, began = len(server.came), time.perf_counter()
        command = [sys.executable, "-m", "app.start", "ask", "-c", "--remote", server.url, QUESTION]
        subprocess.run(command, env=environment(home), stdin=subprocess.DEVNULL, check=True, capture_output=True)
        taken.append(server.next(known) - began)
    return taken


def through_the_gateway(home: Path, server: Talker, said: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Seconds to the request for a conversation that is new to the gateway, and with a question more."""
    messages = [{"role": role, "content": text} for role, text in said]
    taken = []
    with GatewayProcess(home, BUNDLED_DRAFTER, server.url) as gateway:
        for at in range(3):
            # The first one only wakes the gateway up.
            asked = [{"role": "user", "content": f"{QUESTION} {at}"}]
            messages += asked if at else []
            body = {"model": "outrider", "messages": messages if at else asked}
            known = len(server.came)
            with httpx.Client(timeout=PATIENCE_SECONDS, trust_env=False) as client:
                began = time.perf_counter()
                answer = client.post(f"{gateway.url}{CHAT}", json=body)
            if answer.status_code != 200:
                raise SystemExit(f"the gateway refuses {len(messages)} messages: {answer.text[:300]}")
            taken.append(server.next(known) - began)
            messages.append(answer.json()["choices"][0]["message"])
    return taken[1], taken[2]


def measure(messages: int, repeats: int) -> Iterator[dict[str, Any]]:
    """A row for each way to ask."""
    said = turns(messages)
    with talking() as server, tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_conversation(Folders.locate({"OUTRIDER_HOME": str(home)}).database, said)
        yield _row("chat", messages, in_the_chat(home, server, repeats))
        yield _row("ask", messages, by_ask(home, server, repeats))
        both = [through_the_gateway(home / f"gateway-{number}", server, said) for number in range(repeats)]
        yield _row("gateway", messages, [first for first, _ in both])
        yield _row("gateway again", messages, [again for _, again in both])


def _row(door: str, messages: int, taken: Sequence[float]) -> dict[str, Any]:
    median, longest = (round(value, 3) for value in (statistics.median(taken), max(taken)))
    return {"door": door, "messages": messages, "seconds": median, "longest": longest}


def compared(rows: Sequence[dict[str, Any]], before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with the seconds of an earlier version if it was measured."""
    earlier = {(row["door"], row["messages"]): row["seconds"] for row in before}
    return [{**row, "before": earlier.get((row["door"], row["messages"]))} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=MESSAGES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for messages in arguments.messages:
        for row in measure(messages, arguments.repeats):
            rows.append(row)
            print(f"{messages:>6} messages, {row['door']:<14} {row['seconds']:>7.3f} s", file=sys.stderr)
    before = json.loads(arguments.before.read_text(encoding="utf-8"))["rows"] if arguments.before else []
    document = {"machine": machine(), "repeats": arguments.repeats, "rows": compared(rows, before)}
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
