"""A verifier for tests: a toy target behind the real protocol on loopback, and raw peers that break it.

The target's next token depends only on the last one, so a test knows every right answer beforehand.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from models.config import DIGEST_BYTES
from models.tree import ROOT, DraftTree
from remote.protocol import (
    CONTENT_TYPE,
    VERSION,
    Card,
    Conflict,
    Error,
    Limits,
    Memory,
    MemoryFormat,
    Round,
    RunningDigest,
    Verdict,
    decode,
    digest_of,
    encode_frame,
    unpack_tokens,
)
from tests.support.listeners import stop_listening

VOCABULARY = 50
MEMORY_TOKENS = 4
TOKENIZER = bytes(range(DIGEST_BYTES))
CARD = Card(
    version=VERSION,
    target="toy",
    vocabulary=VOCABULARY,
    tokenizer=TOKENIZER,
    chat_template="",
    stop_tokens=(),
    limits=Limits(max_nodes=64, max_depth=16, max_tokens=4096, max_body_bytes=1 << 20),
    memory=MemoryFormat(digest=bytes(DIGEST_BYTES), layers=((1, 1),)),
)


def successor(token: int) -> int:
    return (token * 7 + 3) % VOCABULARY


def continuation(tokens: Sequence[int], count: int) -> list[int]:
    """What the target says after `tokens`."""
    answer, last = [], tokens[-1]
    for _ in range(count):
        last = successor(last)
        answer.append(last)
    return answer


def verify(tokens: Sequence[int], tree: DraftTree) -> tuple[list[int], int]:
    """Accepted nodes and the bonus token."""
    children, at, last, accepted = tree.children(), ROOT, tokens[-1], []
    while (node := children.get(at, {}).get(successor(last))) is not None:
        accepted.append(node)
        at, last = node, successor(last)
    return accepted, successor(last)


@dataclass
class ToySession:
    tokens: list[int] = field(default_factory=list)
    last_round: int = -1
    last_reply: list[bytes] = field(default_factory=list)


@dataclass
class ToyVerifier:
    """`rounds` and `headers` are requests as they arrived, `computed` counts those that were not replays."""

    token: str | None = None
    seconds: float = 0.0
    sessions: dict[str, ToySession] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    peers: set[tuple[str, int]] = field(default_factory=set)
    computed: int = 0

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/card", self.card),
                Route("/v1/rounds", self.round, methods=["POST"]),
                Route("/v1/sessions/{name}", self.drop, methods=["DELETE"]),
                Route("/healthz", self.health),
            ]
        )

    async def card(self, request: Request) -> Response:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return _message(Error(code="unauthorised", message="Give the right token.", retry=False), 401)
        return _message(CARD)

    async def health(self, request: Request) -> Response:
        return Response("ok", media_type="text/plain")

    async def drop(self, request: Request) -> Response:
        if self.sessions.pop(request.path_params["name"], None) is None:
            return _message(Error(code="not_found", message="No such session.", retry=False), 404)
        return Response(status_code=204)

    async def round(self, request: Request) -> Response:
        message = decode(await request.body(), Round)
        self.rounds.append(message)
        self.headers.append(dict(request.headers))
        assert request.client is not None
        self.peers.add((request.client.host, request.client.port))
        session = self.sessions.get(message.session, ToySession())
        if message.round == session.last_round:
            return _stream(session.last_reply)
        if message.round < session.last_round:
            return _message(Error(code="out_of_order", message="An older round.", retry=False), 412)
        digests = RunningDigest()
        digests.extend(session.tokens)
        if message.base > len(digests) or digests.at(message.base) != message.digest:
            lengths = sorted({len(digests), len(digests) // 2, 0}, reverse=True)
            return _message(Conflict(have=tuple((length, digests.at(length)) for length in lengths)), 409)
        self.sessions[message.session] = session
        self._commit(session, message)
        begun = time.monotonic()
        while (left := begun + self.seconds - time.monotonic()) > 0:  # A test may call it off.
            await asyncio.sleep(min(left, 0.01))
        return _stream(session.last_reply)

    def _commit(self, session: ToySession, message: Round) -> None:
        self.computed += 1
        tree = message.tree.unpack(CARD.limits)
        session.tokens = session.tokens[: message.base] + unpack_tokens(message.append)
        accepted, bonus = verify(session.tokens, tree)
        session.tokens += [int(tree.tokens[node]) for node in accepted] + [bonus]
        verdict = Verdict(
            round=message.round,
            accepted=tuple(accepted),
            bonus=bonus,
            length=len(session.tokens),
            digest=digest_of(session.tokens),
            finished=False,
            server_seconds=self.seconds,
        )
        session.last_round = message.round
        session.last_reply = [encode_frame(verdict)]
        if message.memory_from is not None:
            for start in reversed(range(message.memory_from, len(session.tokens) - 1, MEMORY_TOKENS)):
                count = min(MEMORY_TOKENS, len(session.tokens) - 1 - start)
                data = bytes(session.tokens[start : start + count])
                assert CARD.memory is not None
                session.last_reply.append(
                    encode_frame(Memory(digest=CARD.memory.digest, start=start, count=count, data=data))
                )


def _message(message: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.msgpack.encode(message), status, media_type=CONTENT_TYPE)


def _stream(frames: Sequence[bytes]) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame

    return StreamingResponse(chunks(), media_type=CONTENT_TYPE)


# ---- peers on loopback -----------------------------------------------------------------------------------------------


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


def cutting_relay(port: int, limits: Sequence[int]) -> contextlib.AbstractAsyncContextManager[int]:
    """Relay to `port`, and hang up on the nth connection after `limits[n]` bytes of reply. Later ones are left
    whole."""

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
