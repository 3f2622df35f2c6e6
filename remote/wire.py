"""One HTTP exchange with a server. Every failure becomes a `RemoteError` with a sentence for a person.

A usable answer of a verifier has status 200 or 409 and the protocol's content type, or status 204 and no body. A typed
error is `Refused`. Everything else, such as the login page of a captive portal or a proxy's "bad gateway", comes from
somebody else: `LinkDown`. No rounds, no trees.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

import httpx
import msgspec

from remote.clock import CLOCK, Clock
from remote.compression import PACKINGS, Unpacker
from remote.credentials import bearer_token, without_credentials
from remote.errors import Broken, Incompatible, LinkDown, Misconfigured, Refused, RemoteError, Stranger, Unsent, quoted
from remote.handshake import Handshake, RequestTrace, ahead_seconds
from remote.openai.error_bodies import read_error
from remote.pages import NOBODY_BEHIND, PLAIN_TO_TLS, PORTAL, meaning, said_on
from remote.protocol import CONTENT_TYPE, SESSION_HEADER, VERSION, Error, ProtocolError, decode
from remote.proxies import environment_proxy, is_loopback, proxy_address, to_check
from remote.tasks import end
from remote.transport import DEFAULT, TransportOptions, system_trust
from remote.transport_errors import translate_errors

MAX_BODY_BYTES = 1 << 20
"""Longest answer that is read whole. A card with its chat template is a few KiB."""
KEEP_ALIVE_SECONDS = 60.0
"""How long an idle connection is kept. It saves a TCP and TLS handshake, two to three round trips, after a person has
thought for a while."""
STEPS_TO_READ = 10
"""Steps of the event loop after which what waited in a socket has come through all layers."""
LOST_BEHIND_PROXY = (500, 502, 503, 504)
"""What a proxy answers, in words of its own, if a server behind it dies under a request. Another one may be there."""
OWN_SENTENCES = (401, 407)
"""Statuses that have a sentence of their own, whatever the words beside them."""
SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


@dataclass
class Traffic:
    """Bytes of HTTP/1.1 requests and responses, headers included, without chunk marks, TLS and TCP."""

    up: int = 0
    down: int = 0
    streamed: int = 0
    """Bytes of the last response's body, without those that came first."""
    streaming_seconds: float = 0.0
    """Seconds from the arrival of the first bytes to that of the last."""


