"""Ways to wait: for the first of several awaitables, for work unless it is stopped, and for a call in its own thread.

Also abandons a wait for something that must be closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class Closable(Protocol):
    async def aclose(self) -> None: ...


async def first_of(
    *waits: Coroutine[Any, Any, Any] | asyncio.Future[Any], timeout: float | None = None
) -> tuple[bool, ...]:
    """Wait until one of them has ended, or for `timeout` seconds; returns the ended ones, and cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return tuple(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless_set(event: asyncio.Event, work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T | None:
    """The result of `work`, or None if the event is set first, which cancels the work. Raises what the work raises."""
    working = asyncio.ensure_future(work)
    ended, _ = await first_of(working, event.wait())
    return working.result() if ended else None


async def abandon(opening: asyncio.Task[Closable]) -> None:
    """Close something that is no longer wanted, whether it is already open or still opening."""
    opening.cancel()
    (opened,) = await asyncio.gather(opening, return_exceptions=True)
    if not isinstance(opened, BaseException):
        await opened.aclose()


async def beside(call: Callable[[], T]) -> T:
    """The result of `call`, run in a daemon thread, so that the program can end without it. Raises what it raises."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if answer.done():  # The waiter was cancelled.
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
