"""Speeds over lines: each mode is told as fast as it was, and nothing comes sooner than the line carries it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import pytest

from benchmarks.answer_cells import MODES
from benchmarks.network import main
from tests.support.emulator import TICK, Emulator, LinkProfile
from tests.support.patience import PATIENCE_SECONDS

TOKENS = 12


def test_every_mode_makes_a_row(tiny_pair, tmp_path):
    prompts, profiles, out = (tmp_path / name for name in ("prompts.jsonl", "profiles.json", "out.json"))
    prompts.write_text("".join(json.dumps({"prompt": f"find large files, {at}"}) + "\n" for at in range(3)))
    profiles.write_text(json.dumps([{"name": "wire", "rtt_ms": 1, "up_mbps": 1000, "down_mbps": 1000}]))
    given = {"prompts": prompts, "profiles": profiles, "json": out, "max-tokens": TOKENS, "limit": 2, "forward": 0}
    given |= {"target": tiny_pair / "target", "drafter": tiny_pair / "drafter"}
    main([f"--{name}={value}" for name, value in given.items()])
    rows = {row["mode"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == set(MODES)
    for each in rows.values():
        assert (each["profile"], each["paced_ms"], each["prompts"], each["tokens"]) == ("wire", 0.0, 2, 2 * TOKENS)
        assert each["unverified_tokens"] == each["failed"] == 0
        low, high = each["ci95"]
        assert 0 < low <= each["tokens_per_second"] <= high
        assert each["bytes_up"] > 0 and each["bytes_down"] > 0
        assert 0 < each["first_token_seconds"] <= each["first_verified_seconds"]
        assert each["passes_per_100_tokens"] == pytest.approx(100 / each["tau"], abs=0.1)
        assert sum(each["ms_per_round"].values()) > 0 <= min(each["ms_per_round"].values())
    plain, edge = rows["plain"], rows["edge"]
    assert plain["tau"] == 1 and plain["first_drafted_seconds"] is None and edge["first_drafted_seconds"] > 0
    assert edge["dimmed"]["confirmed"] > 0 <= edge["dimmed"]["share"] < 1 and plain["dimmed"]["shown"] == 0
    assert edge["tau"] > 1.5 and edge["bytes_down"] > plain["bytes_down"]
    assert edge["chose"] == {"edge": 2}


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
