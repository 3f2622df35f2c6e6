"""Limits on connections: how long a client may take to send and to read, and how many there may be at the same time.

uvicorn itself waits for ever for the rest of a request, and for a client that does not read. Here every connection is
checked once a second. If there are too many, those without a whole request make room, the oldest first. A request that
is being answered is never cut for a new one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, Literal

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from remote.protocol import CONTENT_TYPE, Error, encode
from remote.verifier.streaming import Cut

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""Time for the head of a request, from its first byte on; on a new connection, from its beginning on. TLS has the same
time again."""
BODY_SECONDS, BODY_RATE = 20.0, 1000
"""Time for a body, and the number of received bytes for which it gets one second more."""
STALL_SECONDS = 60.0
"""Time for a client that takes nothing of what waits for it. A kernel's buffer may drain in steps that take half as
long."""
BURST = 128
"""Connections that are accepted in one go, before any of them is checked."""
MAX_CONNECTIONS = 512

Phase = Literal["head", "body", "answer", "idle"]

FULL = encode(Error(code="busy", message="Too many connections are open. Try again in a moment.", retry=True))
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    + f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(FULL)}\r\n\r\n".encode()
    + FULL
)


class ClientConnection(H11Protocol):
    """One client's connection. It knows what it waits for, and since when."""

    most = MAX_CONNECTIONS
    head_seconds, body_seconds, stall_seconds = HEAD_SECONDS, BODY_SECONDS, STALL_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.since = time.monotonic()
        """When the present phase began."""
        self._phase: Phase = "head"
        self._received = 0
        self._unread, self._stalled = 0, self.since
        """Bytes that wait for the client, and since when it has taken none of them."""
        self._service: Callable[..., Any] = self.app
        self.app = self._served

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        self.phase()

    def resume_writing(self) -> None:
        self._unread = sys.maxsize  # The client has taken some, though as many may be waiting at the next check.
        super().resume_writing()

    def phase(self) -> Phase:
        """What the connection waits for now."""
        state, now = self.conn.their_state, time.monotonic()
        if state is h11.IDLE:
            begun = self.cycle is None or bool(self.conn.trailing_data[0])
            phase: Phase = "head" if begun else "idle"
        else:
            phase = "body" if state is h11.SEND_BODY else "answer"
        if phase != self._phase:
            self._phase, self.since, self._received = phase, now, 0
        return phase

    def sweep(self, now: float) -> None:
        """Give the connection up if the client has taken too long."""
        phase, waited = self.phase(), now - self.since
        late = phase == "head" and waited > self.head_seconds
        late = late or (phase == "body" and waited > self.body_seconds + self._received / BODY_RATE)
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._stalled = now
        self._unread = unread
        if late or now - self._stalled > self.stall_seconds:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        # Once an answer has begun, a second one cannot be sent.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _make_room(self) -> None:
        def age(other: ClientConnection) -> tuple[bool, float]:
            return other.phase() == "idle", other.since

        others = [other for other in self.connections if isinstance(other, ClientConnection) and other is not self]
        waiting = [other for other in others if not other.transport.is_closing() and other.phase() != "answer"]
        if waiting:
            min(waiting, key=age).transport.abort()
        elif sum(not other.transport.is_closing() for other in others) >= self.most:
            self.transport.write(REFUSAL)
            self.transport.close()

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._service(scope, receive, send)
        except Cut as cut:
            log.warning("An answer was cut off: %s.", str(cut).rstrip("."))
            if self.cycle is not None:
                self.cycle.disconnected = True
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server. It also checks its connections, and tells when it accepts requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # Ticks come ten times a second.
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, ClientConnection):
                    connection.sweep(now)
        return await super().on_tick(counter)


class Loop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with a deadline for TLS handshakes. They come before there is a connection to check."""

    async def create_server(self, *arguments: Any, ssl: Any = None, **options: Any) -> asyncio.Server:
        if ssl is not None:
            options["ssl_handshake_timeout"] = HEAD_SECONDS
        return await super().create_server(*arguments, ssl=ssl, **options)


class Listener(socket.socket):
    """A listening socket that closes new connections while too many are open, handshakes included."""

    most = MAX_CONNECTIONS + 2 * BURST

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            accepted, address = super().accept()
            held = self.__dict__.setdefault("_held", weakref.WeakSet())
            if sum(other.fileno() >= 0 for other in held) < self.most:
                held.add(accepted)
                return accepted, address
            accepted.close()


def config(app: Any, most: int = MAX_CONNECTIONS, **options: Any) -> uvicorn.Config:
    """uvicorn's settings for a service with limits on connections. `options`: uvicorn's own."""
    return uvicorn.Config(
        app,
        http=type("Connection", (ClientConnection,), {"most": most}),
        ws="none",
        loop=f"{__name__}:Loop",
        access_log=False,
        log_level="warning",
        lifespan="off",
        backlog=BURST,
        **options,
    )
