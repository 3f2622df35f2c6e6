"""Raw HTTP servers that break every rule, one script each: a client must survive them in bounded time and memory.

A script gets the connection after the request has been read. What it writes is all that the client ever sees.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.remote.toy_verifier import listening, request_of

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]
SSE, JSON = "text/event-stream", "application/json"
MEBIBYTE = 1 << 20


@asynccontextmanager
async def hostile(script: Script, asked: list[int] | None = None) -> AsyncIterator[int]:
    """Serve every request by `script` and yield the port. `asked` collects the numbers of the connections."""

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        if asked is not None:
            asked.append(number)
        await script(writer)
        await writer.drain()

    async with listening(serve) as port:
        yield port


def head(kind: str = SSE, extra: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{extra}connection: close\r\n\r\n".encode()


def said(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


def whole(*parts: bytes) -> Script:
    """Write this, and hang up."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(b"".join(parts))

    return script


def endless(first: bytes, part: bytes, most: int | None = None, pause: float | None = None) -> Script:
    """Write one part after another for as long as the client listens, or so many bytes."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        for number in itertools.count():
            if most is not None and number * len(part) > most:
                return
            writer.write(part)
            await writer.drain()
            if pause is not None:
                await asyncio.sleep(pause)

    return script


DEEP = b"[" * 100_000
BOMB = gzip.compress(b"data: " + b"x" * 32 * MEBIBYTE)

STREAMS: dict[str, Script] = {
    "one byte at a time, for ever": endless(head(), b":", pause=0.005),
    "comments for ever": endless(head(), b": alive\n\n" * 500),
    "empty events for ever": endless(head(), b"data: {}\n\n" * 500),
    "events without data for ever": endless(head(), b"id: 1\nevent: x\nretry: 1\n\n" * 200),
    "a line of 100 MB": endless(head(), b"x" * 65536, most=100 * MEBIBYTE),
    "an event of 100 MB in short lines": endless(head(), b"data: " + b"y" * 1000 + b"\n", most=100 * MEBIBYTE),
    "a list of 100 MB": endless(head(JSON), b'{"data":[' + b"[]," * 20000, most=100 * MEBIBYTE),
    "headers for ever": endless(b"HTTP/1.1 200 OK\r\n", b"x-header: " + b"y" * 4000 + b"\r\n"),
    "one header for ever": endless(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 4000),
    "headers, one byte at a time": endless(b"HTTP/1.1 200 OK\r\nx: ", b"y", pause=0.005),
    "informational answers for ever": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
    "a redirect to itself": whole(b"HTTP/1.1 307 T\r\nlocation: /v1/models\r\ncontent-length: 0\r\n\r\n"),
    "a page": whole(head("text/html"), b"<html>" * 9999),
    "a content type that is none": whole(head("\x1b]0;x\x07"), said("x")),
    "a packed bomb": whole(head(SSE, "content-encoding: gzip\r\n"), BOMB),
    "a packed bomb, as JSON": whole(head(JSON, "content-encoding: gzip, br\r\n"), BOMB),
    "JSON a hundred thousand deep": whole(head(), b"data: " + DEEP + b"\n\n"),
    "an answer a hundred thousand deep": whole(head(JSON), DEEP),
    "an error a hundred thousand deep": whole(head(), b'data: {"error":' + DEEP[:900] + b"]" * 900 + b"}\n\n"),
    "a number of 10,000 digits": whole(head(), b'data: {"usage":{"prompt_tokens":' + b"9" * 10000 + b"}}\n\n"),
    "NaN and infinity": whole(head(), b'data: {"choices":[{"index":NaN,"delta":{"content":Infinity}}]}\n\n'),
    "bytes that are no text": whole(head(), b"data: \xff\xfe\x00\n\n"),
    "half a surrogate pair": whole(head(), b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\ndata: [DONE]\n\n'),
    "an error that gives orders": whole(
        head(), b'data: {"error":{"message":"\\u001b]52;c;eA==\\u0007\\u202e\\u001b[2J","code":"\\u001b[31m"}}\n\n'
    ),
    "a chunk that lies": whole(head(SSE, "transfer-encoding: chunked\r\n"), b"ffffffff\r\nx\r\n"),
    "a chunk of negative size": whole(head(SSE, "transfer-encoding: chunked\r\n"), b"-5\r\nx\r\n0\r\n\r\n"),
    "a length that lies": whole(head(SSE, "content-length: 99999999999999\r\n"), said("x")),
    "two lengths": whole(head(SSE, "content-length: 1\r\ncontent-length: 2\r\n"), said("x")),
    "a length that is none": whole(head(SSE, "content-length: many\r\n"), said("x")),
    "no HTTP": whole(b"SSH-2.0-OpenSSH_9.6\r\n" * 100),
    "TLS": whole(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 100),
    "nothing": whole(b""),
    "a status that is none": whole(b"HTTP/1.1 999999999 \r\n\r\n"),
    "no content": whole(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "an upgrade": whole(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n", said("x")),
    "a retry after the end of the world": whole(b"HTTP/1.1 429 No\r\nretry-after: 1e999\r\n\r\n{}"),
    "text for ever": endless(head(), said("word " * 100) * 100),
    "reasoning for ever": endless(
        head(), (b'data: {"choices":[{"delta":{"reasoning":"' + b"hm " * 1000 + b'"}}]}\n\n') * 20
    ),
    "tags for ever": endless(head(), said("<think>" + "</think" * 100) * 20),
    "white space for ever": endless(head(), said(" \n" * 400) * 20),
}
"""Answers to any request."""
