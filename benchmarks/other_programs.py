"""What other programs keep of an answer when its connection breaks, and when they are killed in the middle of it.

    python -m benchmarks.other_programs [--llm PATH] [--codex PATH] [--opencode PATH] [--claude PATH]

A server on 127.0.0.1 speaks the APIs of OpenAI and Anthropic, and says fifteen words. For "broken" it then resets the
connection, however often it is asked; for "killed" it falls silent, and the program gets SIGKILL. Afterwards the
question and the words are looked for in every file below the program's home, which is a new one each time. Outrider is
asked too, without a model on the device. Updates and reports of the programs are switched off.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from app.cli.machine import machine
from benchmarks.bundled import REPOSITORY

QUESTION = "quuxfrobnicate"
"""No file of any program contains this word by itself."""
WORDS = [f"w{number}q " for number in range(1, 16)]
EVERY_SECONDS, SETTLED_SECONDS = 0.05, 1.0
LONGEST_SECONDS = 600.0
"""The most patient of them tries for several minutes."""


class Speaker(BaseHTTPRequestHandler):
    """Says the words in the form of the API that is asked, and then nothing more."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: stderr belongs to the table."""

    def do_HEAD(self) -> None:
        """Claude Code looks whether somebody is there."""
        self.whole({})

    def do_GET(self) -> None:
        """List the one model."""
        self.whole({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        """Begin an answer."""
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if self.path.split("?")[0].endswith("/count_tokens"):
            self.whole({"input_tokens": 10})
            return
        # Some programs ask for a title too.
        with self.server.lock:
            self.server.streams += bool(asked.get("stream"))
            self.server.whole_answers += not asked.get("stream")
        if not asked.get("stream"):
            self.cut()
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.begin()
        for word in WORDS:
            self.say(word)
            time.sleep(EVERY_SECONDS)
        if self.server.silent:
            self.server.spoken.set()
            self.server.over.wait()
        time.sleep(SETTLED_SECONDS)  # a reset takes away what was not read yet
        self.cut()

    def begin(self) -> None:
        """Send what the API has before the first word."""
        if "/responses" in self.path:
            self.event({"type": "response.created", "response": {"id": "r"}})
            item = {"id": "i", "type": "message", "role": "assistant", "content": []}
            self.event({"type": "response.output_item.added", "output_index": 0, "item": item})
        elif "/messages" in self.path:
            usage = {"input_tokens": 5, "output_tokens": 1}
            message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
            self.event({"type": "message_start", "message": message})
            self.event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})

    def say(self, word: str) -> None:
        """Send one word."""
        if "/responses" in self.path:
            place = {"item_id": "i", "output_index": 0, "content_index": 0}
            self.event({"type": "response.output_text.delta", **place, "delta": word})
        elif "/messages" in self.path:
            self.event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})
        else:
            choice = {"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}
            self.event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})

    def event(self, body: dict[str, Any]) -> None:
        """Send an event, with its name where the API names them."""
        name = f"event: {body['type']}\n" if "type" in body else ""
        data = f"{name}data: {json.dumps(body)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def whole(self, body: dict[str, Any]) -> None:
        """Send a whole answer."""
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def cut(self) -> None:
        """Reset the connection."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


class Server(ThreadingHTTPServer):
    """The server, and how often it was asked."""

    daemon_threads = True

    def __init__(self, silent: bool) -> None:
        super().__init__(("127.0.0.1", 0), Speaker)
        self.silent, self.lock, self.spoken, self.over = silent, threading.Lock(), threading.Event(), threading.Event()
        self.streams = self.whole_answers = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone, or a connection that was just reset, is what this is about."""


