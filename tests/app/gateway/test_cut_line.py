"""A client of the gateway while the line is cut, or nothing comes for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from app.config import Folders, Settings
from app.gateway.answers import Answers
from app.gateway.checks import Checks
from app.gateway.http import create_app
from app.gateway.seats import Seats
from app.remotes.choice import source_of
from app.remotes.last_seen import LastSeen
from app.reply.bootstrap import drafters_of
from app.reply.routing import Options
from drafter.runtime import Drafter
from remote.openai.sse import COMMENT, EventReader
from tests.app.gateway.conftest import Opened, own_text, settled
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.faults import after, lasting, refused, until_set
from tests.support.gateways import CHAT, Streamed, stream, stream_to_end, text_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

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


async def test_the_answer_goes_on_and_the_end_is_checked_when_the_line_is_back(
    behind_a_line: Opened, verifier: VerifierProcess
) -> None:
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


async def test_a_line_that_comes_back_in_the_middle_loses_and_doubles_nothing(
    behind_a_line: Opened, verifier: VerifierProcess
) -> None:
    own = await own_text(verifier, QUESTION, 400)
    async with behind_a_line(max_tokens="400") as (proxy, _, client):
        cut_in_the_middle(proxy)
        read, healed = Streamed(), False
        async for read, text in stream(client, {**BODY, "max_tokens": 400}):
            if not healed and text and read.sources[-1] == "drafted":
                healed = True
                await proxy.heal()
        assert healed and read.error is None and read.ended
        report = await settled(client, read.marks["answer"])
        assert report["text"] == read.text and report["checked_text"] == own
        sure = [source == "verified" for source in read.sources]
        first = sure.index(False)
        assert read.text[:first] == own[:first]
        if report["state"] == "checked":
            assert read.text == own
        else:
            held = report["checked"]
            assert first <= held < len(own) and read.text[:held] == own[:held]
            assert not any(sure[held:]), "nothing after the parting is called the model's own"


@pytest.mark.parametrize("streams", [False, True])
async def test_without_a_line_from_the_start_all_is_marked_and_checked_even_if_a_stop_string_leaves_no_text(
    behind_a_line: Opened, verifier: VerifierProcess, *, streams: bool
) -> None:
    own = await own_text(verifier, QUESTION, 120)
    async with behind_a_line() as (proxy, _, client):
        await proxy.refuse()
        told = (await client.post(CHAT, json=BODY)).json()
        text = told["choices"][0]["message"]["content"]
        assert told["outrider"]["spans"] == [{"start": 0, "end": len(text), "source": "drafted"}]
        assert told["outrider"]["checked"] == 0 and told["outrider"]["state"] == "waiting"
        first = text[:3]
        answered = await client.post(CHAT, json={**BODY, "stop": first, "stream": streams})
        assert answered.headers["x-outrider-source"] == "drafted"
        place = answered.headers["x-outrider-answer"]
        report = (await client.get(place)).json()
        assert (report["text"], report["source"], report["state"]) == ("", "drafted", "waiting")
        if not streams:
            assert answered.json()["usage"]["completion_tokens"] < told["usage"]["completion_tokens"]
        await proxy.heal()
        report = await settled(client, place)
        agreed = own.startswith(first)
        assert report["state"] == ("checked" if agreed else "replaced")
        assert report["source"] == ("verified" if agreed else "drafted")
        assert report["checked_text"] == own.partition(first)[0]
        whole = await settled(client, told["outrider"]["answer"])
        assert whole["checked_text"] == own and whole["model"] == "target"


async def test_without_leave_the_small_model_stays_silent(behind_a_line: Opened) -> None:
    async with behind_a_line(mode="edge", offline="queue") as (proxy, _, client):
        await proxy.refuse()
        answered = await client.post(CHAT, json=BODY)
        assert answered.status_code == 503 and answered.headers["retry-after"] == "1"
        error = answered.json()["error"]
        assert error["type"] == "server_error" and "No answer" in error["message"]
        await proxy.heal()
        assert (await client.post(CHAT, json=BODY)).status_code == 200


# ---- quiet streams ---------------------------------------------------------------------------------------------------


QUIET_SECONDS = 0.05


class Asked:
    """A request for a stream, and what comes back, message by message, as a server would send it."""

    def __init__(self, app: Any, body: dict[str, Any]) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.headers: dict[str, str] = {}
        self._body = json.dumps({**body, "stream": True}).encode()
        self._left = asyncio.Event()
        scope = {"type": "http", "method": "POST", "path": CHAT, "raw_path": CHAT.encode(), "query_string": b""}
        head = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        self._task = asyncio.create_task(app({**scope, "headers": head}, self._receive, self.sent.put))

    async def _receive(self) -> dict[str, Any]:
        body, self._body = self._body, b""
        if body:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def pieces(self) -> AsyncIterator[bytes]:
        """The pieces of the body, after the head."""
        more = True
        while more:
            async with asyncio.timeout(PATIENCE_SECONDS):
                message = await self.sent.get()
            if message["type"] == "http.response.start":
                assert message["status"] == 200
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
                continue
            more = message.get("more_body", False)
            if message["body"]:
                yield message["body"]

    async def leave(self) -> None:
        """Hang up."""
        self._left.set()
        await self._task


@asynccontextmanager
async def opened(pair: Path, home: Path, url: str, **chosen: Any) -> AsyncIterator[Any]:
    settings = Settings(remote=url, drafter=str(pair / "drafter"), max_tokens=40, **chosen)
    folders = Folders(home / "config", home / "data", home / "logs")
    drafter, checks = Drafter.load(pair / "drafter"), Checks()
    drafters, seen = drafters_of(drafter, settings, folders), LastSeen(folders.servers)
    async with Seats(Options(drafters, source_of(settings, folders), settings, seen=seen), most=1, waiting=1) as seats:
        await seats.first.settled()
        yield create_app(seats, Answers(), checks, quiet_seconds=QUIET_SECONDS)
        await checks.close()


def held(proxy: FaultProxy) -> asyncio.Event:
    """Have the next reply wait until this event is set."""
    free = asyncio.Event()
    proxy.at(0, until_set(free))
    return free


async def test_comments_come_until_the_first_words_do(
    tiny_pair: Path, verifier: VerifierProcess, tmp_path: Path
) -> None:
    async with FaultProxy([verifier.port]) as proxy, opened(tiny_pair, tmp_path, proxy.url, mode="edge") as app:
        free, reader, text, comments = held(proxy), EventReader(), "", 0
        asked = Asked(app, {"messages": QUESTION, "temperature": 0})
        async for piece in asked.pieces():
            if piece == COMMENT:
                comments += 1
                if comments == 3:
                    free.set()
                continue
            events = [json.loads(one) for one in reader.feed(piece) if one != "[DONE]"]
            text += "".join(text_of(one) for one in events)
        assert comments >= 3 and text == await own_text(verifier, QUESTION, 40)
        assert "x-outrider-source" not in asked.headers, "nobody knew yet who would write the first words"
        assert asked.headers["x-outrider-answer"].startswith("/v1/outrider/answers/")


async def test_a_failure_after_comments_is_told_in_the_stream(
    tiny_pair: Path, verifier: VerifierProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.reply.RETURN_SECONDS", 10 * QUIET_SECONDS)
    async with (
        FaultProxy([verifier.port]) as proxy,
        opened(tiny_pair, tmp_path, proxy.url, mode="edge", offline="fail") as app,
    ):
        await proxy.refuse()
        asked = Asked(app, {"messages": QUESTION, "temperature": 0})
        *comments, said = [piece async for piece in asked.pieces()]
        assert comments and set(comments) == {COMMENT}
        assert "No answer" in json.loads(said.removeprefix(b"data: "))["error"]["message"]


async def test_a_client_that_leaves_before_the_first_words_ends_its_answer(
    tiny_pair: Path, verifier: VerifierProcess, tmp_path: Path
) -> None:
    async with FaultProxy([verifier.port]) as proxy, opened(tiny_pair, tmp_path, proxy.url, mode="edge") as app:
        free = held(proxy)
        asked = Asked(app, {"messages": QUESTION, "temperature": 0})
        async for _ in asked.pieces():
            break
        await asked.leave()
        free.set()
        second = Asked(app, {"messages": QUESTION, "temperature": 0})
        assert [piece async for piece in second.pieces()][-1].endswith(b"[DONE]\n\n"), "the only seat is free again"
