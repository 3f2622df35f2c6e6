"""Real model servers, and a person's experience with each: found, added, picked, answered, stopped, killed and so on.

    python -m benchmarks.servers [--llama-server PROGRAM --gguf FILE --endless-gguf FILE] [--transformers PYTHON]
                                 [--llama-cpp-python PYTHON] [--ollama PROGRAM] [--local GGUF] [--json OUT]
    python -m benchmarks.servers --write-endless DIR

Outrider's own server is always tried; the others are programs that you have installed. Each runs at its usual port on
loopback, so nothing else may listen there. `endless` is the bundled model without the token that ends an answer, so
that there is time to stop an answer. It is written by `--write-endless`; convert it and the bundled model with
llama.cpp's `convert_hf_to_gguf.py`.

Every check is a command of Outrider in a home of its own. A row has the exit code and what was said.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.machine import machine
from benchmarks.bundled import REPOSITORY, TARGET, write
from benchmarks.service import Running, Server

KEY, WRONG_KEY = "a-key-that-tests-may-know", "a-key-that-is-wrong"
QUESTION = "unpack a.tar.gz"
ANSWER_SECONDS = 300.0


@dataclass(frozen=True)
class Program:
    """A program that serves a model at its usual port.

    `command`: with `{model}` and `{port}`; `key`: the options that set its key, empty if it supports none. `models`:
    the bundled model, and the endless one. `name`: under which it lists the first, or None for the first one listed.
    """

    title: str
    port: int
    command: tuple[str, ...]
    key: tuple[str, ...]
    models: tuple[str, str]
    asked: bool = False
    """Whether its model is requested by path."""

    def running(self, model: str, *, key: bool = False) -> Running:
        """Its process, as a context manager. Exits with a message if it does not start."""
        command = (*self.command, *(part.format(key=KEY) for part in (self.key if key else ())))
        return Running(Server(self.title, tuple(part.replace("{model}", model) for part in command), port=self.port))


class Person:
    """Runs Outrider's commands in a home of their own."""

    def __init__(self, home: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
        self._environment = {**kept, "OUTRIDER_HOME": home, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}

    def run(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app.cli", *words],
            cwd=REPOSITORY,
            env=self._environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
        )

    def interrupted(self, *words: str, then: Callable[[subprocess.Popen[str]], None]) -> tuple[int, str, str]:
        """Run a command, call `then` when the answer has begun; returns the exit code, stdout and stderr."""
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *words],
            cwd=REPOSITORY,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )
        assert process.stdout is not None
        begun = process.stdout.read(20)
        then(process)
        said, told = process.communicate(timeout=ANSWER_SECONDS)
        return process.returncode, begun + said, told

    def last_answer(self) -> dict[str, Any]:
        """The newest answer as it is stored."""
        exported = json.loads(self.run("export", "--all", "--format", "json").stdout)
        newest = max(exported["conversations"], key=lambda one: one["updated"])
        return dict(newest["messages"][-1])


def hear_interrupts() -> None:
    """Undo what a shell does to a background command, which makes it and its children ignore interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def row(server: Program, check: str, right: bool | None, said: str) -> dict[str, object]:
    """`right`: None if there is nothing to check on the server."""
    return {"server": server.title, "check": check, "right": right, "said": " ".join(said.split())[:300]}


def told_last(text: str) -> str:
    """The last line of the messages."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def checks(server: Program) -> Iterator[dict[str, object]]:
    """A row for each check."""
    bundled, endless = server.models
    with tempfile.TemporaryDirectory() as home:
        person = Person(home)
        with server.running(bundled) as running:
            yield from _greeted(server, running, person)
            yield from _answered(server, person)
        with server.running(endless) as running:
            yield from _broken_off(server, running, person)
        if not server.key:
            yield row(server, "wrong key", None, "it takes no key")
            return
        with server.running(bundled, key=True):
            wrong = person.run("remote", "token", "tried", "--token-stdin", typed=WRONG_KEY)
            ran = person.run("ask", "--remote", "tried", QUESTION)
            refused = wrong.returncode == 0 and ran.returncode != 0 and WRONG_KEY not in ran.stderr
            yield row(server, "wrong key", refused, f"exit {ran.returncode}: {told_last(ran.stderr)}")


def _greeted(server: Program, running: Running, person: Person) -> Iterator[dict[str, object]]:
    """Found, added and picked."""
    found = person.run("remote", "find", "--json")
    here = [line for line in found.stdout.splitlines() if f":{server.port}" in line]
    yield row(server, "found", bool(here), here[0] if here else told_last(found.stderr) or "not listed")
    model = ["--model", server.models[0]] if server.asked else []
    added = person.run("remote", "add", "tried", running.url, *model)
    yield row(server, "added", added.returncode == 0, told_last(added.stderr + added.stdout))
    listed = person.run("models", "--remote", "tried", "--json")
    lines = listed.stdout.splitlines()
    yield row(server, "picked", listed.returncode == 0 and bool(lines), lines[0] if lines else told_last(listed.stderr))