class Metered:
    """Something that a server sends, whose bytes are counted while it is read."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    @property
    def bytes_up(self) -> int:
        """Bytes of all its requests."""
        return self._traffic.up

    @property
    def bytes_down(self) -> int:
        """Bytes of all its responses so far."""
        return self._traffic.down


class Response:
    """A server's response whose body is still on its way. Read it to the end or close it.

    `sent`: when the first byte of its request was written, on the clock of `time.perf_counter`.
    """

    def __init__(
        self,
        response: httpx.Response,
        host: str,
        sent: float,
        traffic: Traffic,
        options: TransportOptions,
        within: Callable[[float], AbstractAsyncContextManager[None]],
    ) -> None:
        self._within = within
        self._response = response
        self._host = host
        self._options = options
        self._traffic = traffic
        self.status = response.status_code
        self.silence: float | None = None
        """Seconds without a byte of the body after which the line counts as lost; None: as for the request."""
        self.sent = sent
        self.arrived = time.perf_counter()
        """When its head had arrived."""

    @property
    def content_type(self) -> str:
        value: str = self._response.headers.get("content-type", "")
        return value.partition(";")[0].strip().lower()

    @property
    def _packing(self) -> str:
        value: str = self._response.headers.get("content-encoding", "")
        return value.strip().lower()

    @property
    def encoding(self) -> str:
        """How the body is compressed, if nothing here can unpack it; else empty."""
        return "" if self._packing in ("identity", *PACKINGS) else quoted(self._packing)

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again, which it may say as a date. None if it says none."""
        headers = self._response.headers
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            value: str = headers.get(name, "").strip()
            if SECONDS.fullmatch(value):
                return float(value) * unit
        if value and (at := ahead_seconds(value, 0.0)) is not None:
            now = ahead_seconds(headers.get("date"), 0.0)
            return max(0.0, at - (time.time() if now is None else now))
        return None

    @property
    def location(self) -> str:
        return quoted(self._response.headers.get("location", ""))

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, unpacked. Raises `LinkDown`, and `Incompatible` if it cannot be unpacked."""
        chunks = self._raw_chunks()
        return self._unpacked(chunks) if self._packing in PACKINGS else chunks

    async def _unpacked(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        unpacker = Unpacker()
        try:
            async for chunk in chunks:
                for piece in unpacker.feed(chunk):
                    yield piece
        except zlib.error as error:
            told = f"{self._host} packs its answers ({self._packing}) in a way that cannot be unpacked ({error})"
            raise Incompatible(f"{quoted(told)}; turn that off there") from None

    async def _raw_chunks(self) -> AsyncIterator[bytes]:
        traffic, first = self._traffic, 0.0
        with translate_errors(self._host, self._options):
            raw = self._response.aiter_raw()
            while (chunk := await self._next(raw)) is not None:
                traffic.down += len(chunk)
                if not first:
                    first, traffic.streamed = time.perf_counter(), 0
                else:
                    traffic.streamed += len(chunk)
                    traffic.streaming_seconds = time.perf_counter() - first
                yield chunk

    async def _next(self, raw: AsyncIterator[bytes]) -> bytes | None:
        if self.silence is None:
            return await anext(raw, None)
        coming = asyncio.ensure_future(anext(raw, None))
        try:
            async with self._within(self.silence):
                return await asyncio.shield(coming)
        except LinkDown:
            # If this process stood still, what came meanwhile has not been read yet.
            for _ in range(STEPS_TO_READ):
                await asyncio.sleep(0)
            if not coming.done():
                raise
            return coming.result()
        finally:
            if not coming.done():
                await end(coming)

    async def read(self, most: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Raises `LinkDown`, and `Incompatible` if it is longer than `most` bytes."""
        body = bytearray()
        try:
            async for chunk in self.chunks():
                body += chunk
                if len(body) > most:
                    raise Incompatible(f"{self._host} answered with more than {most} bytes; check the address")
        finally:
            await self.aclose()
        return bytes(body)

    async def aclose(self) -> None:
        await self._response.aclose()


