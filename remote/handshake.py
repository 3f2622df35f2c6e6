"""How a connection came about: what it took, who is at the other end, and which certificate they showed."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from remote.transport import probe


@dataclass(frozen=True)
class Certificate:
    """What a server showed. The times are seconds since the epoch."""

    subject: str
    """The names that it is for."""
    issuer: str
    expires: float


@dataclass(frozen=True)
class Handshake:
    """One new connection. Seconds; `tls_seconds` None: without TLS."""

    connect_seconds: float
    tls_seconds: float | None
    address: str
    """Who is at the other end of the wire, as numbers: the server, or the proxy on the way to it."""
    version: str = ""
    """Of TLS."""
    certificate: Certificate | None = None
    """None: without TLS, or where the device's own store judged it and tells nothing (macOS, Windows)."""


class Watch:
    """Follows one request as httpx traces it."""

    def __init__(self, *, probed: bool = False) -> None:
        """`probed`: a new connection is to be watched for life by the system, however long it is silent."""
        self._probed = probed
        self.left = False
        """Something of the request has been written."""
        self.sent = time.perf_counter()
        """When its first byte was written: connecting and TLS take round trips that no later request pays again."""
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
        """The connection of this request is a new one, and its TLS has been agreed on."""
        return "start_tls" in self._took

    def handshake(self, response: httpx.Response) -> Handshake | None:
        """How the connection of this request was made; None where it was there already."""
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
    """The common name, else the organisation."""
    found = dict(pair for part in parts for pair in part)
    return str(found.get("commonName") or found.get("organizationName") or "")
