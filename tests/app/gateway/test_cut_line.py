"""A client of the gateway while the line is cut, or nothing comes for long."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from app.config import Folders, Settings
from app.gateway.answers import Answers
from app.gateway.checks import Checks
from app.gateway.http import create_app
from app.gateway.seats import Seats
from app.remotes.choice import source_of
from app.remotes.last_seen import LastSeen
from app.reply import reply
from app.reply.bootstrap import drafters_of
from app.reply.routing import Options
from drafter.runtime import Drafter
from tests.app.gateway.conftest import Opened, own_text, settled
from tests.support.conversing import until
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.faults import after, lasting, refused, until_set
from tests.support.gateways import CHAT, Streamed, stream_to_end
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.faults

QUESTION = [{"role": "user", "content": "how do I unpack a tar archive?"}]
BODY = {"messages": QUESTION, "temperature": 0, "max_tokens": 120}


def cut_in_the_middle(proxy: FaultProxy, rounds: int = 3, count: int = 600) -> None:
    """Have the line end after some rounds, or after some bytes of a stream, until it is healed."""
    last = proxy.asked + rounds - 1

    async def watch(exchange: Exchange) -> None:
        if b"/v1/streams" in exchange.head.partition(b"\r\n")[0]:
            await after(count, lasting(refused))(exchange)
        elif proxy.asked > last:
            await lasting(refused)(exchange)
        else:
            proxy.at(0, watch)
            await exchange.relay()

    proxy.at(0, watch)


async def test_the_answer_goes_on_and_its_end_is_checked(behind_a_line: Opened, verifier: VerifierProcess) -> None:
    own = await own_text(verifier, QUESTION, 120)
    async with behind_a_line() as (proxy, _, client):
        cut_in_the_middle(proxy)
        read = await stream_to_end(client, BODY)
        assert read.error is None and read.ended and read.finish == "length"
        assert [source for source, _ in groupby(read.sources)] == ["verified", "drafted"]
        checked = read.sources.count("verified")
        assert own[:checked] == read.text[:checked], "what is marked as verified is the model's own text"
        spans = [chunk["outrider"]["spans"][0] for chunk in read.chunks[:-1]]
        assert [span["start"] for span in spans] == [0, *(span["end"] for span in spans[:-1])]
        assert spans[-1]["end"] == len(read.text)
        assert read.marks["state"] == "waiting" and read.marks["source"] == "drafted"
        report = (await client.get(read.marks["answer"])).json()
        assert report["text"] == read.text and report["checked"] == checked and report["checked_text"] is None
        assert report["spans"] == [
            {"start": 0, "end": checked, "source": "verified"},
            {"start": checked, "end": len(read.text), "source": "drafted"},
        ]

        await proxy.heal()
        report = await settled(client, read.marks["answer"])
        assert report["checked_text"] == own
        held = next((at for at, (one, other) in enumerate(zip(own, read.text)) if one != other), len(own))
        assert report["checked"] == held and report["text"] == read.text
        assert report["state"] == ("checked" if own == read.text else "replaced")


async def test_without_a_line_from_the_start_all_is_marked_and_checked_even_if_a_stop_string_leaves_no_text(
    behind_a_line: Opened, verifier: VerifierProcess
) -> None:
    own = await own_text(verifier, QUESTION, 120)
    async with behind_a_line() as (proxy, _, client):
        await proxy.refuse()
        told = (await client.post(CHAT, json=BODY)).json()
        text = told["choices"][0]["message"]["content"]
        assert told["outrider"]["spans"] == [{"start": 0, "end": len(text), "source": "drafted"}]
        assert told["outrider"]["checked"] == 0 and told["outrider"]["state"] == "waiting"
        first, places = text[:3], []
        for streams in (False, True):
            answered = await client.post(CHAT, json={**BODY, "stop": first, "stream": streams})
            assert answered.headers["x-outrider-source"] == "drafted"
            places.append(answered.headers["x-outrider-answer"])
            report = (await client.get(places[-1])).json()
            assert (report["text"], report["source"], report["state"]) == ("", "drafted", "waiting")
            if not streams:
                assert answered.json()["usage"]["completion_tokens"] < told["usage"]["completion_tokens"]
        await proxy.heal()
        agreed = own.startswith(first)
        for place in places:
            report = await settled(client, place)
            assert report["state"] == ("checked" if agreed else "replaced")
            assert report["source"] == ("verified" if agreed else "drafted")
            assert report["checked_text"] == own.partition(first)[0]
        whole = await settled(client, told["outrider"]["answer"])
        assert whole["checked_text"] == own and whole["model"] == "target"


QUIET_SECONDS = 0.05


@asynccontextmanager
async def quiet(pair: Path, home: Path, url: str, **chosen: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway in this process, which sends a comment after a short silence."""
    settings = Settings(remote=url, drafter=str(pair / "drafter"), max_tokens=40, mode="edge", **chosen)
    folders = Folders(home / "config", home / "data", home / "logs")
    drafter, checks = Drafter.load(pair / "drafter"), Checks()
    options = Options(
        drafters_of(drafter, settings, folders), source_of(settings, folders), settings, seen=LastSeen(folders.servers)
    )
    async with Seats(options, most=1, waiting=1) as seats:
        await seats.first.settled()
        app = create_app(seats, Answers(), checks, quiet_seconds=QUIET_SECONDS)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", ws="none", log_level="error"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve([listener]))
            await until(lambda: server.started)
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=address, timeout=PATIENCE_SECONDS, trust_env=False) as client:
                yield client
            server.should_exit = True
            await serving
        await checks.close()


async def test_comments_come_until_the_first_words(tiny_pair: Path, verifier: VerifierProcess, tmp_path: Path) -> None:
    async with FaultProxy([verifier.port]) as proxy, quiet(tiny_pair, tmp_path, proxy.url) as client:
        free, read, comments = asyncio.Event(), Streamed(), 0
        proxy.at(0, until_set(free))
        async with client.stream("POST", CHAT, json={**BODY, "max_tokens": 40, "stream": True}) as response:
            async for line in response.aiter_lines():
                comments += line.startswith(":")
                if comments == 3:
                    free.set()
                read.take(line)
        assert comments >= 3 and read.text == await own_text(verifier, QUESTION, 40)
        assert "x-outrider-source" not in response.headers, "nobody knew yet who would write the first words"
        assert response.headers["x-outrider-answer"].startswith("/v1/outrider/answers/")


async def test_without_leave_the_small_model_stays_silent_and_after_comments_the_stream_tells_it(
    tiny_pair: Path, verifier: VerifierProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultProxy([verifier.port]) as proxy, quiet(tiny_pair, tmp_path, proxy.url, offline="fail") as client:
        usual = reply.RETURN_SECONDS
        monkeypatch.setattr(reply, "RETURN_SECONDS", 10 * QUIET_SECONDS)
        await proxy.refuse()
        said = (await client.post(CHAT, json={**BODY, "stream": True})).text.strip().split("\n\n")
        assert len(said) > 1 and all(comment.startswith(":") for comment in said[:-1])
        assert "No answer" in json.loads(said[-1].removeprefix("data: "))["error"]["message"]
        answered = await client.post(CHAT, json=BODY)
        assert answered.status_code == 503 and answered.headers["retry-after"] == "1"
        error = answered.json()["error"]
        assert error["type"] == "server_error" and "No answer" in error["message"]
        await proxy.heal()
        monkeypatch.setattr(reply, "RETURN_SECONDS", usual)  # The next try to connect may be further away than that.
        assert (await client.post(CHAT, json=BODY)).status_code == 200
