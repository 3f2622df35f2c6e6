"""Streamed responses, and how one that cannot be completed ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""A buffering proxy would hold back the verdict until the memory has arrived."""


class Cut(Exception):
    """An answer that ends half-way.

    The message says why. Its body is truncated, so that nobody takes it for complete.
    """


class Streamed(StreamingResponse):
    """A stream that closes its source at its end, or at once if the client disconnects, even before it began."""

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
        *,
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        super().__init__(body, headers=headers, media_type=media_type)
        self._body, self._close = body, close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._body.aclose()  # It may be suspended inside a piece, still reading from its source.
                await self._close()
