"""Turns httpx's errors into sentences for a person: what failed on the way to a server, and what to do about it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx
from socksio.exceptions import SOCKSError

from remote.errors import Broken, LinkDown, quoted
from remote.handshake import RequestTrace
from remote.proxies import to_check
from remote.transport import TransportOptions

EXPIRED, NOT_YET, OTHER_NAME, OTHER_ADDRESS = 10, 9, 62, 64
UNKNOWN = (2, 18, 19, 20, 21)
"""OpenSSL's codes for a certificate whose signer is not trusted (`X509_V_ERR_*`)."""
HUNG_UP = ("peer closed connection", "Server disconnected")
"""What the underlying libraries say of a connection that ended without a reason."""
CLOCK = "check the clock of this device"
PORTAL = "a Wi-Fi login page may be in the way"


@contextmanager
def translate_errors(host: str, options: TransportOptions, watch: RequestTrace | None = None) -> Iterator[None]:
    """Raise `LinkDown` for anything that httpx raises in this block. `watch` traces the request in it."""
    try:
        yield
    except (httpx.TransportError, ssl.SSLError, SOCKSError) as error:  # httpx wraps neither TLS alerts nor socksio's.
        hung_up = watch is not None and watch.greeted and options.certificate is None
        raise _link_down(host, options, error, hung_up) from error


def _link_down(host: str, options: TransportOptions, error: Exception, hung_up: bool) -> LinkDown:
    """`hung_up`: the connection is new, its TLS handshake is done, and this device showed no certificate."""
    causes = list(_causes(error))
    proxy = None if options.proxy is None else httpx.URL(options.proxy).netloc.decode("ascii")
    through = "" if proxy is None else f" through the proxy {proxy}"
    check = to_check(host) if proxy is None else "check the network"
    # The host that this device looks up and connects to: the proxy, if there is one.
    nearest = host if proxy is None else f"the proxy {proxy}"
    if isinstance(error, httpx.ConnectTimeout):
        more = "" if options.connect_seconds is None else ", or give it more time"
        return LinkDown(f"{host} did not answer in time{through}; {check}{more}")
    if isinstance(error, httpx.TimeoutException):
        return LinkDown(f"{host} was silent for too long; {check}")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return LinkDown(f"the name of {nearest} was not found; check that this device is online, then the address")
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return LinkDown(_untrusted(host, options, cause))
        if isinstance(cause, ssl.SSLError) and (said := _alert(host, options, cause)):
            return LinkDown(said)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return LinkDown(
            f"nothing listens at {nearest}; start {'the server' if proxy is None else 'it'} or check the address"
        )
    if isinstance(error, SOCKSError):
        return LinkDown(f"{nearest} does not answer as a SOCKS proxy ({quoted(str(error))}); check its address")
    if isinstance(error, httpx.ProxyError):
        return LinkDown(f"the proxy{'' if proxy is None else f' {proxy}'} does not let this device reach {host} "
                        f"({quoted(str(error))}); ask whoever runs it, or choose another")  # fmt: skip
    if isinstance(error, (httpx.ConnectError, httpx.UnsupportedProtocol)):
        return LinkDown(f"no connection to {host}{through} ({quoted(str(error))}); {check}")
    # Servers that require a certificate should send an alert. Some, asyncio's among them, just close the connection.
    advice = ", or whether it requires a client certificate (--cert)" if hung_up else ""
    said = quoted(str(error)) or type(error).__name__
    reason = "" if any(words in said for words in HUNG_UP) else f" ({said})"
    return Broken(f"the connection to {host} broke{reason}; {check}{advice}")


def _untrusted(host: str, options: TransportOptions, error: ssl.SSLCertVerificationError) -> str:
    """Why a server's certificate is not accepted."""
    reason, code = quoted(error.verify_message), error.verify_code
    if code in (EXPIRED, NOT_YET):
        state = "has expired" if code == EXPIRED else "is not valid yet"
        return f"the certificate of {host} {state}; {CLOCK}; if it is right, whoever runs {host} must renew it"
    if code in (OTHER_NAME, OTHER_ADDRESS):
        return f"the certificate of {host} is for another name ({reason}); use the name that is in the certificate"
    if code in UNKNOWN and options.ca is None:
        advice = f"add the server again with --replace and the authority's file, --ca FILE, unless {PORTAL}"
        return f"the certificate of {host} is not trusted: this device does not know who signed it ({reason}); {advice}"
    if code in UNKNOWN:
        return f"the certificate of {host} is not trusted: nobody in {options.ca} signed it ({reason}); check --ca"
    return f"the certificate of {host} is not trusted ({reason}); {CLOCK}, Wi-Fi login and address"


def _alert(host: str, options: TransportOptions, error: ssl.SSLError) -> str | None:
    """What the server's TLS alert means for a person, or None if there is nothing to act on."""
    reason = error.reason or ""
    if "CERTIFICATE_REQUIRED" in reason or (options.certificate is None and "HANDSHAKE_FAILURE" in reason):
        return f"{host} requires a client certificate; give one with --cert and --key"
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason or "HANDSHAKE_FAILURE" in reason):
        shown = (
            "what this device showed"
            if options.certificate is None
            else f"the client certificate {options.certificate}"
        )
        return f"{host} does not accept {shown} ({quoted(reason)}); give one that it knows with --cert and --key"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
        return f"{host} does not speak TLS; check the port, or write the address with http://"
    return None


def _causes(error: BaseException) -> Iterable[BaseException]:
    """The error, its causes, and the members of exception groups: a name with two addresses fails twice."""
    waiting: list[BaseException] = [error]
    while waiting:
        error = waiting.pop()
        yield error
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)
        if source := error.__cause__ or error.__context__:
            waiting.append(source)
