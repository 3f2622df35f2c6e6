"""A sign of life on a stream that has nothing to say, so that who reads it can tell a slow server from a dead line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from remote.tasks import end


async def kept_alive(pieces: AsyncGenerator[bytes, None], seconds: float, sign: bytes) -> AsyncGenerator[bytes, None]:
    """The pieces, and a sign whenever none has come for so many seconds."""
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
