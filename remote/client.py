"""The device's end of the wire: what a verifier is, whether it is well, and sessions with it."""

from __future__ import annotations

import time
from types import TracebackType

import httpx

from remote.bounds import Bounds
from remote.errors import Incompatible, RemoteError, quoted
from remote.handshake import Handshake
from remote.protocol import VERSION, Card, ProtocolError, Struct, decode
from remote.session import RemoteSession
from remote.timing import CLOCK, Clock
from remote.transport import DEFAULT, TransportOptions
from remote.wire import Traffic, Wire

ANY = Bounds()
"""Of a session whose caller has not seen the card."""


class VerifierClient:
    """One verifier, over a pool of kept-alive connections.

    `url`: http or https, with a path in front where a proxy puts one. `token`: sent as a bearer token, to this address
    only (redirects are not followed). `transport`: the seam for tests; None is the network, through the proxies that
    the environment names (loopback excepted). Raises `Misconfigured`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        options: TransportOptions = DEFAULT,
        clock: Clock = CLOCK,
    ) -> None:
        self._wire = Wire(url, token, transport=transport, options=options, clock=clock)
        self.rtt_seconds: float | None = None
        """From the last card's request to its answer; None before the first. Connecting is not part of it."""

    @property
    def local(self) -> bool:
        """It is reached over this device's own loopback, and so may share its cores."""
        return self._wire.local

    @property
    def host(self) -> str:
        return self._wire.host

    @property
    def handshake(self) -> Handshake | None:
        """How the last connection was made; None before the first."""
        return self._wire.handshake

    @property
    def ahead_seconds(self) -> float | None:
        """How far the server's clock was ahead of this device's at its last answer; None where it tells no time."""
        return self._wire.ahead_seconds

    async def __aenter__(self) -> VerifierClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def card(self, timeout: float, *, tokenizer: bytes | None = None) -> Card:
        """Who the verifier is. `tokenizer`: the digest of the device's own, which the verifier's must equal.

        Raises `LinkDown`, `Refused`, `Incompatible`.
        """
        host = self._wire.host
        async with self._wire.within(timeout):
            answer = await self._wire.send("GET", "/v1/card", Traffic(), silence=timeout)
            self.rtt_seconds = time.perf_counter() - answer.sent
            body = await answer.read()
        try:
            version = decode(body, _Version).version
            if version != VERSION:
                older = "the verifier" if version < VERSION else "outrider on this device"
                raise Incompatible(f"{host} speaks version {version} of the protocol, not {VERSION}; update {older}")
            card = decode(body, Card)
        except ProtocolError as error:
            raise Incompatible(f"{host} sent {quoted(str(error))}; update the older side") from None
        if tokenizer is not None and tokenizer != card.tokenizer:
            target = quoted(card.target)
            raise Incompatible(
                f"{host} serves {target}, whose tokenizer is not this drafter's; use the drafter made for it"
            )
        return card

    async def healthy(self, timeout: float) -> bool:
        """Whether the verifier answers and is well: the cheapest probe of a line. Raises nothing of `RemoteError`."""
        try:
            async with self._wire.within(timeout):
                return await self._wire.healthy(silence=timeout)
        except RemoteError:
            return False

    def session(self, bounds: Bounds = ANY) -> RemoteSession:
        """A new conversation; the verifier hears of it with its first round. `bounds`: what its replies may hold."""
        return RemoteSession(self._wire, bounds)

    async def close(self) -> None:
        """Close all connections, and with them any memory still on its way."""
        await self._wire.aclose()


class _Version(Struct, frozen=True):
    """The one field of a card that every version can read."""

    version: int
