"""The faults of the line that tests inject in the middle of a reply, and what the person sees of each."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from benchmarks.faults import (
    LOGIN,
    REDIRECT,
    Exchange,
    Fault,
    corrupted,
    cut_after,
    doubled,
    elsewhere,
    forgotten,
    garbled,
    hushed,
    lasting,
    page,
    refused,
    reordered,
    reset,
    silence,
    slower,
    truncated,
    unheard,
    unsent,
)
from remote.protocol import CONTENT_TYPE, Error

VERDICT_BYTES = 60
"""Of a reply's body, within its first frame, which has some 100."""
MEMORY_BYTES = 150
"""Within the second one."""
SLEEP_SECONDS = 2.5


@dataclass(frozen=True)
class Case:
    """`faults`: what becomes of the requests for tokens, from the one that is struck on."""

    faults: tuple[Fault, ...]
    alone: str | None = None
    """What the status bar says while the device writes alone; None: nobody notices."""
    lasts: bool = False
    """It stays until the line is healed."""
    first: int = 2
    """The first request for tokens that it strikes; 0 opens the session."""


def typed(code: str, status: str, *, retry: bool) -> Fault:
    """The verifier's own refusal."""
    error = Error(code=code, message="Not now.", retry=retry)  # type: ignore[arg-type]
    return page(status, CONTENT_TYPE, msgspec.msgpack.encode(error))


async def slept(exchange: Exchange) -> None:
    """The lid is closed: this program does not run at all, and by the time it does, its connections are forgotten."""
    exchange.proxy.hush()
    time.sleep(SLEEP_SECONDS)  # Blocks everything in this process, on purpose.
    await silence(exchange)


def stays(fault: Fault, says: str) -> Case:
    return Case((lasting(fault),), says, lasts=True)


CASES: dict[str, Case] = {
    "cut before the verifier hears": Case((unsent,)),
    "cut before the first byte": Case((unheard,)),
    "cut in the middle of a frame": Case((cut_after(VERDICT_BYTES),)),
    "cut in the middle of memory": Case((cut_after(MEMORY_BYTES),)),
    "cut in the prompt": Case((cut_after(VERDICT_BYTES),), first=0),
    "cut and cut again": Case((unheard, cut_after(VERDICT_BYTES)), "broke"),
    "reset": Case((reset,)),
    "truncated": Case((truncated,)),
    "no HTTP": Case((garbled,)),
    "a flipped bit": Case((corrupted,), "committed other tokens"),
    "a duplicated request": Case((doubled,) * 9),
    "a reordered request": Case((reordered,) * 9),
    "a forgotten session": Case((forgotten,) * 3),
    "another replica": Case((elsewhere,)),
    "replicas in turn": Case((elsewhere,) * 9),
    "cut during a resend": Case((elsewhere, cut_after(VERDICT_BYTES))),
    "half-open connections": Case((hushed,), "did not answer within"),
    "a laptop that slept": Case((slept,), "did not answer within"),
    "silence": stays(silence, "did not answer within"),
    "slower and slower": stays(slower(0.25), "did not answer within"),
    "nobody listens": stays(refused, "nothing listens"),
    "a login page": stays(LOGIN, "login page"),
    "a redirect to a login page": stays(REDIRECT, "redirects to http://login.hotel.example/"),
    "a gateway without a verifier": stays(page("502 Bad Gateway", "text/html", b"Oops"), "(502)"),
    "a gateway in maintenance": stays(page("503 Unavailable", "text/html", b"Oops"), "(503)"),
    "a gateway that waits in vain": stays(page("504 Timeout", "text/html", b"Oops"), "(504)"),
    "a busy verifier": stays(typed("busy", "503 Busy", retry=True), "Not now."),
    "a token that is no longer good": stays(typed("unauthorised", "401 Unauthorized", retry=False), "Not now."),
}
