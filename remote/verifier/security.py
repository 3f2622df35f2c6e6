"""Who may talk to the verifier: clients with the bearer token, or without a token only this machine.

A verifier without a token also refuses browsers, because any web page could use it. Browsers mark every request with a
body by an `Origin` header, which our clients never send. It also answers only to its own names: a page whose name was
made to point at this device (DNS rebinding) shows itself by the `Host` header that its browser sends.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from remote.openai.schema import JSON, PATHS, error_body
from remote.protocol import CONTENT_TYPE, Error, encode

OPEN_PATHS = frozenset({"/healthz"})
SHORTEST_TOKEN = 16


class SecurityError(Exception):
    """The verifier would not be safe as asked. The message says what to change.

    SecurityError
    ├── Unprotected     no token, but other machines can reach it
    └── BadToken        the token file is missing, empty or too short
    """


class Unprotected(SecurityError):
    """No token, but other machines can reach the verifier."""


class BadToken(SecurityError):
    """The token file is missing, empty or too short."""


def read_token(path: Path) -> str:
    """The token in a file, without the white space around it. Raises `BadToken`."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadToken(f"The token file {path} cannot be read: {error}") from None
    try:
        check_token(token)
    except BadToken:
        raise BadToken(
            f"{path} must hold one token of {SHORTEST_TOKEN} or more characters, as `openssl rand -hex 32` makes."
        ) from None
    return token


def check_token(token: str) -> None:
    """Raise `BadToken` for a token that is empty, could be guessed, or cannot be sent."""
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise BadToken(f"A token needs {SHORTEST_TOKEN} or more characters of ASCII, without spaces.")


def check_binding(host: str, token: str | None) -> None:
    """Raise `Unprotected` if other machines could use the verifier without a token, and `BadToken` for a bad one."""
    if token is not None:
        check_token(token)
    elif not is_loopback(host):
        raise Unprotected(f"Without a token the server listens on 127.0.0.1 only, not {host}. Add --token-file FILE.")


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
    """True for a numeric address, which no name server can point elsewhere."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class BearerAuth:
    """ASGI middleware that keeps strangers away from the verifier.

    It answers 401 to requests without the token. If there is no token, it answers 421 to requests for another name.
    """

    def __init__(self, app: ASGIApp, token: str | None, hosts: Collection[str] = ()) -> None:
        """`hosts`: names that a verifier without a token answers to, besides localhost."""
        self.app = app
        self.hosts = {"localhost", *(host.lower() for host in hosts)}
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] == "http" and scope["path"] not in OPEN_PATHS
        headers = Headers(scope=scope)
        refusal, status = self._refusal(headers) if guarded else None, 401
        if refusal is None and guarded and not self._is_known(headers.get("host")):
            refusal, status = (
                "Without a token this server answers to localhost only; allow others by --allow-host.",
                421,
            )
        if refusal is None:
            await self.app(scope, receive, send)
            return
        error = Error(code="unauthorised", message=refusal, retry=False)
        chat = scope["path"].startswith(PATHS)
        body, kind = (error_body(error), JSON) if chat else (encode(error), CONTENT_TYPE)
        response = Response(body, status, {"WWW-Authenticate": "Bearer"} if status == 401 else None, kind)
        await response(scope, receive, send)

    def _is_known(self, host: str | None) -> bool:
        """True if the request names this verifier, or has no `Host` at all, which no browser would leave out."""
        return self.token is not None or host is None or _is_number(name := _host_name(host)) or name in self.hosts

    def _refusal(self, headers: Headers) -> str | None:
        if self.token is None:
            return "A server without a token takes no requests from web pages." if "origin" in headers else None
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        # compare_digest takes the same time for any wrong token, so a token cannot be guessed byte by byte.
        if scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self.token):
            return None
        return "This server needs a token, and none or a wrong one was sent. Check the token of this server."
