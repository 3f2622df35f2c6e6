"""Limits on connections: how long a client may take to send and to read, and how many there may be at the same time.

uvicorn itself waits for ever for the rest of a request, and for a client that does not read. Here every connection is
checked once a second. If there are too many, those without a complete request are closed, the oldest first. A request
that is being answered is never dropped for a new one. A single address cannot take all places.

After the first termination signal, running answers may finish for a while. The second one ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Literal, NamedTuple

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from remote.openai.schema import JSON, error_body, speaks_openai
from remote.protocol import CONTENT_TYPE, Error, encode
from remote.verifier.admission import Admission
from remote.verifier.options import ServeOptions
from remote.verifier.start_errors import CannotBind
from remote.verifier.stream_response import Cut

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""Time for the head of a request, from its first byte; on a new connection, from its start. The TLS handshake has the
same time again."""
BODY_SECONDS, BODY_RATE = 20.0, 1000
"""Time for a body, and the number of received bytes for which it gets one second more."""
STALL_SECONDS = 60.0
"""Time for a client that reads nothing of what is pending for it. A kernel's buffer may drain in steps that take half
as long."""
BURST = 128
"""Connections that are accepted in one batch, before any of them is checked."""
MAX_HEAD_BYTES = 16 << 10
"""Longest head of a request: its first line and all headers."""
CUT_SECONDS = 1
"""Time to close answers that are cut off at shutdown."""
TWICE_SECONDS = 0.25
"""Time after the first signal in which the same one counts as the first, delivered twice."""

Phase = Literal["head", "body", "answer", "idle"]


class Refusal(NamedTuple):
    """An error response that closes its connection."""

    status: str
    error: Error

    def sent(self, openai: bool) -> bytes:
        """Its bytes, with the error in the form of OpenAI's API or of our own protocol."""
        body, kind = (error_body(self.error), JSON) if openai else (encode(self.error), CONTENT_TYPE)
        again = "Retry-After: 1\r\n" if self.error.retry else ""
        head = f"HTTP/1.1 {self.status}\r\n{again}Connection: close\r\nContent-Type: {kind}\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


FULL = Refusal(
    "503 Service Unavailable",
    Error(code="busy", message="Too many connections are open. Try again in a moment.", retry=True),
)
CROWDED = Refusal(
    "429 Too Many Requests",
    Error(code="busy", message="Too many connections from this address are open. Close some of them.", retry=True),
)
LONG_HEAD = Refusal(
    "431 Request Header Fields Too Large",
    Error(
        code="too_large",
        message=f"The head of the request has more than {MAX_HEAD_BYTES} bytes, the most that this server reads.",
        retry=False,
    ),
)
MALFORMED = Refusal(
    "400 Bad Request", Error(code="bad_request", message="This is not a valid HTTP request.", retry=False)
)


