"""Who may talk to the verifier: whoever shows the bearer token, or, without a token, this machine alone.

A verifier without a token also turns away browsers, or any web page could drive it: they mark every request that a
page can send with a body by an `Origin` header, which no client of ours sends. And it answers to no names but its own:
a page whose name is made to point at this device (DNS rebinding) is told apart by the `Host` that its browser sends.
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
    """The verifier would not be safe as asked; the message says what to change.

    SecurityError
    ├── Unprotected     no token, but reachable from other machines
    └── BadToken        a token file that is missing, empty or too short
    """


class Unprotected(SecurityError):
    """No token, but reachable from other machines."""


class BadToken(SecurityError):
    """A token file that is missing, empty or too short."""


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
    """Raises `BadToken` for one that is empty, could be guessed, or cannot be sent."""
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise BadToken(f"A token needs {SHORTEST_TOKEN} or more characters of ASCII, without spaces.")


def check_binding(host: str, token: str | None) -> None:
    """Raises `Unprotected` where other machines could use the verifier without a token, `BadToken`."""
    if token is not None:
        check_token(token)
    elif not is_loopback(host):
        raise Unprotected(f"Without a token the verifier serves 127.0.0.1 only, not {host}. Add --token-file FILE.")


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
    """Whether it is an address itself, which no name server can point elsewhere."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class BearerAuth:
    """ASGI middleware: 401 for a request that does not show the token, 421 for another's name without a token."""

    def __init__(self, app: ASGIApp, token: str | None, hosts: Collection[str] = ()) -> None:
        """`hosts`: names that a verifier without a token answers to, beside localhost."""
        self.app = app
        self.hosts = {"localhost", *(host.lower() for host in hosts)}
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] == "http" and scope["path"] not in OPEN_PATHS
        headers = Headers(scope=scope)
        refusal, status = self._refusal(headers) if guarded else None, 401
        if refusal is None and guarded and not self._is_known(headers.get("host")):
            refusal, status = (
                "Without a token this verifier answers to localhost only; allow others by --allow-host.",
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
        """Whether the request names this verifier; programs that send no `Host` are no browsers."""
        return self.token is not None or host is None or _is_number(name := _host_name(host)) or name in self.hosts

    def _refusal(self, headers: Headers) -> str | None:
        if self.token is None:
            return "A verifier without a token takes no requests from web pages." if "origin" in headers else None
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        # compare_digest takes as long for any wrong token, so a token cannot be guessed byte by byte.
        if scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), self.token):
            return None
        return "This verifier needs a token, and none or a wrong one was sent. Check the token of this remote."
