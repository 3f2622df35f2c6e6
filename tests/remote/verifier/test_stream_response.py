"""A streamed answer closes its source, whatever it was about to do when its client went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from remote.kept_alive import kept_alive
from remote.verifier.stream_response import Streamed

SIGN = b"still here"


@pytest.mark.parametrize("held", [b"words", SIGN])
async def test_its_source_is_closed_where_sending_is_held_up(held: bytes) -> None:
    closed, sending = list[str](), asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b"words"
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)  # What must be cleaned up takes a moment, too.
            closed.append("source")

    async def send(message: Any) -> None:
        if message.get("body") == held:
            sending.set()
            await asyncio.Event().wait()

    async def receive() -> Any:
        await sending.wait()
        return {"type": "http.disconnect"}

    source = pieces()

    async def close() -> None:
        await source.aclose()
        closed.append("rest")

    response = Streamed(kept_alive(source, 0.01, SIGN), close, headers={}, media_type="text/plain")
    scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}
    async with asyncio.timeout(10):
        await response(scope, receive, send)
    assert closed == ["source", "rest"]


async def test_what_its_source_has_to_clean_up_is_not_cancelled_too() -> None:
    """While its next piece is waited for."""
    closed, waiting = list[str](), asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b"words"
            waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            closed.append("source")

    async def send(message: Any) -> None:
        pass

    async def receive() -> Any:
        await waiting.wait()
        return {"type": "http.disconnect"}

    source = pieces()
    response = Streamed(kept_alive(source, 10.0, SIGN), source.aclose, headers={}, media_type="text/plain")
    scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}
    async with asyncio.timeout(10):
        await response(scope, receive, send)
    assert closed == ["source"]
