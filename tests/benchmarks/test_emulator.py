"""The link emulator on a real connection on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import time

from tests.support.emulator import TICK, Emulator, LinkProfile
from tests.support.patience import PATIENCE_SECONDS

LINE = LinkProfile(name="test", rtt_ms=60, up_mbps=4, down_mbps=10_000, outages=((0.5, 0.3),))


async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


async def test_nothing_comes_sooner_than_the_line_carries_it() -> None:
    """Lower bounds alone: a busy machine may be late, a line may not be early."""
    server = await asyncio.start_server(repeat, "127.0.0.1", 0)
    async with server, Emulator(LINE, "127.0.0.1", server.sockets[0].getsockname()[1]) as emulator:
        reader, writer = await asyncio.open_connection("127.0.0.1", emulator.port)

        async def said(data: bytes) -> float:
            """Seconds until all of it has come back."""
            begun = time.perf_counter()
            writer.write(data)
            assert await asyncio.wait_for(reader.readexactly(len(data)), PATIENCE_SECONDS) == data
            return time.perf_counter() - begun

        begun = time.perf_counter()
        assert await said(b"hello") >= 0.12 - TICK, "the first round trip carries TCP's handshake too"
        assert await said(bytes(50_000)) >= 0.06 + 0.1 - TICK, "0.4 Mbit at 4 Mbit/s"
        await asyncio.sleep(0.6 - (time.perf_counter() - begun))
        await said(b"after")
        assert time.perf_counter() - begun >= 0.8 - TICK, "in an outage nothing comes"
        writer.close()
    assert (emulator.bytes_up, emulator.bytes_down, emulator.connections) == (50_010, 50_010, 1)
