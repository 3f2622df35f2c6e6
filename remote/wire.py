"""One HTTP exchange with a server. Every failure becomes a `RemoteError` with a sentence for a person.

A usable answer of a verifier has status 200 or 409 and the protocol's content type, or status 204 and no body. A typed
error is `Refused`. Everything else, such as the login page of a captive portal or a proxy's "bad gateway", is not from
the verifier: `LinkDown`. No rounds, no trees.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import ClassVar, Self

import httpx
import msgspec

from remote.clock import CLOCK, Clock
from remote.credentials import bearer_token, without_credentials
from remote.errors import Broken, LinkDown, Misconfigured, Refused, RemoteError, Stranger, TooSlow, Unsent, quoted
from remote.handshake import Handshake, RequestTrace, ahead_seconds
from remote.openai.error_bodies import read_error
from remote.pages import NOBODY_BEHIND, PLAIN_TO_TLS, PORTAL, meaning, said_on
from remote.protocol import CONTENT_TYPE, SESSION_HEADER, VERSION, Error, ProtocolError, decode
from remote.proxies import environment_proxy, is_loopback, proxy_address, to_check
from remote.response import Response, Traffic
from remote.transport import DEFAULT, TransportOptions, system_trust
from remote.transport_errors import translate_errors

LOST_BEHIND_PROXY = (500, 502, 503, 504)
"""Statuses with which a proxy reports that the server behind it died during a request. Another server may be there."""
FAREWELL_SECONDS = 1.0
"""Longest wait for a message that nobody waits for."""
OWN_SENTENCES = (401, 407)
"""Statuses with their own sentence, whatever the server says."""


def common_headers(token: str | None) -> dict[str, str]:
    """Headers of every request to a remote, and for a web page. The version is the protocol's."""
    headers = {"accept-encoding": "identity", "user-agent": f"outrider/{VERSION}"}
    return headers if token is None else {**headers, "authorization": f"Bearer {token}"}


