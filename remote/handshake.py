"""How a connection was made: how long it took, who is at the other end, and which certificate they presented."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from remote.transport import probe


@dataclass(frozen=True)
class Certificate:
    """The certificate of a server. Times are seconds since the epoch."""

    subject: str
    """The names that it is for."""
    issuer: str
    expires: float


@dataclass(frozen=True)
class Handshake:
    """How one new connection was made. `tls_seconds` is None without TLS."""

    connect_seconds: float
    tls_seconds: float | None
    address: str
    """Numeric address of the other end of the wire: the server, or the proxy on the way to it."""
    version: str = ""
    """Version of TLS."""
    certificate: Certificate | None = None
    """None without TLS, or if the system's own store checks it without exposing it (macOS, Windows)."""


class RequestTrace:
    """Follows one request through httpx's trace events."""

    def __init__(self, *, probed: bool = False) -> None:
        """`probed`: let the system check that a new connection is alive, however long it is silent."""
        self._probed = probed
        self.left = False
        """Whether any of the request has been written."""
        self.sent = time.perf_counter()
        """When the first byte was written. Connecting and TLS take round trips that no later request needs."""
        self._begun: dict[str, float] = {}
        self._took: dict[str, float] = {}

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        step, _, state = event.rpartition(".")
        step, now = step.rpartition(".")[2], time.perf_counter()
        if state == "started":
            self._begun[step] = now
            if step == "send_request_headers":
                self.sent, self.left = now, True
        elif state == "complete" and step in self._begun:
            self._took[step] = now - self._begun[step]
            if self._probed and step == "connect_tcp":
                probe(info["return_value"].get_extra_info("socket"))

    @property
    def greeted(self) -> bool:
        """True if the connection is new and its TLS handshake is done."""
        return "start_tls" in self._took

    def handshake(self, response: httpx.Response) -> Handshake | None:
        """How the connection of this request was made. None if it existed already."""
        if "connect_tcp" not in self._took:
            return None
        stream: Any = response.extensions.get("network_stream")
        peer = None if stream is None else stream.get_extra_info("server_addr")
        tls = None if stream is None else stream.get_extra_info("ssl_object")
        return Handshake(
            self._took["connect_tcp"],
            self._took.get("start_tls"),
            "" if peer is None else _address(peer),
            "" if tls is None else str(tls.version()),
            None if tls is None else _certificate(tls.getpeercert() or {}),
        )


def ahead_seconds(date: str | None, now: float) -> float | None:
    """How far a `Date` header is ahead of `now`, in whole seconds, or None if it cannot be read."""
    if date is None:
        return None
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return None


def _address(peer: Any) -> str:
    host, port = peer[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _certificate(shown: dict[str, Any]) -> Certificate | None:
    if "notAfter" not in shown:
        return None
    names = [value for kind, value in shown.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    subject = ", ".join(names[:3]) or _name(shown.get("subject", ()))
    return Certificate(subject, _name(shown.get("issuer", ())), ssl.cert_time_to_seconds(shown["notAfter"]))


def _name(parts: Any) -> str:
    """The common name, or else the organisation."""
    found = dict(pair for part in parts for pair in part)
    return str(found.get("commonName") or found.get("organizationName") or "")
