"""Waiting: for whichever of some things comes first, and for what would hold up everything else."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def first_of(*waits: Coroutine[Any, Any, Any], timeout: float | None = None) -> tuple[bool, ...]:
    """Which of them have ended, as soon as one has or after so many seconds; the others are cancelled."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return tuple(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def beside(call: Callable[[], T]) -> T:
    """What `call` returns or raises, from a thread that the program need not wait for at its end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if answer.done():  # Nobody waits for it any more.
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(cast(T, value))

    def run() -> None:
        value: T | None = None
        error: Exception | None = None
        try:
            value = call()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return await answer
