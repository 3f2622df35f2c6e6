"""Keys in the shell: seconds until the command is in the line, until ghost text for each key, and the helper's memory.

    python -m benchmarks.shell [--repeats 3] [--shells bash zsh fish] [--json OUT]

It begins without a helper, in a home of its own, with the bundled pair.

- `cold`: the first request, which starts the helper and loads the models
- `client`: the process that a key runs, from start to end, with a loaded helper
- `bash`, `zsh`, `fish`: a real shell in a pseudo-terminal, from the key to the command on the screen
- `ghost`: from the request that zsh sends for a key to the reply, for each letter of each question from its third word
  on. Nothing is drawn
- `memory_mb`: of the helper, and of all processes that it started, with what they share counted once in each

Each figure is a median and a 95th percentile over all questions and repeats.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from app.shell.place import ROOT
from benchmarks.bundled import write
from benchmarks.processes import resident_mb
from tests.support.shells import COMMAND_KEY, KILL_LINE, NAMES, Name, ShellTerminal, environment_of, stop_helper

CLIENT = (sys.executable, "-I", "-S", str(Path(ROOT, "app", "shell", "__main__.py")))
QUESTIONS = (
    "unpack a tar.gz file",
    "show how much space is left on the disk",
    "list the files here by size",
    "make a script executable",
    "find all files that end in .log",
    "count the lines of a file",
    "show the last commits of this repository",
    "which process listens on a port",
    "copy a folder to another machine",
    "compress this folder into a zip file",
)
FEWEST_WORDS = 3


def client(kind: str, text: str, environment: Mapping[str, str]) -> tuple[float, str]:
    """Seconds of one request by the client that keys run, and the text of the answer."""
    begun = time.perf_counter()
    ran = subprocess.run([*CLIENT, kind, "bash"], input=text.encode(), env=environment, capture_output=True)
    seconds = time.perf_counter() - begun
    note, _, answer = ran.stdout.decode().partition("\n")
    if ran.returncode:
        raise SystemExit(f"no answer to {text!r}: {note}")
    return seconds, answer


def in_shell(
    name: Name, expected: Mapping[str, str], environment: Mapping[str, str], folder: Path, repeats: int
) -> Iterator[float]:
    """Seconds from the key to the command on the screen, for each question and repeat."""
    with ShellTerminal(name, environment, folder) as shell:
        shell.source()
        for question, command in [*expected.items()] * repeats:
            shell.press(question, question[-6:])
            begun = time.perf_counter()
            shell.press(COMMAND_KEY, command.split("\n")[0][:40])
            yield time.perf_counter() - begun
            shell.wait_for_line(command)
            shell.type(KILL_LINE)
            shell.wait_for_line("")


def ghost(path: str, question: str) -> Iterator[float]:
    """Seconds until the reply to each letter of a question, typed as fast as replies arrive."""
    for end in range(len(question) + 1):
        if len(question[:end].split()) < FEWEST_WORDS:
            continue
        request = {"kind": "ghost", "plain": True, "cwd": "/", "text": question[:end]}
        begun = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            line.sendall(json.dumps(request).encode() + b"\n")
            while not line.recv(4096).endswith(b"\n"):
                pass
        yield time.perf_counter() - begun


def memory(process: int) -> dict[str, float]:
    """Megabytes that a process and its descendants hold. Linux only."""
    return {"helper": round(psutil.Process(process).memory_info().rss / 1e6), "all": round(resident_mb(process))}


def spread(seconds: Sequence[float]) -> dict[str, float | int]:
    """Median and 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    at = min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))
    return {
        "p50_ms": round(statistics.median(ordered) * 1e3, 1),
        "p95_ms": round(ordered[at] * 1e3, 1),
        "n": len(ordered),
    }


def run(shells: Sequence[Name], repeats: int) -> dict[str, Any]:
    """All figures."""
    with tempfile.TemporaryDirectory() as root:
        home, runtime, folder = (Path(root, name) for name in ("home", "run", "here"))
        for path in (home, runtime, folder):
            path.mkdir()
        environment = environment_of(home, runtime, OUTRIDER_REMOTE="bundled")
        row: dict[str, Any] = {"repeats": repeats}
        try:
            row["cold_seconds"] = round(client("command", QUESTIONS[0], environment)[0], 2)
            expected = {question: client("command", question, environment)[1] for question in QUESTIONS}
            row["client"] = spread([client("command", one, environment)[0] for one in QUESTIONS * repeats])
            for shell in shells:
                row[shell] = spread([*in_shell(shell, expected, environment, folder, repeats)])
            (path,) = runtime.glob("*/*.sock")
            list(ghost(str(path), QUESTIONS[0]))
            row["ghost"] = spread([each for question in QUESTIONS for each in ghost(str(path), question)])
            row["memory_mb"] = memory(int(Path(f"{path}.lock").read_text()))
        finally:
            stop_helper(environment)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shells", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    row = run(arguments.shells, arguments.repeats)
    print(json.dumps(row))
    write(arguments.json, [row])


if __name__ == "__main__":
    main()
