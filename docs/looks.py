"""Take the pictures of docs/comparison.md: Outrider and other terminal programs, with the same words, at three sizes.

    python docs/looks.py OTHERS [FOLDER]

`OTHERS` holds a virtual environment for each of the others, named after it: elia (`pip install elia-chat`), posting and
toad (`batrachian-toad`, which wants Python 3.14). Those that are not there are left out. Each program runs in tmux, and
its screen is drawn as it is after the answer. The answer stands in this file, so that the looks can be compared: a
server on 127.0.0.1 says it, and to toad this file says it as an agent of the Agent Client Protocol.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console

SIZES = ((80, 24), (120, 36), (200, 50))
QUESTION = "How do I find the ten largest files below here?"
ANSWER = """\
Print the size of each file, sort by it, and keep the **ten largest**:

```sh
find . -type f -printf '%s %p\\n' | sort -rn | head -n 10
```

- `-printf '%s %p\\n'` prints bytes and path.
- `sort -rn` puts the largest number first.

| Option | What it does |
|---|---|
| `-type f` | files alone, no folders |
| `-size +100M` | only those above 100 MiB |
"""
PATIENCE_SECONDS, SETTLED_SECONDS, TRIES = 60.0, 2.0, 8


@dataclass(frozen=True)
class Program:
    """One of the programs, for a server at `port` and in a home of its own."""

    command: Callable[[Path, int], list[str]]
    """How it is started. The folder: its home, where it may put settings first."""
    keys: tuple[str, ...] = ()
    """What is typed when it has drawn itself, as tmux calls keys; a text with a space is typed as it is."""
    begins: str = ""
    """Text that its screen shows when it takes keys."""
    ends: str = "only those above"
    """Text of the end of the answer: the picture is taken when it stands on the screen."""


# ---- what answers ----------------------------------------------------------------------------------------------------


class Server(BaseHTTPRequestHandler):
    """Says the answer as an OpenAI-compatible server does, at once or as a stream."""

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": [{"id": "guide", "object": "model"}]}))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not asked.get("stream"):
            message = {"role": "assistant", "content": ANSWER}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send("application/json", json.dumps({"object": "chat.completion", "choices": [choice]}))
            return
        words = [({"content": word}, None) for word in re.split(r"(?<=\s)(?=\S)", ANSWER)]
        deltas = [({"role": "assistant"}, None), *words, ({}, "stop")]
        about = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "guide"}
        choices = [{"index": 0, "delta": delta, "finish_reason": reason} for delta, reason in deltas]
        events = [json.dumps({**about, "choices": [choice]}) for choice in choices]
        self._send("text/event-stream", "".join(f"data: {event}\n\n" for event in (*events, "[DONE]")))

    def _send(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def be_agent() -> None:
    """Say the answer to a client of the Agent Client Protocol, over stdin and stdout."""
    results = {
        "initialize": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []},
        "session/new": {"sessionId": "1"},
        "session/prompt": {"stopReason": "end_turn"},
    }
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("method") == "session/prompt":
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ANSWER}}
            told = {"method": "session/update", "params": {"sessionId": "1", "update": update}}
            print(json.dumps({"jsonrpc": "2.0", **told}), flush=True)
        if "id" in asked:
            result = results.get(asked.get("method"), {})
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


# ---- the programs ----------------------------------------------------------------------------------------------------


def programs(others: Path) -> dict[str, Program]:
    """Outrider, and the others that are there."""

    def outrider(home: Path, port: int) -> list[str]:
        found = f"PYTHONPATH={Path(__file__).parents[1]}"
        return ["env", found, sys.executable, "-m", "app.start", "chat", "--remote", f"http://127.0.0.1:{port}"]

    def elia(home: Path, port: int) -> list[str]:
        settings = home / ".config/elia/config.toml"
        settings.parent.mkdir(parents=True)
        model = {"id": "guide", "name": "openai/guide", "display_name": "guide", "api_key": "none"}
        model["api_base"] = f"http://127.0.0.1:{port}/v1"
        lines = ['default_model = "guide"', "[[models]]", *(f'{name} = "{value}"' for name, value in model.items())]
        settings.write_text("\n".join(lines) + "\n")
        return [str(others / "elia/bin/elia"), QUESTION]

    def posting(home: Path, port: int) -> list[str]:
        folder = home / "requests"
        folder.mkdir()
        body = json.dumps({"model": "guide", "messages": [{"role": "user", "content": QUESTION}]})
        request = {"name": "Ask", "method": "POST", "url": f"http://127.0.0.1:{port}/v1/chat/completions"}
        request |= {"body": {"content": body, "content_type": "application/json"}}
        (folder / "ask.posting.yaml").write_text(json.dumps(request))  # JSON is YAML.
        hidden = "POSTING_HEADING__SHOW_HOST=false"  # The name of the machine is nobody's business.
        return ["env", hidden, str(others / "posting/bin/posting"), "--collection", str(folder)]

    def toad(home: Path, port: int) -> list[str]:
        agent = home / "guide"
        agent.write_text(f"#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} --agent\n")
        agent.chmod(0o700)
        return [str(others / "toad/bin/toad"), "acp", str(agent), str(home)]

    found = {"outrider": Program(outrider, (QUESTION, "Enter"), "How do I")}
    rest = {
        "elia": Program(elia),
        "posting": Program(posting, ("C-o", "Tab", "Down", "Enter", "C-j"), "Ask", "chat.completion"),
        "toad": Program(toad, (QUESTION, "Enter"), "How can I help you today?"),
    }
    return {**found, **{name: one for name, one in rest.items() if (others / name / "bin" / name).exists()}}


def seen(program: Program, port: int, columns: int, lines: int) -> str:
    """`screen`, tried again where the program ends early: posting crashes now and then."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(subprocess.CalledProcessError):
            return screen(program, port, columns, lines)
    return screen(program, port, columns, lines)


