"""What tasks need that read from a stream for somebody else."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio


async def end(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has ended, also where this one is being cancelled itself.

    Web servers cancel again with each step of the loop, which would reach what the task still has to clean up.
    """
    task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.gather(task, return_exceptions=True)
