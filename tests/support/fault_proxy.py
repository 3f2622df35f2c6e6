"""A line that fails on demand: an HTTP proxy on loopback between a device and its verifiers.

It reads each request whole, hands it to a verifier over a connection of its own, and relays the reply byte by byte. So
it knows which request is which, and can break a reply anywhere. A `Fault` decides what becomes of one exchange. Faults
come by plan (`plan`: the nth time that the device asks for tokens), or stay until `heal` (`line`: every exchange, also
those that only probe the line).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Self

from tests.support.listeners import stop_listening

ASKING = re.compile(rb"POST \S*/v1/(rounds|streams) |GET \S*/v1/streams/")
"""Matches requests for tokens."""
CHUNK = 1 << 14


class Exchange:
    """One request of the device, and the ways to answer it."""

    def __init__(self, proxy: FaultProxy, head: bytes, body: bytes, device: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.head, self.body = head, body
        self.previous: bytes | None = proxy.last_request
        """The previous request for tokens, as it went to the verifier."""
        self.begun = False
        """Part of the reply has gone to the device."""
        self._device = device

    @property
    def asks(self) -> bool:
        """True for a request for tokens."""
        return ASKING.match(self.head) is not None

    @property
    def session(self) -> str:
        found = re.search(rb"\r\nx-session-id: (\S+)", self.head, re.IGNORECASE)
        return "" if found is None else found[1].decode("ascii")

    @property
    def request(self) -> bytes:
        """The request as it goes to a verifier, whose reply then ends with the connection."""
        return _without_connection(self.head)[:-2] + b"connection: close\r\n\r\n" + self.body

    async def reply(self, request: bytes | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the verifier's reply to it (or to another request): the head, then the body as it comes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.verifiers[0])
        try:
            writer.write(request or self.request)
            yield _without_connection(await reader.readuntil(b"\r\n\r\n"))
            while data := await reader.read(CHUNK):
                yield data
        finally:
            writer.close()

    async def ask(self, request: bytes | None = None) -> bytes:
        """The verifier's whole reply, of which the device sees nothing."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            return b"".join([data async for data in self.reply(request)])
        return b""

    async def relay(self, most: int | None = None) -> None:
        """Give the device the verifier's reply, or only the head and the first `most` bytes of the body."""
        left = most
        async with contextlib.aclosing(self.reply()) as reply:
            async for data in reply:
                if self.begun and left is not None:
                    data, left = data[:left], left - len(data)
                await self.tell(data)
                if left is not None and left <= 0:
                    return

    async def tell(self, data: bytes) -> None:
        """Give the device these bytes, or swallow them for ever if its connection is dead."""
        if self._device in self.proxy.dead:
            await forever()
        self._device.write(data)
        self.begun = True
        await self._device.drain()

    async def forget(self) -> None:
        """Make the verifier drop the session."""
        path = b"/v1/sessions/" + self.session.encode("ascii")
        await self.ask(b"DELETE " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")

    def cut(self) -> None:
        """End the device's connection, as a restarting proxy does."""
        self._device.close()

    def reset(self) -> None:
        """End the device's connection with TCP's RST: no goodbye, and what is on its way is lost."""
        raw = self._device.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._device.transport.abort()


Fault = Callable[[Exchange], Awaitable[None]]


class FaultProxy:
    """The proxy, as an asynchronous context manager.

    `verifiers`: ports on loopback; the first one answers. `host`: where it listens.
    """

    def __init__(self, verifiers: Sequence[int], host: str = "127.0.0.1") -> None:
        self._host = host
        self.verifiers = list(verifiers)
        self.line: Fault | None = None
        """What becomes of every exchange. None: the line works."""
        self.plan: dict[int, Fault] = {}
        """What becomes of the nth request for tokens, counted by `asked`, while the line works."""
        self.asked = 0
        self.struck: list[int] = []
        """Numbers of the requests for tokens that met a planned fault."""
        self.last_request: bytes | None = None
        self.dead: set[asyncio.StreamWriter] = set()
        """Connections of devices that swallow everything."""
        self.port = 0
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.refuse()

    async def listen(self) -> None:
        """Accept connections on the same port as before. Does nothing if it already does."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accepted, self._host, self.port, limit=CHUNK)
            self.port = int(self._server.sockets[0].getsockname()[1])

    async def refuse(self) -> None:
        """End all connections, and refuse new ones until `listen`."""
        if self._server is not None:
            server, self._server = self._server, None
            await stop_listening(server)
        mine = asyncio.current_task()
        tasks = [task for task in self._open.values() if task is not mine]
        for task in tasks:
            task.cancel()
        for device in self._open:
            device.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def hush(self) -> None:
        """Let the present connections swallow everything from now on, like a NAT that forgot them. New ones work."""
        self.dead |= set(self._open)

    async def heal(self) -> None:
        """Let the line work again. Dead connections stay dead."""
        self.line = None
        await self.listen()

    def turn(self) -> None:
        """Let the next verifier answer from now on."""
        self.verifiers.append(self.verifiers.pop(0))

    def at(self, ask: int, fault: Fault) -> None:
        """Plan a fault for one of the coming requests for tokens; 0 is the next one."""
        self.plan[self.asked + ask] = fault

    async def _accepted(self, reader: asyncio.StreamReader, device: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[device] = task
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                while not device.is_closing():
                    await self._serve(reader, device)
            finally:
                device.close()
                self._open.pop(device, None)
                self.dead.discard(device)

    async def _serve(self, reader: asyncio.StreamReader, device: asyncio.StreamWriter) -> None:
        """Serve one exchange. If the verifier is missing or breaks off, the connection breaks off."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1])) if length else b""
        exchange = Exchange(self, head, body, device)
        if device in self.dead:
            await forever()
        fault = self.line
        if exchange.asks:
            planned = self.plan.pop(self.asked, None)
            if fault is None and planned is not None:
                fault = planned
                self.struck.append(self.asked)
            self.asked += 1
            self.last_request = exchange.request
        await (exchange.relay() if fault is None else fault(exchange))


def _without_connection(head: bytes) -> bytes:
    """Remove the `Connection` header, so that one side's connection can stay while the other's ends."""
    return re.sub(rb"\r\nconnection: [^\r]*", b"", head, flags=re.IGNORECASE)


async def forever() -> None:
    """Never return."""
    await asyncio.Event().wait()