class Wire:
    """A pool of connections to one server. For the arguments, see `VerifierClient`.

    `accept`: content types of its answers. `probed`: the system watches silent connections for life. `keep_alive`:
    seconds after which an idle connection is not used again. `clock`: for deadlines.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        options: TransportOptions = DEFAULT,
        accept: str = CONTENT_TYPE,
        probed: bool = False,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        clock: Clock = CLOCK,
    ) -> None:
        address = _address(url)
        self.host = address.netloc.decode("ascii")
        self.local = is_loopback(address.host)
        """The server is on this device."""
        self.handshake: Handshake | None = None
        """How the last connection was made. None before the first."""
        self.ahead_seconds: float | None = None
        """How far the server's clock was ahead of this device's at its last answer, in seconds. None if it tells no
        time."""
        self.clock = clock
        self._secure = address.scheme == "https"
        self._probed = probed
        headers = {"accept": accept, "accept-encoding": "identity", "user-agent": f"outrider/{VERSION}"}
        try:
            self._token = None if token is None else bearer_token(token)
        except ValueError as error:
            raise Misconfigured(str(error)) from None
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        options.check()
        proxy = None
        if options.proxy is not None:
            proxy = proxy_address(options.proxy, "the proxy of this server")
        elif transport is None:
            proxy = environment_proxy(address)
        self._options = options if proxy is None else replace(options, proxy=str(proxy.copy_with(userinfo=b"")))
        self._http = httpx.AsyncClient(
            base_url=address,
            headers=headers,
            transport=transport,
            verify=options.trust if address.scheme == "https" else False,
            proxy=None if proxy is None else httpx.Proxy(proxy, ssl_context=_proxy_trust(proxy)),
            trust_env=False,
            limits=httpx.Limits(keepalive_expiry=keep_alive),
        )

    @asynccontextmanager
    async def within(self, seconds: float, waited: float = 0.0) -> AsyncIterator[None]:
        """Raise `LinkDown` if the block takes longer, however its time is spread over requests and retries.

        `waited`: seconds that were waited before, for the message.
        """
        try:
            async with self.clock.within(max(0.0, seconds)):
                yield
        except TimeoutError:
            told = f"{self.host} did not answer within {waited + seconds:.3g} s; {to_check(self.host)}"
            raise LinkDown(told) from None

    async def send(
        self,
        method: str,
        path: str,
        traffic: Traffic,
        *,
        silence: float,
        body: bytes | None = None,
        session: str | None = None,
    ) -> Response:
        """Send one request and return its usable answer. Any other answer is raised.

        `silence`: seconds without a byte after which connecting, sending or reading gives up. Raises `LinkDown`,
        `Refused`, `Incompatible`.
        """
        answer = await self.exchange(method, path, traffic, silence=silence, body=body, session=session)
        if answer.status == 204 or (answer.status in (200, 409) and answer.content_type == CONTENT_TYPE):
            return answer
        try:
            error = await self.refusal(answer)
            if session is not None and answer.status in LOST_BEHIND_PROXY and isinstance(error, LinkDown):
                raise Broken(str(error))
            raise error
        finally:
            await answer.aclose()

    async def healthy(self, silence: float) -> bool:
        """True if a verifier, and no login page in its place, says that it is well. Raises `LinkDown`."""
        answer = await self.exchange("GET", "/healthz", Traffic(), silence=silence)
        try:
            return answer.status == 200 and "html" not in answer.content_type
        finally:
            await answer.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def exchange(
        self,
        method: str,
        path: str,
        traffic: Traffic,
        *,
        silence: float,
        body: bytes | None = None,
        session: str | None = None,
        content_type: str = CONTENT_TYPE,
        connect: float | None = None,
    ) -> Response:
        """Send one request and return its answer, whatever it is.

        `connect`: seconds to connect, if the remote does not set them. Raises `LinkDown`, and `Unsent` if nothing of
        the request has left.
        """
        headers = {} if session is None else {SESSION_HEADER: session}
        if body is not None:
            headers["content-type"] = content_type
        watch = RequestTrace(probed=self._probed)
        request = self._http.build_request(
            method,
            path,
            content=body,
            headers=headers,
            timeout=httpx.Timeout(silence, connect=self._options.connect_seconds or connect or silence),
            extensions={"trace": watch},
        )
        traffic.up += _size(f"{method} {request.url.raw_path.decode()} HTTP/1.1", request.headers) + len(body or b"")
        if self._http.is_closed:  # Its owner gave the connection up, maybe while this round was on its way.
            raise Unsent(f"{self.host} does not answer now; Outrider connects again as soon as it does")
        try:
            with translate_errors(self.host, self._options, watch):
                response = await self._http.send(request, stream=True)
        except LinkDown as error:
            if isinstance(error, Broken) and not self._secure and self.handshake is None:
                raise Broken(f"{error}, or try https:// in the address") from error
            if watch.left or isinstance(error, Broken):
                raise
            raise Unsent(str(error)) from error
        self.handshake = watch.handshake(response) or self.handshake
        self.ahead_seconds = ahead_seconds(response.headers.get("date"), time.time())
        traffic.down += _size(f"HTTP/1.1 {response.status_code} {response.reason_phrase}", response.headers)
        return Response(response, self.host, watch.sent, traffic, self._options, self.within)

    async def refusal(self, answer: Response) -> RemoteError:
        """The error to raise for an answer that is not usable. Raises `LinkDown` if it breaks off."""
        if answer.status < 400 or answer.encoding:
            return self.stranger(answer)
        body = await answer.read()
        if error := _typed_error(answer.content_type, body):
            return Refused(msgspec.structs.replace(error, message=self.hiding(error.message)))
        if answer.status not in OWN_SENTENCES and (told := read_error(body)) is not None:
            return Stranger(
                f"{self.host} refused ({answer.status}): {quoted(self.hiding(told.message))}", answer.status
            )
        return self.stranger(answer, body)

    def hiding(self, text: str) -> str:
        """Hide the token in what a server said, because some servers quote the token that they refuse."""
        return text if self._token is None else text.replace(self._token, "[hidden]")

    def stranger(self, answer: Response, page: bytes = b"") -> RemoteError:
        """The error to raise for an answer that the peer itself would not give. `page`: its body, as far as known."""
        status = answer.status
        if 300 <= status < 400:
            if self._is_own_tls(answer.location):
                return Stranger(f"{self.host} redirects to TLS; try https:// in the address")
            return Stranger(f"{self.host} redirects to {self.hiding(answer.location) or 'nowhere'}; {PORTAL}")
        if status == 401:
            message = f"{self.host} did not accept the token, or needs one (401); check the token of this server"
            return Refused(Error(code="unauthorised", message=message, retry=False))
        if status == 407:
            return LinkDown(
                f"the proxy{self._proxy} wants a name and a password (407); write them into its address, as in "
                "http://NAME:PASSWORD@host:port"
            )
        if PLAIN_TO_TLS.search(page) and not self._secure:
            return LinkDown(f"{self.host} speaks TLS; try https:// in the address")
        sentence = meaning(self.host, status, self.hiding(said_on(page)))
        if sentence and status in NOBODY_BEHIND:
            return LinkDown(sentence)
        content = quoted(answer.content_type) or "something of unknown type"
        return Stranger(sentence or f"{self.host} sent {content} (status {status}), not an answer; {PORTAL}", status)

    def _is_own_tls(self, location: str) -> bool:
        """Whether a place is this server's own, with TLS in place of none."""
        try:
            place = httpx.URL(location)
        except httpx.InvalidURL:
            return False
        return not self._secure and place.scheme == "https" and place.host == self._http.base_url.host

    @property
    def _proxy(self) -> str:
        """The proxy on the way, for a sentence; empty if nobody here has named it."""
        address = self._options.proxy
        return "" if address is None else f" {httpx.URL(address).netloc.decode('ascii')}"


