"""Helpers for tasks that read a stream for others: ending one, and keeping a quiet stream alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio


async def end(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end, even if the caller is being cancelled too.

    Web servers cancel again with each step of the loop, which would interrupt the task's own clean-up.
    """
    task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.gather(task, return_exceptions=True)


async def kept_alive(pieces: AsyncGenerator[bytes, None], seconds: float, sign: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the pieces, and `sign` after every `seconds` without one.

    The reader can then tell a slow server from a dead line.
    """
    async with aclosing(pieces):
        while True:
            coming = asyncio.ensure_future(anext(pieces, None))
            try:
                while not (await asyncio.wait([coming], timeout=seconds))[0]:
                    yield sign
                found = coming.result()
            finally:
                if not coming.done():
                    await end(coming)
            if found is None:
                return
            yield found
