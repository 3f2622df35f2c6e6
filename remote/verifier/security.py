"""Who may talk to the verifier: clients with a bearer token, or without a token only this machine.

A verifier without a token also refuses browsers, because any web page could use it. Browsers send an `Origin` header
with every request that has a body; our clients never do. It also answers only to its own names: a page whose name was
made to point at this device (DNS rebinding) is recognised by the `Host` header that its browser sends.

Allowed pages receive CORS headers. With a token all pages are allowed, unless some are named: access depends on the
token, which no browser sends on its own. Without a token only named pages are allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from remote.openai.schema import JSON, error_body, speaks_openai
from remote.protocol import CONTENT_TYPE, Error, encode
from remote.verifier.holders import EVERYONE, SCOPE, SecurityError, Tokens

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
ANY_PAGE, NAMELESS = "*", "null"
"""All pages; and the origin of pages without one, which any page can produce."""
PORTS = {"http": 80, "https": 443}
"""Default ports, which an origin leaves out."""


class Unprotected(SecurityError):
    """No token, but other machines can reach the verifier."""


def check_binding(host: str, tokens: Tokens | None) -> None:
    """Raise `Unprotected` if other machines could use the verifier without a token."""
    if tokens is None and not is_loopback(host):
        raise Unprotected(f"Without a token the server listens on 127.0.0.1 only, not {host}. Add --token-file FILE.")


class BadOrigin(SecurityError):
    """No origin of web pages, or one that would let every page in without a token."""


def web_origins(named: Collection[str], tokens: Tokens | None) -> frozenset[str]:
    """The origins of the allowed web pages, from those that a person `named`. Raises `BadOrigin`."""
    origins = frozenset(_origin(name) for name in named)
    if tokens is not None:
        return origins or frozenset({ANY_PAGE})
    if every := origins & {ANY_PAGE, NAMELESS}:
        raise BadOrigin(
            f"With --allow-origin {min(every)!r} and no token, every web page could ask. "
            "Add --token-file FILE, or name the page's own origin, such as https://chat.example."
        )
    return origins


def _origin(name: str) -> str:
    """An origin as browsers send it. Raises `BadOrigin`."""
    if name in (ANY_PAGE, NAMELESS):
        return name
    try:
        parts = urlsplit(name)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.netloc.lower()
    whole = parts.scheme and (host or parts.scheme == "file") and parts.path in ("", "/")
    if not whole or parts.query or parts.fragment or any(mark in host for mark in "*@ ,"):
        raise BadOrigin(
            f"--allow-origin takes the whole origin of a page, as https://chat.example:8443 or app://obsidian.md, "
            f"and not {name!r}."
        )
    if port is not None and PORTS.get(parts.scheme) == port:
        host = host.rpartition(":")[0]
    return f"{parts.scheme}://{host}"


def open_to_pages(app: ASGIApp, origins: Collection[str]) -> ASGIApp:
    """The app with CORS headers, which tell browsers which web pages may read its answers, errors included."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        allow_private_network=True,  # A page on the internet that asks this device.
        expose_headers=("*",),
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _host_name(host: str) -> str:
    """The name in a `Host` header, without its port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).strip().rstrip(".").lower()


def _is_number(name: str) -> bool:
    """True for a numeric address, which no name server can redirect."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class BearerAuth:
    """ASGI middleware that keeps strangers away from the verifier.

    It answers 401 to requests without a valid token, and records whose token it is. If no token is set, it answers 421
    to requests for another name.
    """

    def __init__(
        self, app: ASGIApp, tokens: Tokens | None, hosts: Collection[str] = (), origins: Collection[str] = ()
    ) -> None:
        """`hosts`: names besides localhost that a verifier without a token answers to.

        `origins`: web pages that may ask it.
        """
        self.app = app
        self.origins = origins
        self.hosts = {"localhost", *(host.lower() for host in hosts)}
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # Startup and shutdown of the app, not a client's request.
            await self.app(scope, receive, send)
            return
        guarded = scope["type"] == "http" and scope["path"] not in OPEN_PATHS
        headers = Headers(scope=scope)
        holder, refusal = self._holder(headers) if guarded else (EVERYONE, None)
        status = 401
        if refusal is None and guarded and not self._is_known(headers.get("host")):
            refusal, status = (
                "Without a token this server answers to localhost only; allow others by --allow-host.",
                421,
            )
        if refusal is None:
            scope[SCOPE] = holder
            await self.app(scope, receive, send)
            return
        error = Error(code="unauthorised", message=refusal, retry=False)
        chat = speaks_openai(scope["path"])
        body, kind = (error_body(error), JSON) if chat else (encode(error), CONTENT_TYPE)
        response = Response(body, status, {"WWW-Authenticate": "Bearer"} if status == 401 else None, kind)
        await response(scope, receive, send)

    def _is_known(self, host: str | None) -> bool:
        """True if the request names this verifier, or has no `Host` at all, which no browser would leave out."""
        return self.tokens is not None or host is None or _is_number(name := _host_name(host)) or name in self.hosts

    def _holder(self, headers: Headers) -> tuple[str, str | None]:
        """The holder of a request, and why the request is refused, if it is."""
        if self.tokens is None:
            web = "A server without a token accepts requests only from web pages that --allow-origin names."
            known = "origin" not in headers or headers["origin"] in self.origins
            return EVERYONE, None if known else web
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        holder = self.tokens.holder(shown.strip()) if scheme.lower() == "bearer" else None
        wrong = "This server needs a token, and none or a wrong one was sent. Check the token of this server."
        return holder or EVERYONE, None if holder else wrong
