"""Waits: which of several things came first, and what becomes of the others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from app.concurrency import beside, first_of, unless_set
from tests.support.patience import PATIENCE_SECONDS


async def test_the_first_wait_ends_the_others() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    slow = asyncio.ensure_future(second.wait())
    first.set()
    assert await first_of(first.wait(), slow) == (True, False)
    assert slow.cancelled()
    assert await first_of(second.wait(), timeout=0.01) == (False,)


async def test_work_goes_on_unless_the_event_is_set() -> None:
    async def work(result: int) -> int:
        await asyncio.sleep(0)
        if result < 0:
            raise ValueError("negative")
        return result

    event = asyncio.Event()
    assert await unless_set(event, work(3)) == 3
    with pytest.raises(ValueError, match="negative"):
        await unless_set(event, work(-1))
    waiting = asyncio.ensure_future(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(event.set)
    assert await unless_set(event, waiting) is None and waiting.cancelled()


async def test_a_wait_that_is_cancelled_cancels_its_work() -> None:
    working = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.ensure_future(unless_set(asyncio.Event(), working))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert working.cancelled()


async def test_nobody_needs_to_wait_for_a_call_in_a_thread() -> None:
    with pytest.raises(ZeroDivisionError):
        await beside(lambda: 1 // 0)
    release, ended = threading.Event(), threading.Event()
    waiting = asyncio.ensure_future(beside(lambda: release.wait() and ended.set()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()
    assert await asyncio.to_thread(ended.wait, PATIENCE_SECONDS)