class ClientConnection(H11Protocol):
    """One client's connection, which knows what it waits for, and since when."""

    most = ServeOptions.max_connections
    most_per_address = ServeOptions.max_per_address
    refused: Callable[[str], None] | None = None
    """Called with the reason, in one word, why a connection is refused or closed."""
    devices = False
    """Whether devices connect too. Errors about their paths, or about no path, are sent in their own protocol."""
    head_seconds, body_seconds, stall_seconds = HEAD_SECONDS, BODY_SECONDS, STALL_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.since = time.monotonic()
        """When the present phase began."""
        self._phase: Phase = "head"
        self._received = 0
        self._unread, self._stalled = 0, self.since
        """Bytes pending for the client, and since when it has read none of them."""
        self._service: Callable[..., Any] = self.app
        self.app = self._served

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = network_of(None if self.client is None else self.client[0])
        if self.address is not None and self._neighbours() > self.most_per_address:
            self._refuse(CROWDED, "address")
        elif len(self.connections) > self.most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        # The unread rest of an incomplete head.
        if self.phase() == "head" and len(self.conn.trailing_data[0]) > MAX_HEAD_BYTES:
            self._refuse(LONG_HEAD, "head")

    def resume_writing(self) -> None:
        self._unread = sys.maxsize  # The client has read some, although as many bytes may be pending at the next check.
        super().resume_writing()

    def phase(self) -> Phase:
        """The event that the connection is waiting for."""
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
        """Close the connection if the client has taken too long."""
        phase, waited = self.phase(), now - self.since
        late = phase == "head" and waited > self.head_seconds
        late = late or (phase == "body" and waited > self.body_seconds + self._received / BODY_RATE)
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._stalled = now
        self._unread = unread
        if late or now - self._stalled > self.stall_seconds:
            self._told("slow")
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        # Once an answer has begun, a second one cannot be sent.
        asking = self.cycle is None or self.cycle.response_complete
        if asking and len(self.conn.trailing_data[0]) > MAX_HEAD_BYTES:
            self._refuse(LONG_HEAD, "head")
        elif self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._close_with(MALFORMED, openai=True)  # Devices send no such requests.
        else:
            self.transport.close()

    def _make_room(self) -> None:
        def age(other: ClientConnection) -> tuple[bool, float]:
            return other.phase() == "idle", other.since

        others = [other for other in self.connections if isinstance(other, ClientConnection) and other is not self]
        waiting = [other for other in others if not other.transport.is_closing() and other.phase() != "answer"]
        if waiting:
            self._told("full")
            min(waiting, key=age).transport.abort()
        elif sum(not other.transport.is_closing() for other in others) >= self.most:
            self._refuse(FULL, "full")

    def _neighbours(self) -> int:
        """Connections of the same address, this one included."""
        return sum(
            other.address == self.address and not other.transport.is_closing()
            for other in self.connections
            if isinstance(other, ClientConnection)
        )

    def _told(self, reason: str) -> None:
        if self.refused is not None:
            self.refused(reason)

    def _refuse(self, answer: Refusal, reason: str) -> None:
        if not self.transport.is_closing():
            self._told(reason)
            path = self._path()
            self._close_with(answer, openai=not self.devices or (path != "" and speaks_openai(path)))

    def _close_with(self, answer: Refusal, *, openai: bool) -> None:
        self.transport.write(answer.sent(openai))
        self.transport.close()

    def _path(self) -> str:
        """The requested path, even if the head is incomplete; empty if it is not known yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            return str(self.scope["path"])
        words = self.conn.trailing_data[0].partition(b"\r\n")[0].split(b" ")
        return words[1].partition(b"?")[0].decode("latin-1") if len(words) > 1 else ""

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _head_bytes(scope) > MAX_HEAD_BYTES:
            self.cycle.disconnected = True
            self._refuse(LONG_HEAD, "head")
            return
        try:
            await self._service(scope, receive, send)
        except Cut as cut:
            log.warning("An answer was cut off: %s.", str(cut).rstrip("."))
            if self.cycle is not None:
                self.cycle.disconnected = True
            self.transport.close()


def network_of(address: str | None) -> str | None:
    """The address or network whose connections are counted together, or None if they are not counted.

    An IPv6 client usually has a whole network of addresses. Loopback is not counted, because a proxy on it forwards all
    clients.
    """
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return None
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


def _head_bytes(scope: Scope) -> int:
    """The approximate size of a request's head, in bytes."""
    fields: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return (
        len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(name) + len(value) + 4 for name, value in fields)
    )