# ---- addresses -------------------------------------------------------------------------------------------------------


def _address(url: str) -> httpx.URL:
    advice, shown = "write it as https://host:port", quoted(without_credentials(url))
    host, reason = "", ""
    try:
        address = httpx.URL(url.strip())
        host = address.raw_host.decode("ascii")
        host.encode("idna")  # The resolver does this too, and only it refuses empty and overlong labels.
    except (httpx.InvalidURL, UnicodeError) as error:
        reason = quoted(str(error)) if "@" not in url else "its credentials cannot be read"
    if reason:  # Not in the clause above: what httpx says would go with the error, and may quote a password.
        raise Misconfigured(f"{shown!r} is no address ({reason}); {advice}")
    if address.scheme not in ("http", "https") or not host or not 0 < (address.port or 80) < 1 << 16:
        raise Misconfigured(f"{shown!r} is no address of a server; {advice}")
    for call in ("/chat/completions", "/completions"):
        if address.path.rstrip("/").endswith(call):
            raise Misconfigured(f"{shown!r} is the address of one request; leave {call} out of it")
    if address.userinfo:
        raise Misconfigured(f"the address of {host} holds credentials; give the token apart from it")
    return address


def _proxy_trust(proxy: httpx.URL) -> ssl.SSLContext | None:
    """Trust for the connection to a proxy that speaks TLS itself. A remote's own authority does not count there."""
    return system_trust() if proxy.scheme == "https" else None


def _typed_error(content_type: str, body: bytes) -> Error | None:
    """The protocol's own refusal, in msgpack, or in JSON if a gateway rewrote it. None for any other body."""
    try:
        if content_type == CONTENT_TYPE:
            return decode(body, Error)
        if content_type == "application/json":
            return msgspec.json.decode(body, type=Error)
    except (ProtocolError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None


def _size(first_line: str, headers: httpx.Headers) -> int:
    return len(first_line) + 4 + sum(len(name) + len(value) + 4 for name, value in headers.raw)