class Wire:
    """One server, over a pool of kept-alive connections: the base of the clients of both kinds of servers.

    `url`: http or https, with a path if a proxy adds one. `token`: sent as a bearer token, to this address only
    (redirects are not followed). `transport`: replaces the network in tests; without it, requests pass the proxies
    that the environment names, except to loopback. `clock`: for deadlines. Raises `Misconfigured`.

    Subclasses change the settings below.
    """

    own_headers: ClassVar[Mapping[str, str]] = {"accept": CONTENT_TYPE}
    """Headers of every request of this client, besides `common_headers`. A subclass that sets it inherits none."""
    keep_alive: ClassVar[float] = 60.0
    """Seconds for which an idle connection is kept. It saves a TCP and TLS handshake, two to three round trips, after a
    person has thought for a while."""
    probed: ClassVar[bool] = False
    """Whether the system checks that silent connections are alive."""
    connect_seconds: ClassVar[float | None] = None
    """Time to connect if the remote sets none, or None for as long as an answer may take."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        options: TransportOptions = DEFAULT,
        clock: Clock = CLOCK,
    ) -> None:
        address = server_address(url)
        self.host = address.netloc.decode("ascii")
        self.local = is_loopback(address.host)
        """Whether the server is reached over this device's loopback, so that it may share the device's cores."""
        self.handshake: Handshake | None = None
        """How the last connection was made, or None before the first."""
        self.ahead_seconds: float | None = None
        """Seconds by which the server's clock was ahead of this device's at its last answer, or None if unknown."""
        self.rtt_seconds: float | None = None
        """Seconds that the last small request took, without connecting, or None before the first."""
        self.clock = clock
        self._farewells: set[asyncio.Task[None]] = set()
        self._secure = address.scheme == "https"
        try:
            self._token = None if token is None else bearer_token(token)
        except ValueError as error:
            raise Misconfigured(str(error)) from None
        options.check()
        if options.proxy is not None:
            proxy: httpx.URL | None = proxy_address(options.proxy, "the proxy of this server")
        else:
            proxy = environment_proxy(address) if transport is None else None
        self._options = options if proxy is None else replace(options, proxy=str(proxy.copy_with(userinfo=b"")))
        self._http = httpx.AsyncClient(
            base_url=address,
            headers={**self.own_headers, **self.signed(self._token)},
            transport=transport,
            verify=options.trust if self._secure else False,
            proxy=trusted_proxy(proxy),
            trust_env=False,
            limits=httpx.Limits(keepalive_expiry=self.keep_alive),
        )

    @staticmethod
    def signed(token: str | None) -> dict[str, str]:
        """`common_headers`, with the token where this kind of server looks for it."""
        return common_headers(token)

    @asynccontextmanager
    async def within(self, seconds: float, waited: float = 0.0) -> AsyncIterator[None]:
        """Raise `LinkDown` if the block takes longer, however its time is spread over requests and retries.

        `waited`: seconds already waited, for the message.
        """
        try:
            async with self.clock.within(max(0.0, seconds)):
                yield
        except TimeoutError:
            told = f"{self.host} did not answer within {waited + seconds:.3g} s; {to_check(self.host)}"
            raise TooSlow(told) from None

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

        `silence`: seconds without a byte after which connecting, sending or reading is given up. Raises `LinkDown`,
        `Refused`, `Incompatible`.
        """
        headers = {} if session is None else {SESSION_HEADER: session}
        if body is not None:
            headers["content-type"] = CONTENT_TYPE
        answer = await self.exchange(method, path, traffic, silence=silence, body=body, headers=headers)
        if answer.status == 204 or (answer.status in (200, 409) and answer.content_type == CONTENT_TYPE):
            return answer
        try:
            error = await self.refusal(answer)
            if session is not None and answer.status in LOST_BEHIND_PROXY and isinstance(error, LinkDown):
                raise Broken(str(error))
            raise error
        finally:
            await answer.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def farewell(self, path: str, *, session: str) -> None:
        """Send a DELETE in the background, of which nobody needs the answer."""

        async def send() -> None:
            with suppress(RemoteError):
                answer = await self.send("DELETE", path, Traffic(), silence=FAREWELL_SECONDS, session=session)
                await answer.aclose()

        task = asyncio.create_task(send())
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def close(self) -> None:
        """Close all connections, even those that are still receiving."""
        if self._farewells:
            await asyncio.wait(self._farewells, timeout=FAREWELL_SECONDS)
        await self._http.aclose()

    async def exchange(
        self,
        method: str,
        path: str,
        traffic: Traffic,
        *,
        silence: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request and return its answer, whatever it is.

        Raises `LinkDown`, or `Unsent` if nothing was sent.
        """
        watch = RequestTrace(probed=self.probed)
        request = self._http.build_request(
            method,
            path,
            content=body,
            headers=headers,
            timeout=httpx.Timeout(silence, connect=self._options.connect_seconds or self.connect_seconds or silence),
            extensions={"trace": watch},
        )
        traffic.up += _size(f"{method} {request.url.raw_path.decode()} HTTP/1.1", request.headers) + len(body or b"")
        if self._http.is_closed:  # The owner closed this client, maybe while this round was on its way.
            raise Unsent(f"{self.host} is not answering; Outrider reconnects as soon as it does")
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
        """Hide the token in a server's message, because some servers quote the token that they refuse."""
        return text if self._token is None else text.replace(self._token, "[hidden]")

    def stranger(self, answer: Response, page: bytes = b"") -> RemoteError:
        """The error to raise for an answer that the server itself would not give. `page`: its body, as far as known."""
        status = answer.status
        if 300 <= status < 400:
            if self._is_own_tls(answer.location):
                return Stranger(f"{self.host} redirects to TLS; try https:// in the address")
            return Stranger(f"{self.host} redirects to {self.hiding(answer.location) or 'nowhere'}; {PORTAL}")
        if status == 401:
            message = f"{self.host} did not accept the token, or requires one (401); check the token of this server"
            return Refused(Error(code="unauthorised", message=message, retry=False))
        if status == 407:
            return LinkDown(
                f"the proxy{self._proxy_name} requires a user name and a password (407); put them in the variable "
                "HTTP_PROXY, as in http://NAME:PASSWORD@host:port"
            )
        if PLAIN_TO_TLS.search(page) and not self._secure:
            return LinkDown(f"{self.host} speaks TLS; try https:// in the address")
        sentence = meaning(self.host, status, self.hiding(said_on(page)))
        if sentence and status in NOBODY_BEHIND:
            return LinkDown(sentence)
        content = quoted(answer.content_type) or "something of unknown type"
        return Stranger(sentence or f"{self.host} sent {content} (status {status}), not an answer; {PORTAL}", status)

    def _is_own_tls(self, location: str) -> bool:
        """Whether a redirect leads to this same server over TLS."""
        try:
            place = httpx.URL(location)
        except httpx.InvalidURL:
            return False
        return not self._secure and place.scheme == "https" and place.host == self._http.base_url.host

    @property
    def _proxy_name(self) -> str:
        """The proxy on the way, for a sentence, or an empty text if it was not configured here."""
        address = self._options.proxy
        return "" if address is None else f" {httpx.URL(address).netloc.decode('ascii')}"


# ---- addresses -------------------------------------------------------------------------------------------------------


def server_address(url: str) -> httpx.URL:
    """The base address of a server. Raises `Misconfigured`, which says what is wrong with it."""
    advice, shown = "write it as https://host:port", quoted(without_credentials(url))
    host, reason = "", ""
    try:
        address = httpx.URL(url.strip())
        host = address.raw_host.decode("ascii")
        host.encode("idna")  # The resolver does this too, and only it refuses empty and overlong labels.
    except (httpx.InvalidURL, UnicodeError) as error:
        reason = quoted(str(error)) if "@" not in url else "its credentials cannot be read"
    if reason:  # Not in the clause above: httpx's message would be chained to the error, and may quote a password.
        raise Misconfigured(f"{shown!r} is not an address ({reason}); {advice}")
    if address.scheme not in ("http", "https") or not host or not 0 < (address.port or 80) < 1 << 16:
        raise Misconfigured(f"{shown!r} is not the address of a server; {advice}")
    for call in ("/chat/completions", "/completions", "/v1/messages"):
        if address.path.rstrip("/").endswith(call):
            raise Misconfigured(f"{shown!r} is the address of one request; leave {call} out of it")
    for mark, part in (("?", address.query), ("#", address.fragment)):
        if part:  # It may be a key, so it is not shown.
            base = shown.partition(mark)[0]
            raise Misconfigured(f"{base!r} is followed by more; leave {mark} and what follows out of the address")
    if address.userinfo:
        raise Misconfigured(f"the address of {host} contains credentials; give the token separately")
    return address


def trusted_proxy(address: httpx.URL | None) -> httpx.Proxy | None:
    """A proxy for httpx. If it speaks TLS itself, this device's authorities count, not a remote's own."""
    if address is None:
        return None
    return httpx.Proxy(address, ssl_context=system_trust() if address.scheme == "https" else None)


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