class Server(uvicorn.Server):
    """uvicorn's server. It also checks connections, signals when it accepts requests, and drains before it ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        admission: Admission | None = None,
        drain_seconds: float = ServeOptions.drain_seconds,
    ) -> None:
        """`admission`: knows the running answers to wait for, if any. `drain_seconds`: maximum time to wait."""
        super().__init__(config)
        self._ready, self._admission, self._drain_seconds = ready, admission, drain_seconds
        self._first = 0.0
        """When it got the signal to drain."""
        self._until: float | None = None
        """When a draining server ends, whatever is still running."""
        self._drains = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        again = self._until is not None
        if again and sig == self._captured_signals[-1] and time.monotonic() < self._first + TWICE_SECONDS:
            return  # `timeout`, for example, signals a program and then its group.
        if self._admission is None or again:
            super().handle_exit(sig, frame)
            self.force_exit = self.force_exit or again
            return
        self._captured_signals.append(sig)
        self._admission.drain()
        self._first = time.monotonic()
        self._until = self._first + self._drain_seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._until is not None:  # It has drained already, so it does not wait again.
            self.config.timeout_graceful_shutdown = 0 if self.force_exit else CUT_SECONDS
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        now = time.monotonic()
        if counter % 10 == 0:  # There are ten ticks a second.
            for connection in list(self.server_state.connections):
                if isinstance(connection, ClientConnection):
                    connection.sweep(now)
        if self._until is not None and self._admission is not None:
            running = self._admission.running
            if running and not self._drains:
                said = "Draining: %d running answers have up to %g s. A second signal ends at once."
                log.warning(said, running, self._drain_seconds)
            self._drains = True
            self.should_exit = self.should_exit or now >= self._until or not running
        return await super().on_tick(counter)


class Loop(asyncio.SelectorEventLoop):
    """asyncio's loop with a deadline for TLS handshakes, which happen before there is a connection to check."""

    async def create_server(self, *arguments: Any, ssl: Any = None, **options: Any) -> asyncio.Server:
        if ssl is not None:
            options["ssl_handshake_timeout"] = HEAD_SECONDS
        return await super().create_server(*arguments, ssl=ssl, **options)


class Listener(socket.socket):
    """A listening socket that closes new connections while too many are open, handshakes included."""

    most = ServeOptions.max_connections + 2 * BURST
    most_per_address = ServeOptions.max_per_address + BURST

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            accepted, address = super().accept()
            held = self.__dict__.setdefault("_held", weakref.WeakKeyDictionary[socket.socket, str | None]())
            network = network_of(address[0])
            present = [other for sock, other in held.items() if sock.fileno() >= 0]
            near = 0 if network is None else present.count(network)
            if len(present) < self.most and near < self.most_per_address:
                held[accepted] = network
                return accepted, address
            accepted.close()


def bind(host: str, port: int, connections: int = ServeOptions.max_connections) -> Listener:
    """A bound socket that does not listen yet, so that a port in use is reported before minutes of loading."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as undo:
            # asyncio sets TCP_NODELAY only on sockets that say they are TCP. Without it each round waits 40 ms.
            listener = undo.enter_context(Listener(family, kind, protocol))
            listener.most = connections + 2 * BURST
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            undo.pop_all()
    except OSError as error:
        other = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host or --port"
        raise CannotBind(f"Cannot listen on {host}:{port}: {error.strerror}. Choose another {other}.") from error
    return listener


def config(
    app: Any,
    most: int = ServeOptions.max_connections,
    most_per_address: int = ServeOptions.max_per_address,
    refused: Callable[[str], None] | None = None,
    devices: bool = False,
    **options: Any,
) -> uvicorn.Config:
    """uvicorn's settings for a service with limits on connections.

    `refused`, `devices`: see `ClientConnection`. `options`: uvicorn's own.
    """
    limits = {
        "most": most,
        "most_per_address": most_per_address,
        "refused": refused and staticmethod(refused),
        "devices": devices,
    }
    return uvicorn.Config(
        app,
        http=type("Connection", (ClientConnection,), limits),
        ws="none",
        loop=f"{__name__}:Loop",
        access_log=False,
        log_level="warning",
        lifespan="off",
        backlog=BURST,
        h11_max_incomplete_event_size=2 * MAX_HEAD_BYTES,
        **options,
    )
