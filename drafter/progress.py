"""Progress of a long stage and the time left: a bar on a terminal, and a line now and then elsewhere.

Both go to stderr. Work of an earlier run counts as done, but not for the speed: the time left is computed from this
run.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

T = TypeVar("T")

EVERY = 30.0
"""Seconds between two lines if there is no terminal."""


class StageProgress(Protocol):
    def advance(self, count: int = 1) -> None:
        """Count this many more steps as done."""

    def tell(self, brief: str, line: str) -> None:
        """Show news: `brief` next to a bar, or without a bar `line` and the time left."""


@contextmanager
def stage(name: str, total: int, done: int = 0, *, shown: bool = True) -> Iterator[StageProgress]:
    """Show a stage of `total` steps while the block runs, of which an earlier run did `done`.

    Only one of several processes should have it `shown`. A stage without remaining steps shows nothing.
    """
    console = Console(stderr=True)
    if not shown or done >= total:
        yield _Silent()
    elif console.is_interactive:
        with _bars(console) as bars:
            yield _Bar(bars, name, total, done)
    else:
        yield _Lines(name, total, done)


@contextmanager
def transfer(total: int) -> Iterator[Callable[[int], None]]:
    """Show how much of `total` bytes has arrived, in kilobytes; yields a function that takes the bytes so far."""
    with stage("fetching, in KB", max(1, total // 1000)) as shown:
        known = 0

        def tell(done: int) -> None:
            nonlocal known
            shown.advance(done // 1000 - known)
            known = done // 1000

        yield tell


def track(name: str, items: Sequence[T]) -> Iterable[T]:
    """Yield the items, and show how many are used up."""
    with stage(name, len(items)) as progress:
        for item in items:
            yield item
            progress.advance()


class _Silent:
    def advance(self, count: int = 1) -> None:
        pass

    def tell(self, brief: str, line: str) -> None:
        pass


def _bars(console: Console) -> Bars:
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[brief]}", markup=False),
        console=console,
        # Steps may take minutes. By default rich forgets what is older than 30 s.
        speed_estimate_period=math.inf,
    )


class _Bar:
    def __init__(self, bars: Bars, name: str, total: int, done: int) -> None:
        self._bars = bars
        self._task = bars.add_task(name, total=total, completed=done, brief="")
        bars.advance(self._task, 0)  # Timing of the first step begins here.

    def advance(self, count: int = 1) -> None:
        self._bars.advance(self._task, count)

    def tell(self, brief: str, line: str) -> None:
        self._bars.update(self._task, brief=brief)


class _Lines:
    def __init__(self, name: str, total: int, done: int) -> None:
        self._name, self._total, self._before, self._done = name, total, done, done
        self._started = self._written = time.monotonic()

    def advance(self, count: int = 1) -> None:
        if not count:
            return
        self._done += count
        if self._done == self._total or time.monotonic() - self._written >= EVERY:
            self._write(f"{self._name}: {self._done}/{self._total}")

    def tell(self, brief: str, line: str) -> None:
        self._write(f"{self._name}: {line}")

    def _write(self, text: str) -> None:
        self._written = time.monotonic()
        steps = self._done - self._before
        left = (self._written - self._started) * (self._total - self._done) / steps if steps else 0.0
        known = f", {left / 60:.1f} min left" if steps and self._done < self._total else ""
        print(f"{text}{known}", file=sys.stderr, flush=True)
