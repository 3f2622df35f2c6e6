"""Seconds from the start of a process to its first painted frame, and to the first key that it takes, on a real pty.

    python -m benchmarks.startup [--repeats 10] [--install FOLDER] [--json OUT]

Two other chat screens, and two commands that only print a version, run in turns with ours, on the same machine in the
same minutes, each with a home of its own. The first round only warms up the caches. `--install` puts the others into
virtual environments below a disposable folder. A frame is painted when the first visible word arrives on the alternate
screen. From then on, a key is typed every 20 ms until the screen shows it: a letter in the prompt, or in oterm, which
has no prompt before a chat is made, the key that opens its palette.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.machine import machine
from benchmarks.bundled import REPOSITORY, write
from tests.support.terminal import Terminal, visible

LETTERS = "жзийлпфцчшщыэюя"
"""No program's own screen contains one of these letters."""
ALTERNATE = b"\x1b[?1049h"
EVERY_SECONDS = 0.02
MOST_KEYS = 1000
"""Keys to type before giving up on a screen: 20 s."""
PACKAGES = {"oterm": "oterm", "elia": "elia-chat", "llm": "llm"}
QUIT = "\x11"


@dataclass(frozen=True)
class Program:
    """A program under test.

    `keys`: what is typed, in turn. `shows`: the part of it that appears; None: the key itself.
    """

    name: str
    command: tuple[str, ...]
    screen: bool = True
    keys: str = LETTERS
    shows: str | None = None
    quit: str = ""
    """The key that ends it. Without one it is killed."""
    environment: tuple[tuple[str, str], ...] = ()


def programs(others: Mapping[str, Path]) -> Iterator[Program]:
    """The programs under test: ours, and those of the others that are installed."""
    ours = (sys.executable, "-m", "app.start")
    own = (("PYTHONPATH", str(REPOSITORY)),)
    yield Program("outrider", ours, quit=QUIT, environment=own)
    if "oterm" in others:
        yield Program("oterm", (str(others["oterm"]),), keys="\x10", shows="Search for commands")
    if "elia" in others:
        yield Program("elia", (str(others["elia"]),))
    yield Program("outrider --version", (*ours, "--version"), screen=False, environment=own)
    if "llm" in others:
        yield Program("llm --version", (str(others["llm"]), "--version"), screen=False)


def measure(program: Program, home: Path) -> dict[str, float]:
    """Seconds from the start of the process: `frame` and `key` of a screen, `end` of a command."""
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(home),
        **{f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")},
        **dict(program.environment),
    }
    if not program.screen:
        begun = time.perf_counter()
        subprocess.run(program.command, env=environment, check=True, capture_output=True)
        return {"end": time.perf_counter() - begun}
    with Terminal(program.command, environment=environment) as terminal:
        frame = _seconds_until(terminal, lambda: painted(terminal))
        typed = ""
        while not any(shown in terminal.text for shown in ([program.shows] if program.shows else typed)):
            if len(typed) == MOST_KEYS:
                raise SystemExit(f"{program.name} takes no key; this is on its screen: {terminal.text[-500:]}")
            typed += program.keys[len(typed) % len(program.keys)]
            terminal.type(typed[-1])
            _read_for(terminal, EVERY_SECONDS)
        key = time.perf_counter() - terminal.begun
        if program.quit:
            terminal.type(program.quit)
            terminal.end()
    return {"frame": frame, "key": key}


def painted(terminal: Terminal) -> bool:
    """True if a visible word has come since the program took the whole screen."""
    _, took, after = terminal.raw.partition(ALTERNATE)
    return took != b"" and visible(after).strip() != ""


def _seconds_until(terminal: Terminal, seen: Callable[[], bool]) -> float:
    """Seconds until the chunk of output that made it true."""
    while not seen():
        if not terminal.read(1.0) and terminal.process.poll() is not None:
            raise SystemExit(f"{terminal.process.args} ended: {terminal.text[-500:]}")
    return time.perf_counter() - terminal.begun


def _read_for(terminal: Terminal, seconds: float) -> None:
    """Read for some time. Returns early with the first output, which may be the awaited one."""
    deadline = time.perf_counter() + seconds
    while (left := deadline - time.perf_counter()) > 0:
        if terminal.read(left):
            return


def install(folder: Path) -> dict[str, Path]:
    """Install the others, each in its own environment."""
    found = {}
    for name, package in PACKAGES.items():
        environment = folder / name
        if not (environment / "bin" / name).exists():
            print(f"installing {package} into {environment} ...", file=sys.stderr)
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            subprocess.run([str(environment / "bin" / "pip"), "install", "--quiet", package], check=True)
        found[name] = environment / "bin" / name
    return found


def version(program: Path, package: str) -> str:
    """Version of an installed package, as its own interpreter knows it."""
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    out = subprocess.run([str(program.parent / "python"), "-c", ask], check=True, capture_output=True, text=True)
    return out.stdout.strip()


def run(listed: Sequence[Program], repeats: int) -> list[dict[str, float | str | int]]:
    """A row for each program: medians and the fastest, over `repeats` rounds after one that does not count."""
    taken: dict[str, list[dict[str, float]]] = {program.name: [] for program in listed}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(repeats + 1):
            for program in listed:
                home = Path(folder) / program.name.replace(" ", "-")
                home.mkdir(exist_ok=True)
                seconds = measure(program, home)
                if number:
                    taken[program.name].append(seconds)
    rows: list[dict[str, float | str | int]] = []
    for name, samples in taken.items():
        row: dict[str, float | str | int] = {"program": name, "repeats": repeats}
        for what in samples[0]:
            values = [sample[what] for sample in samples]
            row[f"{what}_median"] = round(statistics.median(values), 3)
            row[f"{what}_fastest"] = round(min(values), 3)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    others = install(arguments.install) if arguments.install else {}
    rows = run(list(programs(others)), arguments.repeats)
    for row in rows:
        figures = (
            f"{what} {row[f'{what}_median']:.3f} s" for what in ("frame", "key", "end") if f"{what}_median" in row
        )
        print(f"{row['program']:<20} {', '.join(figures)}")
    versions = {name: version(path, PACKAGES[name]) for name, path in others.items()}
    write(arguments.json, rows, machine(), versions=versions)


if __name__ == "__main__":
    main()
