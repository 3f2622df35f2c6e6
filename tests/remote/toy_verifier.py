"""Servers for tests, on loopback: one that shows a verifier's card, and raw peers that break every rule."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from models.config import DIGEST_BYTES
from remote.protocol import CONTENT_TYPE, VERSION, Card, Error, Limits, MemoryFormat, encode
from tests.support.listeners import stop_listening

TOKENIZER = bytes(range(DIGEST_BYTES))
CARD = Card(
    version=VERSION, target="toy", vocabulary=50, tokenizer=TOKENIZER, chat_template="", stop_tokens=(),
    limits=Limits(max_nodes=64, max_depth=16, max_tokens=4096, max_body_bytes=1 << 20),
    memory=MemoryFormat(digest=bytes(DIGEST_BYTES), layers=((1, 1),)),
)  # fmt: skip


@dataclass
class ToyVerifier:
    """Shows its card to whoever has the token, and does nothing else."""

    token: str | None = None

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/card", self._card)])

    async def _card(self, request: Request) -> Response:
        right = not self.token or request.headers.get("authorization") == f"Bearer {self.token}"
        answer = CARD if right else Error(code="unauthorised", message="Give the right token.", retry=False)
        return Response(encode(answer), 200 if right else 401, media_type=CONTENT_TYPE)


@contextlib.contextmanager
def serving(app: Starlette, **options: str) -> Iterator[int]:
    """The app behind uvicorn in a thread; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, lifespan="off", ws="none", log_level="error", **options)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


Connection = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@contextlib.asynccontextmanager
async def listening(serve: Connection) -> AsyncIterator[int]:
    """Call `serve` with the number of each connection, from 0, and yield the port. At the end all connections close."""
    tasks: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def handle(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(number, reader, writer)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(handle(len(tasks), reader, writer)))
        writers.append(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_listening(server)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:  # Some have not been handled yet, and some have data that nobody reads.
            with contextlib.suppress(AttributeError):  # One that has ended after its last byte has no loop any more.
                writer.transport.abort()
        await asyncio.sleep(0)


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    sizes = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return head, await reader.readexactly(sizes[0] if sizes else 0)


def raw_peer(answer: Callable[[int], bytes | None]) -> contextlib.AbstractAsyncContextManager[int]:
    """Answer the nth connection's request with raw bytes and hang up. None: never answer."""

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        data = answer(number)
        if data is None:
            await asyncio.Event().wait()
        else:
            writer.write(data)
            await writer.drain()

    return listening(serve)


def utf16_units(text: str) -> list[str]:
    """Its parts as servers cut it whose strings are UTF-16: the halves of a surrogate pair apart."""
    units = text.encode("utf-16-le")
    return [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]


def cutting_relay(port: int, limits: Sequence[int]) -> contextlib.AbstractAsyncContextManager[int]:
    """Relay to `port`, and hang up on the nth connection after `limits[n]` bytes of reply, and later never."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float) -> None:
        while data := await reader.read(65536):
            writer.write(data[: int(min(limit, len(data)))])
            await writer.drain()
            limit -= len(data)
            if limit <= 0:
                return

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        upward = asyncio.create_task(pump(reader, up_writer, math.inf))
        try:
            await pump(up_reader, writer, limits[number] if number < len(limits) else math.inf)
        finally:
            up_writer.close()
            upward.cancel()
            await asyncio.gather(upward, return_exceptions=True)

    return listening(serve)


def http(body: bytes, *, status: str = "200 OK", content_type: str | None = CONTENT_TYPE, extra: str = "") -> bytes:
    """A response that ends with its connection."""
    kind = f"content-type: {content_type}\r\n" if content_type else ""
    return f"HTTP/1.1 {status}\r\n{kind}{extra}connection: close\r\n\r\n".encode() + body


def refusal(code: str, *, status: str, retry: bool = False, message: str = "A reason.") -> bytes:
    """A typed error, with its code as given."""
    return http(msgspec.msgpack.encode({"code": code, "message": message, "retry": retry}), status=status)
