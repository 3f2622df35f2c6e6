"""What a line can do wrong: faults for `tests.support.fault_proxy`, each for one exchange, and ways to make them
last."""

from __future__ import annotations

import asyncio

from remote.protocol import CONTENT_TYPE
from tests.support.fault_proxy import Exchange, Fault, forever

STREAM_BYTES = 1800
"""A place in a stream's body: its first tokens and their memory have passed, and most have not."""


async def unheard(exchange: Exchange) -> None:
    """The verifier does what it is asked for, but the connection ends before the first byte of its reply."""
    await exchange.ask()
    exchange.cut()


async def unsent(exchange: Exchange) -> None:
    """The connection ends before the request reaches the verifier."""
    exchange.cut()


async def reset(exchange: Exchange) -> None:
    """The connection ends with TCP's RST after a few bytes of the reply."""
    await exchange.relay(9)
    exchange.reset()


async def silence(exchange: Exchange) -> None:
    """Nothing comes back, and no error either."""
    await forever()


async def hushed(exchange: Exchange) -> None:
    """All connections die without a word. New ones work."""
    exchange.proxy.hush()
    await silence(exchange)


async def refused(exchange: Exchange) -> None:
    """All connections end, and nothing listens any more."""
    await exchange.proxy.refuse()


async def garbled(exchange: Exchange) -> None:
    """The reply is bytes that are not HTTP."""
    if not exchange.begun:
        await exchange.tell(bytes(range(128, 256)) * 4 + b"\r\n\r\n")
    exchange.cut()


async def truncated(exchange: Exchange) -> None:
    """The reply says that it has 900 bytes, but ends in the middle of its first frame."""
    await page("200 OK", CONTENT_TYPE, b"\x80\0\0\0\0\x87\xa5", length=900)(exchange)


async def corrupted(exchange: Exchange) -> None:
    """A bit flips in the digest of what the verifier says is committed."""
    reply = await exchange.ask()
    at = reply.find(b"digest") + len(b"digest") + 5
    await exchange.tell(reply[:at] + bytes([reply[at] ^ 16]) + reply[at + 1 :])


async def doubled(exchange: Exchange) -> None:
    """The verifier gets the request twice, and the device the answer to the second one."""
    await exchange.ask()
    await exchange.relay()


async def reordered(exchange: Exchange) -> None:
    """An older request arrives again just before a newer one, and again just after it."""
    if exchange.previous is not None:
        await exchange.ask(exchange.previous)
    await exchange.relay()
    if exchange.previous is not None:
        await exchange.ask(exchange.previous)


async def forgotten(exchange: Exchange) -> None:
    """The verifier drops the session before the request arrives, as it does if others need the room."""
    await exchange.forget()
    await exchange.relay()


async def elsewhere(exchange: Exchange) -> None:
    """The next verifier answers from now on."""
    exchange.proxy.turn()
    await exchange.relay()


def cut_after(count: int) -> Fault:
    """The connection ends after this many bytes of the reply's body."""

    async def fault(exchange: Exchange) -> None:
        await exchange.relay(count)
        exchange.cut()

    return fault


def late(seconds: float) -> Fault:
    """The reply comes this much later."""

    async def fault(exchange: Exchange) -> None:
        await asyncio.sleep(seconds)
        await exchange.relay()

    return fault


def slower(seconds: float) -> Fault:
    """Each reply comes later than the one before. The first delay is given, and it doubles."""
    delay = seconds / 2

    async def fault(exchange: Exchange) -> None:
        nonlocal delay
        delay *= 2
        await late(delay)(exchange)

    return fault


def page(status: str, content_type: str, body: bytes, *, extra: str = "", length: int | None = None) -> Fault:
    """Somebody else answers. `length`: the length that it claims for the body, if it lies."""
    said = len(body) if length is None else length
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {said}\r\n{extra}\r\n"

    async def fault(exchange: Exchange) -> None:
        if exchange.begun:
            exchange.cut()
            return
        await exchange.tell(head.encode("ascii") + body)
        if said != len(body):
            exchange.cut()

    return fault


def after(count: int, fault: Fault) -> Fault:
    """The fault comes after this many bytes of the reply's body."""

    async def begin(exchange: Exchange) -> None:
        await exchange.relay(count)
        await fault(exchange)

    return begin


def midway(fault: Fault) -> Fault:
    """The fault comes in the middle of an answer, which may be a stream or rounds."""

    async def begin(exchange: Exchange) -> None:
        if b"/v1/streams " in exchange.head:
            await exchange.relay(STREAM_BYTES)
        elif exchange.proxy.asked < 3:
            exchange.proxy.at(0, begin)
            await exchange.relay()
            return
        await fault(exchange)

    return begin


def lasting(fault: Fault) -> Fault:
    """The fault stays until the line is healed."""

    async def begin(exchange: Exchange) -> None:
        exchange.proxy.line = fault
        await fault(exchange)

    return begin


LOGIN_PAGE = b"<!doctype html><title>Guest Wi-Fi</title><form>Room number <input name=room></form>"
LOGIN = page("200 OK", "text/html; charset=utf-8", LOGIN_PAGE)
"""A captive portal."""
REDIRECT = page("302 Found", "text/html", b"", extra="location: http://login.hotel.example/\r\n")
"""A captive portal that redirects."""


def until_set(event: asyncio.Event) -> Fault:
    """Carry the exchange once this event is set."""

    async def wait(exchange: Exchange) -> None:
        await event.wait()
        await exchange.relay()

    return wait
