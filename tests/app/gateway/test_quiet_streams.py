"""A stream whose first words take long says that it is still there, so that nobody gives it up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from drafter.runtime import Drafter
from remote.openai.sse import COMMENT, EventReader
from tests.app.gateway.conftest import own_text
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.gateways import CHAT, text_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

QUESTION = [{"role": "user", "content": "how do I unpack a tar archive?"}]
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
    source = source_of(settings, folders)
    seats = Seats(
        drafters_of(drafter, settings, folders), source, settings, LastSeen(folders.servers), most=1, waiting=1
    )
    async with seats:
        await seats.first.settled()
        yield create_app(seats, Answers(), checks, quiet_seconds=QUIET_SECONDS)
        await checks.close()


def held(proxy: FaultProxy) -> asyncio.Event:
    """Have the next reply wait until this event is set."""
    free = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        await free.wait()
        await exchange.relay()

    proxy.at(0, wait)
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