@contextlib.contextmanager
def serving(silent: bool) -> Iterator[Server]:
    """The server, while it runs."""
    server = Server(silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Program:
    """A program under test: what it runs in a home for a server's address, after it wrote its settings there."""

    name: str
    command: Callable[[Path, str], list[str]]
    version: tuple[str, ...]


def outrider(home: Path, address: str) -> list[str]:
    """Ours, without a model on this device."""
    own = [sys.executable, "-m", "app.cli"]
    added = [*own, "remote", "add", "cut", f"{address}/v1", "--kind", "openai", "--model", "m"]
    subprocess.run(added, check=True, env=environment(home, address), capture_output=True)
    return [*own, "ask", "--remote", "cut", QUESTION]


def llm(home: Path, address: str, program: str) -> list[str]:
    """Simon Willison's `llm`."""
    folder = home / ".config" / "io.datasette.llm"
    folder.mkdir(parents=True)
    (folder / "extra-openai-models.yaml").write_text(f'- model_id: cut\n  model_name: m\n  api_base: "{address}/v1"\n')
    return [program, "-m", "cut", QUESTION]


def codex(home: Path, address: str, program: str) -> list[str]:
    """OpenAI's Codex, without its screen."""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        'model = "m"\nmodel_provider = "cut"\ncheck_for_update_on_startup = false\n[analytics]\nenabled = false\n'
        f'[model_providers.cut]\nname = "cut"\nbase_url = "{address}/v1"\nwire_api = "responses"\n'
    )
    return [program, "exec", "--skip-git-repo-check", QUESTION]


def opencode(home: Path, address: str, program: str) -> list[str]:
    """Opencode, without its screen."""
    (home / ".config" / "opencode").mkdir(parents=True)
    options = {"baseURL": f"{address}/v1", "apiKey": "none"}
    cut = {"npm": "@ai-sdk/openai-compatible", "name": "cut", "options": options, "models": {"m": {"name": "m"}}}
    models = {"model": "cut/m", "small_model": "cut/m"}
    settings = {"autoupdate": False, "share": "disabled", **models, "provider": {"cut": cut}}
    (home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(settings))
    return [program, "run", QUESTION]


def claude(home: Path, address: str, program: str) -> list[str]:
    """Claude Code, without its screen."""
    return [program, "-p", QUESTION]


def environment(home: Path, address: str) -> dict[str, str]:
    """A home of its own, the server for those that take it from here, and nothing that is sent elsewhere."""
    return {
        "PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8",
        "OPENAI_API_KEY": "none", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "ANTHROPIC_BASE_URL": address, "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "m", "ANTHROPIC_SMALL_FAST_MODEL": "m", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
    }  # fmt: skip


def kept(home: Path) -> tuple[bool, int]:
    """Whether some file below the home has the question, and how many of the words."""
    question, words = False, 0
    for path in home.rglob("*"):
        if path.is_file() and "node_modules" not in path.parts:
            data = path.read_bytes()
            question = question or QUESTION.encode() in data
            words = max(words, sum(word.strip().encode() in data for word in WORDS))
    return question, words


def run(program: Program, silent: bool) -> str:
    """Ask once, and say what is left."""
    with tempfile.TemporaryDirectory(prefix="other-", ignore_cleanup_errors=True) as folder, serving(silent) as server:
        home, address = Path(folder), f"http://127.0.0.1:{server.server_port}"
        work = home / "work"
        work.mkdir()
        command, began = program.command(home, address), time.monotonic()
        process = subprocess.Popen(
            command, cwd=work, env=environment(home, address), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            if silent:
                server.spoken.wait(120)
                time.sleep(5 * SETTLED_SECONDS)  # what it writes now and then has been written
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LONGEST_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        seconds, (question, words) = time.monotonic() - began, kept(home)
        asked = f"{server.streams} streams, {server.whole_answers} whole answers, {seconds:.0f} s; "
        return f"{'' if silent else asked}question {'kept' if question else 'gone'}, {words} of {len(WORDS)} words"


def main() -> None:
    """Ask each program twice and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    others = {"llm": llm, "codex": codex, "opencode": opencode, "claude": claude}
    for name in others:
        parser.add_argument(f"--{name}", metavar="PATH", help="where it is; left out without this")
    arguments = vars(parser.parse_args())
    programs = [Program("outrider", outrider, (sys.executable, "-m", "app.cli", "--version"))]
    for name, prepare in others.items():
        if path := arguments[name]:
            at = str(Path(path).absolute())

            def command(home: Path, address: str, prepare: Any = prepare, at: str = at) -> list[str]:
                return list(prepare(home, address, at))

            programs.append(Program(name, command, (at, "--version")))
    print(machine())
    for program in programs:
        version = subprocess.run(program.version, capture_output=True, text=True, check=False).stdout.strip()
        print(f"{program.name} ({version})")
        print(f"  broken: {run(program, silent=False)}")
        print(f"  killed: {run(program, silent=True)}", flush=True)


if __name__ == "__main__":
    main()
