"""The faults of the line that tests inject in the middle of a reply, and what the person sees of each."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import msgspec

from remote.protocol import CONTENT_TYPE, Error
from tests.support.fault_proxy import Exchange, Fault
from tests.support.faults import (
    LOGIN,
    REDIRECT,
    STREAM_BYTES,
    after,
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

VERDICT_BYTES = 60
"""A place in a reply's body within its first frame, which has about 100 bytes."""
MEMORY_BYTES = 150
"""A place in a reply's body within its second frame."""
SLEEP_SECONDS = 0.5
"""Longer than any deadline here, by a clock that is in a hurry."""
LATE = "did not answer within"


@dataclass(frozen=True)
class Case:
    """One fault. `faults`: what becomes of the requests for tokens, from the struck one on."""

    faults: tuple[Fault, ...]
    alone: str | None = None
    """What the status bar says while the device writes alone. None: nobody notices."""
    lasts: bool = False
    """The fault stays until the line is healed."""
    first: int = 2
    """The first request for tokens that it strikes. 0 opens the session."""

    @property
    def silent(self) -> bool:
        """True if nothing comes at all, so that only a deadline notices."""
        return self.alone == LATE


def typed(code: str, status: str, *, retry: bool) -> Fault:
    """The verifier's own refusal."""
    error = Error(code=code, message="Not now.", retry=retry)  # type: ignore[arg-type]
    return page(status, CONTENT_TYPE, msgspec.msgpack.encode(error))


async def slept(exchange: Exchange) -> None:
    """The lid is closed: this program does not run at all, and when it does again, its connections are forgotten."""
    exchange.proxy.hush()
    time.sleep(SLEEP_SECONDS)  # It blocks everything in this process, on purpose.
    await silence(exchange)


def stays(fault: Fault, says: str) -> Case:
    return Case((lasting(fault),), says, lasts=True)


def later(case: Case) -> Case:
    return replace(case, faults=tuple(after(STREAM_BYTES, fault) for fault in case.faults), first=0)


async def dropped(exchange: Exchange) -> None:
    """The verifier drops the session of a stream, and so breaks the stream off."""
    await exchange.forget()
    exchange.cut()


async def replaced(exchange: Exchange) -> None:
    """The verifier is gone, and the next one answers from now on."""
    exchange.proxy.turn()
    exchange.cut()


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
    "half-open connections": Case((hushed,), LATE),
    "a laptop that slept": Case((slept,), LATE),
    "silence": stays(silence, LATE),
    "slower and slower": stays(slower(0.25), LATE),
    "nobody listens": stays(refused, "nothing listens"),
    "a login page": stays(LOGIN, "login page"),
    "a redirect to a login page": stays(REDIRECT, "redirects to http://login.hotel.example/"),
    "a gateway without a verifier": stays(page("502 Bad Gateway", "text/html", b"Oops"), "(502)"),
    "a gateway in maintenance": stays(page("503 Unavailable", "text/html", b"Oops"), "(503)"),
    "a gateway that times out": stays(page("504 Timeout", "text/html", b"Oops"), "(504)"),
    "a busy verifier": stays(typed("busy", "503 Busy", retry=True), "Not now."),
    "a token that is no longer good": stays(typed("unauthorised", "401 Unauthorized", retry=False), "Not now."),
}
"""For rounds: drafted here, verified there."""

STREAM_CASES: dict[str, Case] = {
    "cut before the verifier hears": Case((unsent,), first=0),
    "cut before the first byte": Case((unheard,), first=0),
    "cut in the middle of a frame": Case((cut_after(VERDICT_BYTES),), first=0),
    "cut in the middle of the stream": Case((cut_after(STREAM_BYTES),), first=0),
    "cut and cut again": Case((cut_after(STREAM_BYTES), cut_after(VERDICT_BYTES)), "broke", first=0),
    "reset": Case((reset,), first=0),
    "a flipped bit": Case((corrupted,), "committed other tokens", first=0),
    "a duplicated request": Case((doubled,), "comes after round", first=0),
    "a forgotten session": later(Case((dropped,))),
    "another replica": later(Case((replaced,))),
    **{
        name: later(CASES[name])
        for name in ("half-open connections", "a laptop that slept", "silence", "nobody listens", "a login page")
    },
}
"""For streams: drafted and verified there."""
