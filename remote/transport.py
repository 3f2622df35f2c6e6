"""How a server is reached: trusted certificates, the client's certificate, the proxy, and time limits."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from remote.errors import Misconfigured, quoted

STORES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
"""Places where systems keep trusted authorities and OpenSSL may not look. `truststore` tries the same."""
PROBE_AFTER_SECONDS, PROBE_EVERY_SECONDS, PROBES = 15, 5, 3
"""Seconds until a silent connection is probed, seconds between probes, and unanswered probes that break it."""


@dataclass(frozen=True)
class TransportOptions:
    """Settings that may differ between servers. The defaults suit most. Files are read when first needed."""

    ca: Path | None = None
    """PEM file of the only authorities that are trusted, or None for those that this device trusts."""
    certificate: Path | None = None
    """PEM file of the client certificate, with its chain."""
    key: Path | None = None
    """Private key of the certificate, without a passphrase, or None if it is in the same file."""
    proxy: str | None = field(default=None, repr=False)
    """Address of a proxy, used for loopback too, or None for the environment's."""
    connect_seconds: float | None = None
    """Longest time to connect, TLS included, or None for as long as an answer may take."""
    read_seconds: float | None = None
    """Silence after which an answer is given up, or None to derive it from the measured round trips."""
    first_words_seconds: float | None = None
    """Longest wait for the first words of an OpenAI-compatible server, or None for that of the settings."""

    @cached_property
    def trust(self) -> ssl.SSLContext:
        """The TLS context, read from the files once. Raises `Misconfigured`."""
        if self.ca is None:
            context = system_trust()
        else:
            context = _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), str(self.ca), None)
        if self.certificate is not None:
            _show(context, self.certificate, self.key or self.certificate)
        return context

    def check(self) -> None:
        """Raises `Misconfigured` for files that cannot be used, or do not belong together."""
        if self.key is not None and self.certificate is None:
            raise Misconfigured(f"the key {self.key} was given without its certificate; give both")
        if self.ca is not None or self.certificate is not None:
            _ = self.trust


def probe(connection: socket.socket) -> None:
    """Let the system detect that a silent connection is dead, because a server may think for minutes.

    The connection breaks half a minute after the last sign of life.
    """
    options: list[tuple[int, str, int]] = [
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE" if sys.platform != "darwin" else "TCP_KEEPALIVE", PROBE_AFTER_SECONDS),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", PROBE_EVERY_SECONDS),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", PROBES),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 1000 * (PROBE_AFTER_SECONDS + PROBES * PROBE_EVERY_SECONDS)),
    ]
    for level, name, value in options:
        if (option := getattr(socket, name, None)) is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(level, option, value)


def system_trust() -> ssl.SSLContext:
    """A context that trusts the authorities of this device, or Mozilla's if the device has no store.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the store.
    """
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or folder:
        return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), file, folder)
    if sys.platform in ("darwin", "win32") or _has_store():
        import truststore  # 8 ms, and its context 1 ms. certifi's context takes 16 ms.

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    import certifi

    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certifi.where(), None)


def _has_store() -> bool:
    paths = ssl.get_default_verify_paths()
    if paths.cafile or any(map(os.path.isfile, STORES)):
        return True
    return paths.capath is not None and any(os.scandir(paths.capath))


def _loaded(context: ssl.SSLContext, file: str | None, folder: str | None) -> ssl.SSLContext:
    try:
        context.load_verify_locations(file or None, folder or None)
    except ssl.SSLError:
        raise Misconfigured(f"{file or folder} holds no certificate of an authority in PEM form") from None
    except OSError as error:
        raise Misconfigured(f"the authority's certificate {file or folder} cannot be read: {error.strerror}") from None
    return context


def _show(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for path, what in ((certificate, "client certificate"), (key, "key")):
        try:
            path.open("rb").close()
        except OSError as error:
            raise Misconfigured(f"the {what} {path} cannot be read: {error.strerror}") from None
    try:
        # Without a callback, OpenSSL would ask for a passphrase in the middle of the screen.
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except _Encrypted:
        raise Misconfigured(
            f"the key {key} has a passphrase; remove it: openssl pkey -in {key} -out plain.key"
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Misconfigured(f"the key {key} is not that of the client certificate {certificate}") from None
        reason = quoted(error.reason or str(error))
        raise Misconfigured(
            f"{certificate} and {key} are not a client certificate and its key in PEM form ({reason})"
        ) from None


class _Encrypted(Exception):
    """The key has a passphrase."""


def _no_passphrase() -> str:
    raise _Encrypted


DEFAULT = TransportOptions()
