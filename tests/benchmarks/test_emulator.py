"""The link emulator: its effect on real connections on loopback, and its arithmetic without any."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

import pytest

from tests.support.emulator import (
    LEAST_TIMEOUT,
    TICK,
    Course,
    Emulator,
    LinkProfile,
    Share,
)
from tests.support.patience import PATIENCE_SECONDS

FREE = {"rtt_ms": 0.0, "up_mbps": 10_000, "down_mbps": 10_000}


def line(**changed) -> LinkProfile:
    return LinkProfile(**{"name": "test", **FREE, **changed})


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """The port of a server that repeats what it hears, until it hears the end."""

    async def answer(reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.write_eof()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@contextlib.asynccontextmanager
async def connected(profile: LinkProfile, seed: int = 0):
    async with echo() as port, Emulator(profile, "127.0.0.1", port, seed=seed) as emulator:
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.port)
        try:
            yield emulator, reader, writer
        finally:
            writer.close()


async def said(reader, writer, data: bytes) -> float:
    """Seconds until all of it has come back."""
    begun = time.perf_counter()
    writer.write(data)
    assert await asyncio.wait_for(reader.readexactly(len(data)), PATIENCE_SECONDS) == data
    return time.perf_counter() - begun


async def test_nothing_comes_sooner_than_the_line_carries_it():
    """Lower bounds alone: a busy machine may be late, a line may not be early."""
    async with connected(line(rtt_ms=120, outages=((0.6, 0.5),))) as (emulator, *ends):
        begun = time.perf_counter()
        assert await said(*ends, b"hello") >= 0.24 - TICK, "the first round trip carries TCP's handshake too"
        assert await said(*ends, b"again") >= 0.12 - TICK
        await asyncio.sleep(0.7 - (time.perf_counter() - begun))
        await said(*ends, b"after")
        assert time.perf_counter() - begun >= 1.1 - TICK, "in an outage nothing comes"
    assert (emulator.bytes_up, emulator.bytes_down, emulator.connections) == (15, 15, 1)


async def test_bandwidth_is_shared_by_all_connections():
    profile, data = line(up_mbps=4, down_mbps=8), bytes(50_000)
    async with echo() as port, Emulator(profile, "127.0.0.1", port) as emulator:
        ends = [await asyncio.open_connection("127.0.0.1", emulator.port) for _ in range(2)]
        begun = time.perf_counter()
        await asyncio.gather(*(said(*end, data) for end in ends))
        assert time.perf_counter() - begun >= 0.2 - TICK, "two times 0.4 Mbit at 4 Mbit/s"
        for _, writer in ends:
            writer.close()


async def test_bytes_come_whole_and_in_order_however_rough_the_line():
    data = random.Random(1).randbytes(60_000)
    async with connected(line(rtt_ms=4, jitter_ms=3, up_mbps=20, down_mbps=20, loss=0.01)) as (_, reader, writer):
        await said(reader, writer, data)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b"", "the end of the stream comes too"


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def course(profile: LinkProfile, seed: int = 0) -> Course:
    return Course(profile, 1e6 * profile.up_mbps, random.Random(seed))


def test_a_lost_segment_stalls_those_behind_it():
    way, share = course(line(rtt_ms=40, loss=0.5), seed=3), Share()
    way.handshake = False
    waits = [way.arrival(float(second), 100, share) - second for second in range(200)]
    assert min(waits) == pytest.approx(0.02, abs=1e-6)
    stalled = sorted(wait for wait in waits if wait > 0.021)
    assert 60 < len(stalled) < 140 and stalled[0] == pytest.approx(0.02 + LEAST_TIMEOUT, abs=1e-6)
    assert any(wait == pytest.approx(0.02 + 3 * LEAST_TIMEOUT, abs=1e-6) for wait in stalled), "time-outs double"
