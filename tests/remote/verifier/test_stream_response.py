"""A streamed answer closes its source, whatever it was about to do when its client went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from remote.tasks import kept_alive
from remote.verifier.stream_response import Streamed

SIGN = b"still here"
SCOPE = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}


@pytest.mark.parametrize(("held", "quiet"), [(b"words", 0.01), (SIGN, 0.01), (None, 10.0)])
async def test_its_source_has_cleaned_up_before_the_rest_is_closed(held: bytes | None, quiet: float) -> None:
    """`held`: what is being sent when the client goes; None: the next piece is being waited for."""
    closed, leaves = list[str](), asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b"words"
            if held is None:
                leaves.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)  # It takes a moment, in which nobody may cancel it.
            closed.append("source")

    async def send(message: Any) -> None:
        if held is not None and message.get("body") == held:
            leaves.set()
            await asyncio.Event().wait()

    async def receive() -> Any:
        await leaves.wait()
        return {"type": "http.disconnect"}

    source = pieces()

    async def close() -> None:
        await source.aclose()
        closed.append("rest")

    response = Streamed(kept_alive(source, quiet, SIGN), close, headers={}, media_type="text/plain")
    async with asyncio.timeout(10):
        await response(SCOPE, receive, send)
    assert closed == ["source", "rest"]