def screen(program: Program, port: int, columns: int, lines: int) -> str:
    """What the program shows after the answer, with its colours as control sequences."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        tmux = ["tmux", "-S", str(home / "socket"), "-f", "/dev/null"]
        given = {
            "HOME": str(home),
            "OUTRIDER_HOME": str(home / "outrider"),
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
        }
        environment = [part for pair in given.items() for part in ("-e", "=".join(pair))]
        size = ["-x", str(columns), "-y", str(lines)]
        run(tmux, "new-session", "-d", *size, *environment, "-c", str(home), *program.command(home, port))
        try:
            until(lambda: program.begins in run(tmux, "capture-pane", "-p"))
            time.sleep(SETTLED_SECONDS)
            for key in program.keys:
                run(tmux, "send-keys", *(["-l"] if " " in key else []), key)
                time.sleep(SETTLED_SECONDS / 4)
            until(lambda: program.ends in run(tmux, "capture-pane", "-p"))
            time.sleep(SETTLED_SECONDS)
            return run(tmux, "capture-pane", "-e", "-N", "-p")
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def run(tmux: list[str], *arguments: str) -> str:
    return subprocess.run([*tmux, *arguments], check=True, capture_output=True, text=True).stdout


def until(true: Callable[[], bool]) -> None:
    """Wait for it, at most `PATIENCE_SECONDS`: what does not come is missing in the picture."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while not true() and time.monotonic() < ends:
        time.sleep(0.1)


def drawn(shown: str, columns: int, title: str) -> str:
    """An SVG of a terminal's screen."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in AnsiDecoder().decode(shown.rstrip("\n")):
        console.print(line, no_wrap=True, crop=True)
    return console.export_svg(title=title, unique_id=re.sub(r"\W+", "-", title))


def pictures(others: Path, folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, program in programs(others).items():
        for columns, lines in SIZES:
            shown = seen(program, server.server_address[1], columns, lines)
            path = folder / f"{name}-{columns}x{lines}.svg"
            path.write_text(drawn(shown, columns, f"{name}, {columns} x {lines}"), encoding="utf-8")
            yield path
    server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("others", type=Path, metavar="OTHERS")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "looks", metavar="FOLDER")
    arguments = parser.parse_args()
    for path in pictures(arguments.others.resolve(), arguments.folder):
        print(os.path.relpath(path))


if __name__ == "__main__":
    be_agent() if sys.argv[1:] == ["--agent"] else main()
