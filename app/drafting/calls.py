"""Calls of a drafter, which is not thread-safe: one at a time, in their order, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

T = TypeVar("T")


class Calls:
    """The calls of one conversation. `thread` runs one at a time."""

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._asked = self._begun = 0

    @property
    def others_wait(self) -> bool:
        """Whether there are calls after the one in progress."""
        return self._begun != self._asked

    def run(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """The result of a call that is run in its turn."""
        self._asked += 1
        return asyncio.get_running_loop().run_in_executor(self._thread, self._begin, self._asked, call)

    def _begin(self, number: int, call: Callable[[], T]) -> T:
        self._begun = number
        return call()
