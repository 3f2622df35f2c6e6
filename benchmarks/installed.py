"""From a checkout to the first checked answer, without PyTorch and with it: seconds, disk, memory, and what idles.

    python -m benchmarks.installed [--repeats 3] [--json OUT]

Each way gets a virtual environment of its own, into which pip installs this checkout, and an empty home. There the
bundled model answers: `outrider ask` for the first time and again, then the chat on a pseudo-terminal with its own
server. Once the answer is complete, memory is measured, followed by half a minute without input.

`base` is what `make chat` installs. `server` has PyTorch and all that other models need; the bundled one does not, and
runs as before. So the server is also started alone with each engine. If pip installs from local files, downloading
them takes additional time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.bundled import DRAFTER, REPOSITORY, TARGET, write
from benchmarks.processes import cpu_seconds, resident_mb
from benchmarks.real_run import Serving
from tests.support.terminal import Terminal

TORCH = f"torch=={version('torch')}"
QUESTION = "How do I list the files in a folder, the newest first?"
IDLE_SECONDS = 30.0
SETTLING_SECONDS = 5.0
"""By then, work left over from an answer is done."""
START_SECONDS = 120.0
CHECKED = re.compile(r"\d (?:tokens )?checked")
"""The chat's text below a checked answer, or in its status bar."""


@dataclass(frozen=True)
class Way:
    """What is installed.

    `extra`: of the package. `engines`: those with which a server can then run the bundled model.
    """

    name: str
    extra: str
    engines: tuple[str, ...]


WAYS = (Way("base", "", ("onnx",)), Way("server", "[server]", ("onnx", "torch")))


@dataclass(frozen=True)
class Installed:
    """A virtual environment with Outrider."""

    folder: Path
    seconds: float
    """Seconds that pip took."""

    @property
    def outrider(self) -> str:
        return str(self.folder / "bin" / "outrider")

    @property
    def disk_mb(self) -> float:
        """Megabytes of everything installed."""
        return sum(one.lstat().st_size for one in (self.folder / "lib").rglob("*") if not one.is_dir()) / 1e6


def install(way: Way, folder: Path) -> Installed:
    """Install this checkout into a new virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    begun = time.perf_counter()
    # As the Makefile does: the build for processors, from wherever pip finds it.
    if way.extra and subprocess.run([*pip, TORCH], cwd=folder, stderr=subprocess.DEVNULL).returncode:
        subprocess.run([*pip, "--requirement", str(REPOSITORY / "requirements-cpu.txt")], check=True, cwd=folder)
    subprocess.run([*pip, f"{REPOSITORY}{way.extra}"], check=True, cwd=folder)
    return Installed(folder, time.perf_counter() - begun)


def environment(home: Path) -> dict[str, str]:
    """The environment of a person who has just installed Outrider."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home), "OUTRIDER_HOME": str(home / "own")}


def asked(installed: Installed, home: Path) -> float:
    """Seconds of `outrider ask`, from its start to its end. Each token must be a checked one."""
    begun = time.perf_counter()
    command = [installed.outrider, "ask", "--json", QUESTION]
    done = subprocess.run(command, cwd=home, env=environment(home), check=True, capture_output=True, text=True)
    seconds, provenance = time.perf_counter() - begun, json.loads(done.stdout)["provenance"]
    if provenance["drafted"] or not provenance["verified"]:
        raise SystemExit(f"not all of the answer was checked: {provenance}")
    return seconds


def chatted(installed: Installed, home: Path) -> dict[str, float]:
    """The chat: `answer_seconds` until its first answer is checked, then memory and CPU time at rest."""
    with Terminal([installed.outrider], environment=environment(home), folder=home, size=(36, 120)) as terminal:
        terminal.wait_for("local", START_SECONDS)
        ready = time.perf_counter() - terminal.begun
        terminal.type(f"{QUESTION}\r")
        terminal.wait_for(lambda: CHECKED.search(terminal.text) is not None, START_SECONDS)
        answer = time.perf_counter() - terminal.begun
        _read_for(terminal, SETTLING_SECONDS)
        process = terminal.process.pid
        before = cpu_seconds(process)
        _read_for(terminal, IDLE_SECONDS)
        return {
            "ready_seconds": ready,
            "answer_seconds": answer,
            "resident_mb": resident_mb(process),
            "idle_cores": (cpu_seconds(process) - before) / IDLE_SECONDS,
        }


def _read_for(terminal: Terminal, seconds: float) -> None:
    """Read the output, so that the program never waits for its terminal."""
    deadline = time.perf_counter() + seconds
    while (left := deadline - time.perf_counter()) > 0:
        terminal.read(left)


def served(installed: Installed, engine: str, home: Path) -> dict[str, float]:
    """A server of the bundled model alone, with one engine, and one question to it."""
    pair = (f"--model={TARGET}", f"--drafter={DRAFTER}")  # An install has no weights for PyTorch.
    with Serving((installed.outrider, "serve", f"--engine={engine}", "--port=0", *pair), home / "own") as serving:
        ask = [installed.outrider, "ask", "--json", QUESTION, "--remote", serving.url]
        subprocess.run(ask, cwd=home, env=environment(home), check=True, capture_output=True)
        return {"ready_seconds": serving.seconds, "resident_mb": resident_mb(serving.process)}


def once(way: Way) -> dict[str, Any]:
    """One way, from an empty folder."""
    with tempfile.TemporaryDirectory() as scratch:
        installed = install(way, Path(scratch) / "environment")
        row: dict[str, Any] = {"way": way.name, "install_seconds": installed.seconds, "disk_mb": installed.disk_mb}
        home = Path(scratch) / "home"
        home.mkdir()
        row["first_ask_seconds"] = asked(installed, home)
        row["ask_seconds"] = asked(installed, home)
        row["chat"] = chatted(installed, home)
        row["serve"] = {engine: served(installed, engine, home) for engine in way.engines}
    return row


def medians(rows: list[Any]) -> Any:
    """One row of several of the same form, with the median of each number."""
    first = rows[0]
    if isinstance(first, dict):
        return {name: medians([row[name] for row in rows]) for name in first}
    return round(statistics.median(rows), 4) if isinstance(first, float) else first


def run(repeats: int) -> list[dict[str, Any]]:
    """A row for each way. The ways take turns."""
    found: dict[str, list[dict[str, Any]]] = {way.name: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            found[way.name].append(once(way))
            print(json.dumps(found[way.name][-1]), flush=True)
    return [medians(rows) for rows in found.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    write(arguments.json, run(arguments.repeats), repeats=arguments.repeats)


if __name__ == "__main__":
    main()
