"""Fetches one address of the web for a person who named it: bounded in bytes, redirects and time.

Only http and https are followed. A redirect must not lead into a private network, which the server that redirects may
not reach itself; an address that the person typed may be anywhere.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import zlib
from dataclasses import dataclass

import httpx

from remote.errors import Misconfigured, RemoteError, quoted
from remote.proxies import environment_proxy, is_loopback
from remote.response import PACKINGS, Unpacker
from remote.transport import TransportOptions, system_trust
from remote.transport_errors import translate_errors
from remote.wire import common_headers, trusted_proxy

MOST_PAGE_BYTES = 20_000_000
"""Most bytes of an answer, decompressed."""
MOST_REDIRECTS = 5
MOST_FETCH_SECONDS = 30.0
SILENCE_SECONDS = 15.0
ACCEPT = "text/html, application/xhtml+xml, text/plain;q=0.9, */*;q=0.5"
SAVE_IT = "open it in a browser, and send what you save there"


class NotFetched(Exception):
    """A page that is not there, or is not fetched. The text says why, without its address."""


@dataclass(frozen=True)
class WebPage:
    address: str
    """Where it was found, after redirects."""
    content_type: str
    """In lower case, without parameters; empty if the server named none."""
    charset: str
    data: bytes


async def fetch_web_page(typed: str) -> WebPage:
    """The page at an address that a person typed. Raises `NotFetched`."""
    try:
        async with asyncio.timeout(MOST_FETCH_SECONDS):
            return await _followed(_parsed(typed))
    except TimeoutError:
        raise NotFetched(f"did not arrive within {MOST_FETCH_SECONDS:.0f} s; try it again, or {SAVE_IT}") from None
    except (httpx.InvalidURL, httpx.HTTPError, UnicodeError) as error:
        raise NotFetched(f"cannot be fetched ({quoted(str(error))}); check the address") from None


def _parsed(text: str) -> httpx.URL:
    """The address, without its fragment. Raises `NotFetched`, `httpx.InvalidURL`."""
    address = httpx.URL(text).copy_with(fragment=None)
    if address.scheme not in ("http", "https") or not address.host:
        raise NotFetched("is not a web address; those begin with https:// or http://")
    if address.userinfo:
        raise NotFetched("has a user name or a password in it, which the model would see; leave it out")
    return address


async def _followed(typed: httpx.URL) -> WebPage:
    address, jar = typed, httpx.Cookies()
    private_host = ""
    for count in range(MOST_REDIRECTS + 1):
        try:
            proxy = environment_proxy(address)
        except Misconfigured as error:
            raise NotFetched(f"cannot be fetched: {error}") from None
        private = await _is_private(address, proxied=proxy is not None)
        if count == 0:
            private_host = address.host if private else ""
        elif private and address.host != private_host:
            raise NotFetched(f"redirects to {_shown(address)} in a private network; type that address if you want it")
        page = await _get(address, proxy, jar, public=count > 0 and not private)
        if isinstance(page, WebPage):
            return page
        try:
            address = _parsed(str(address.join(page)))
        except (NotFetched, httpx.InvalidURL):
            raise NotFetched(f"redirects to {quoted(page)}, which is not a web page; {SAVE_IT}") from None
    raise NotFetched(f"redirects more than {MOST_REDIRECTS} times; {SAVE_IT}")


async def _get(address: httpx.URL, proxy: httpx.URL | None, jar: httpx.Cookies, *, public: bool) -> WebPage | str:
    """One request: the page, or where it redirects to. `public`: only an address of the internet may answer."""
    shown = None if proxy is None else str(proxy.copy_with(userinfo=b""))
    trust = system_trust() if address.scheme == "https" else False
    client = httpx.AsyncClient(
        headers={**common_headers(None), "accept": ACCEPT, "accept-encoding": "gzip, deflate"},
        cookies=jar,
        verify=trust,
        proxy=trusted_proxy(proxy),
        trust_env=False,
        timeout=SILENCE_SECONDS,
    )
    host = address.netloc.decode("ascii")
    try:
        async with client:
            with translate_errors(host, TransportOptions(proxy=shown)):
                async with client.stream("GET", address) as response:
                    if public and proxy is None and not _answers_from_internet(response):
                        raise NotFetched(f"redirects to {_shown(address)} in a private network")
                    jar.update(client.cookies)
                    location: str = response.headers.get("location", "")
                    if response.is_redirect and location:
                        return location
                    if response.status_code != 200:
                        status = f"{response.status_code} {quoted(response.reason_phrase)}".strip()
                        raise NotFetched(f"was refused ({status}); check the address, or {SAVE_IT}")
                    data = await _body(response)
    except RemoteError as error:
        if isinstance(error.__cause__, Exception) and _is_untrusted(error.__cause__):
            raise NotFetched(f"has a certificate that this device does not trust; {SAVE_IT}") from None
        raise NotFetched(f"cannot be fetched: {error}") from None
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return WebPage(str(address), kind, response.charset_encoding or "", data)


async def _body(response: httpx.Response) -> bytes:
    """The body, decompressed. Raises `NotFetched` if it is too long."""
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", *PACKINGS):
        raise NotFetched(f"is compressed in an unsupported way ({quoted(packing)}); {SAVE_IT}")
    unpacker, body = Unpacker() if packing in PACKINGS else None, bytearray()
    try:
        async for chunk in response.aiter_raw():
            for piece in [chunk] if unpacker is None else unpacker.feed(chunk):
                body += piece
                if len(body) > MOST_PAGE_BYTES:
                    raise NotFetched(f"has more than {MOST_PAGE_BYTES // 1_000_000} MB, too much to read")
    except zlib.error:
        raise NotFetched(f"is damaged; try it again, or {SAVE_IT}") from None
    return bytes(body)


async def _is_private(address: httpx.URL, *, proxied: bool) -> bool:
    """Whether a host is on this device or in its network. Of a name behind a proxy, only the proxy knows."""
    if is_loopback(address.host):
        return True
    if _ip(address.host) is not None or proxied:
        return not _is_global(address.host) if _ip(address.host) else False
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False  # Connecting says what is wrong.
    return any(not _is_global(str(one[4][0])) for one in found)


def _answers_from_internet(response: httpx.Response) -> bool:
    """Whether the other end of a connection is public: a name may mean another address when it is asked again."""
    stream = response.extensions.get("network_stream")
    peer = None if stream is None else stream.get_extra_info("server_addr")
    return isinstance(peer, tuple) and _is_global(str(peer[0]))


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def _is_global(host: str) -> bool:
    address = _ip(host)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and address.is_global and not address.is_multicast


def _is_untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _shown(address: httpx.URL) -> str:
    return quoted(address.netloc.decode("ascii"))