def _answered(server: Program, person: Person) -> Iterator[dict[str, object]]:
    """An answer that ends by itself, and a question that is too long."""
    ran = person.run("ask", "--remote", "tried", "--json", QUESTION)
    answer = json.loads(ran.stdout) if ran.returncode == 0 else {}
    yield row(server, "answered", bool(answer.get("text")), answer.get("text") or told_last(ran.stderr))
    long = person.run("ask", "--remote", "tried", "-", typed="word " * 6000)
    yield row(server, "context", long.returncode != 0, f"exit {long.returncode}: {told_last(long.stderr)}")


def _broken_off(server: Program, running: Running, person: Person) -> Iterator[dict[str, object]]:
    """Stopped by Ctrl+C, and killed in the middle of an answer: the received part is kept."""
    model = ["--model", server.models[1]] if server.asked else []
    asked = ("ask", "--remote", "tried", *model, QUESTION)
    code, said, told = person.interrupted(*asked, then=lambda process: process.send_signal(signal.SIGINT))
    kept = str(person.last_answer()["text"])
    right = code == 130 and bool(kept.strip()) and kept.startswith(said.strip()[:20])
    yield row(server, "stopped", right, f"exit {code}, {len(kept)} characters kept: {told_last(told)}")
    code, said, told = person.interrupted(*asked, then=lambda process: running.kill())
    kept = str(person.last_answer()["text"])
    yield row(server, "killed", bool(kept.strip()), f"exit {code}, {len(kept)} characters kept: {told_last(told)}")


def write_endless(folder: Path) -> None:
    """Write the bundled model with a zero embedding for the token that ends an answer, so that answers never end."""
    from transformers import AutoTokenizer

    from models.engines.target import load_target

    model = load_target(str(TARGET), device="cpu").model
    tokenizer = AutoTokenizer.from_pretrained(TARGET)
    model.get_input_embeddings().weight.data[tokenizer.eos_token_id] = 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", metavar="PROGRAM", help="llama.cpp's server, with options if it needs any")
    parser.add_argument("--llama-cpp-python", metavar="PYTHON", help="a Python with llama-cpp-python[server]")
    parser.add_argument("--transformers", metavar="PYTHON", help="a Python with transformers[serving]")
    parser.add_argument("--gguf", type=Path, help="the bundled model for llama.cpp")
    parser.add_argument("--endless-gguf", type=Path, help="the endless model for llama.cpp")
    parser.add_argument("--write-endless", type=Path, metavar="DIR", help="write the endless model there, and end")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    if arguments.write_endless:
        write_endless(arguments.write_endless)
        return
    if (arguments.llama_server or arguments.llama_cpp_python) and not (arguments.gguf and arguments.endless_gguf):
        parser.error("llama.cpp needs --gguf and --endless-gguf")
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as work:
        write_endless(Path(work))
        for server in servers(arguments, Path(work)):
            for found in checks(server):
                mark = {True: "✓", False: "✗", None: "–"}[found["right"]]  # type: ignore[index]
                print(f"{mark} {found['server']:<20} {found['check']:<10} {found['said']}", flush=True)
                rows.append(found)
    write(arguments.json, rows, machine())


def servers(arguments: argparse.Namespace, endless: Path) -> Iterator[Program]:
    """The servers to try."""
    checkpoints = (str(TARGET), str(endless))
    own = (sys.executable, "-m", "app.cli", "serve", "--model", "{model}", "--no-drafter")
    own += ("--host", "127.0.0.1", "--port", "{port}")
    with tempfile.NamedTemporaryFile("w", suffix=".key") as file:
        file.write(KEY)
        file.flush()
        os.chmod(file.name, 0o600)
        yield Program("outrider serve", 8000, own, ("--token-file", file.name), checkpoints)
    if arguments.llama_server:
        files = (str(arguments.gguf), str(arguments.endless_gguf))
        command = (*shlex.split(arguments.llama_server), "-m", "{model}", "--port", "{port}")
        command += ("-t", "1", "-c", "2048", "-np", "1")
        yield Program("llama.cpp", 8080, command, ("--api-key", "{key}"), files)
    if arguments.llama_cpp_python:
        files = (str(arguments.gguf), str(arguments.endless_gguf))
        command = (arguments.llama_cpp_python, "-m", "llama_cpp.server", "--model", "{model}", "--port", "{port}")
        yield Program("llama-cpp-python", 8000, command, ("--api_key", "{key}"), files)
    if arguments.transformers:
        launcher = str(Path(arguments.transformers).with_name("transformers"))
        command = (launcher, "serve", "--host", "127.0.0.1", "--port", "{port}", "--device", "cpu")
        yield Program("transformers serve", 8000, command, (), checkpoints, asked=True)


if __name__ == "__main__":
    main()
