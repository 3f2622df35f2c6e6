"""A stream goes on for a device whose line has broken: what is written is kept, and comes again from any token on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest

from models.engines.engine import Engine
from remote.protocol import Alive, Card, Error, Frame, decode, digest_of, encode, read_frames
from remote.verifier.holders import Tokens
from remote.verifier.http import VerifierApp, create_app
from remote.verifier.options import ServeOptions
from tests.remote.verifier.test_hosted import ask, tokens_of
from tests.remote.verifier.test_http import PATIENT, PROMPT, Gate, counter, message, reached, until
from tests.remote.verifier.tiny import generated

pytestmark = pytest.mark.faults

AWAY = 12
"""Tokens for which a stream goes on here."""
MOST = 60


@pytest.fixture
def endless(card: Card) -> Card:
    """A card without stop tokens, so that each answer gets as long as it may."""
    return msgspec.structs.replace(card, stop_tokens=())


@pytest.fixture
def own(target: Engine) -> list[int]:
    """What the target says by itself."""
    return generated(target.model, PROMPT, MOST)


def app_of(target: Engine, card: Card, **options: object) -> VerifierApp:
    return create_app(target, card, ServeOptions(**{"while_away": AWAY} | options))


def stream(number: int = 1, **fields: object) -> bytes:
    return encode(ask([], PROMPT, number, MOST, **{"resumable": True} | fields))


async def begun(client: httpx.AsyncClient, body: bytes, count: int = 1) -> list[int]:
    """Begin a stream, and hang up after this many frames with tokens. The tokens that arrived."""
    tokens: list[list[int]] = []
    async with client.stream("POST", "/v1/streams", content=body) as response:
        assert response.status_code == 200, await response.aread()
        frames = read_frames(response.aiter_raw())
        while len(tokens) < count:
            tokens += [found] if (found := tokens_of([await anext(frames)])) else []
    return sum(tokens, [])


def kept(number: int, position: int, session: str = "s") -> str:
    return f"/v1/streams/{session}?round={number}&from={position}"


async def frames_at(client: httpx.AsyncClient, path: str) -> list[Frame]:
    async with client.stream("GET", path) as response:
        assert response.status_code == 200, await response.aread()
        return [frame async for frame in read_frames(response.aiter_raw()) if not isinstance(frame, Alive)]


@asynccontextmanager
async def left(target: Engine, app: VerifierApp, number: int = 1) -> AsyncIterator[tuple[httpx.AsyncClient, Gate]]:
    """A client that was away after the first token of its stream. The model writes no more until it may."""
    async with reached(app) as client, Gate(target.model) as held:
        held.allow(1)
        await begun(client, stream(number))
        await until(client, "away_sessions", 1)
        yield client, held


async def test_it_goes_on_for_as_long_as_the_server_says(target: Engine, endless: Card, own: list[int]) -> None:
    async with left(target, app_of(target, endless)) as (client, held):
        held.allow()
        await until(client, "running_sessions", 0)
        assert AWAY <= await counter(client, "away_tokens_total") <= AWAY + 2
        for position in (0, 1, 5):
            for _ in range(2):
                frames = await frames_at(client, kept(1, len(PROMPT) + position))
                assert len(frames) == 1, "all that is there comes at once"
                tokens = tokens_of(frames)
                assert tokens == own[position : position + len(tokens)] and len(tokens) >= AWAY - position
                end = len(PROMPT) + position + len(tokens)
                (last,) = frames
                assert not last.finished
                assert (last.length, last.digest) == (end, digest_of([*PROMPT, *own[: end - len(PROMPT)]]))
        said = own[: end - len(PROMPT)]
        rest = await begun(client, encode(ask([], PROMPT + said, 2, 5, resumable=True)), 5)
        assert rest == own[len(said) : len(said) + 5], "the device goes on after what it got"


@pytest.mark.parametrize("stopped", [False, True])
async def test_it_goes_on_where_the_line_breaks_before_its_first_token(
    target: Engine, endless: Card, own: list[int], monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    monkeypatch.setattr(target, "chunk", 1)
    app = app_of(target, endless)
    async with reached(app) as client:
        async with Gate(target.model) as held:
            asking = asyncio.create_task(begun(client, stream()))
            async with asyncio.timeout(PATIENT):
                while not app.turns.waiting:
                    await asyncio.sleep(0.01)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                allowed = 0
                while not await counter(client, "away_sessions"):
                    held.allow(1)
                    allowed += 1
            if stopped:
                assert (await client.delete("/v1/streams/s?round=1")).status_code == 204
            held.allow()
            await until(client, "running_sessions", 0)
        if stopped:
            assert (await client.get(kept(1, len(PROMPT)))).status_code == 404
        else:
            tokens = tokens_of(await frames_at(client, kept(1, len(PROMPT))))
            # The prompt's last forward gives the first of the tokens that it may have written before it noticed.
            early = max(0, allowed + 1 - len(PROMPT))
            # Some more come while it notices; the answer itself has no end.
            assert tokens == own[: len(tokens)] and AWAY <= len(tokens) <= 2 * AWAY + early


async def test_it_is_read_while_it_is_written(
    target: Engine, endless: Card, own: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remote.verifier.admission.RUNNING_SECONDS", 0.0)
    app = app_of(target, endless)
    async with left(target, app) as (client, held):
        held.allow(3)
        await until(client, "away_tokens_total", 3)
        async with client.stream("GET", kept(1, len(PROMPT) + 1)) as response:
            frames = (frame async for frame in read_frames(response.aiter_raw()) if not isinstance(frame, Alive))
            first = tokens_of([await anext(frames)])
            assert first == own[1 : 1 + len(first)] and len(first) >= 3
            assert app.admission.running == 1, "it counts against limits, and a server that drains waits for it"
            held.allow()
            rest = tokens_of([frame async for frame in frames])
    assert first + rest == own[1:], "somebody reads it, so it goes on to its end"


async def test_a_device_that_stops_says_so(target: Engine, endless: Card) -> None:
    async with left(target, app_of(target, endless)) as (client, held):
        assert (await client.delete("/v1/streams/s?round=2")).status_code == 404
        assert (await client.delete("/v1/streams/s?round=1")).status_code == 204
        assert (await client.delete("/v1/streams/s?round=1")).status_code == 404
        held.allow()
        await until(client, "running_sessions", 0)
        assert await counter(client, "away_tokens_total") <= 2
        missing = await client.get(kept(1, len(PROMPT)))
        assert (missing.status_code, decode(missing.content, Error).code) == (404, "not_found")


@pytest.mark.parametrize("over", [False, True])
async def test_a_request_that_comes_late_ends_no_newer_stream(
    target: Engine, endless: Card, own: list[int], over: bool
) -> None:
    async with left(target, app_of(target, endless), 2) as (client, held):
        if over:
            held.allow()
            await until(client, "running_sessions", 0)
        late = await client.post("/v1/streams", content=stream(1))
        assert (late.status_code, decode(late.content, Error).code) == (412, "out_of_order")
        held.allow()
        await until(client, "running_sessions", 0)
        tokens = tokens_of(await frames_at(client, kept(2, len(PROMPT))))
        assert tokens == own[: len(tokens)] and len(tokens) >= AWAY


async def test_a_stream_that_another_one_ends_at_once_ends(target: Engine, endless: Card, own: list[int]) -> None:
    transport = httpx.ASGITransport(app_of(target, endless))
    async with httpx.AsyncClient(base_url="http://127.0.0.1", transport=transport) as client, asyncio.timeout(PATIENT):
        older, newer = await asyncio.gather(*(client.post("/v1/streams", content=stream(number)) for number in (1, 2)))
    assert older.status_code >= 400 and newer.status_code == 200
    assert decode(older.content, Error).message.startswith("another request has ended this stream")


async def test_without_it_a_stream_ends_with_its_line(target: Engine, endless: Card) -> None:
    async with reached(app_of(target, endless, while_away=0)) as client:
        assert decode((await client.get("/v1/card")).content, Card).while_away == 0
        async with Gate(target.model) as held:
            held.allow(1)
            await begun(client, stream())
            held.allow(3)
            await until(client, "running_sessions", 0)
        assert await counter(client, "away_tokens_total") == 0
        assert (await client.get(kept(1, len(PROMPT)))).status_code == 404


async def test_it_is_for_the_same_holder_only(target: Engine, endless: Card) -> None:
    tokens = Tokens([("anna", "a" * 20), ("ben", "b" * 20)])
    app = app_of(target, endless, tokens=tokens)
    async with reached(app, Authorization=f"Bearer {'a' * 20}") as anna:
        await begun(anna, stream())
        await until(anna, "running_sessions", 0)
        ben = {"Authorization": f"Bearer {'b' * 20}"}
        assert (await anna.get(kept(1, len(PROMPT)), headers=ben)).status_code == 404
        assert (await anna.delete("/v1/streams/s?round=1", headers=ben)).status_code == 404
        assert (await anna.get(kept(1, len(PROMPT)), headers={"Authorization": ""})).status_code == 401
        assert tokens_of(await frames_at(anna, kept(1, len(PROMPT))))


async def test_what_is_not_there_or_not_said_is_refused(target: Engine, endless: Card) -> None:
    async with reached(app_of(target, endless)) as client:
        await begun(client, stream())
        await until(client, "running_sessions", 0)
        for number, position in ((2, len(PROMPT)), (1, len(PROMPT) - 1), (1, len(PROMPT) + MOST + 1)):
            assert (await client.get(kept(number, position))).status_code == 404
        for query in ("", "?round=1", "?from=9", "?round=x&from=9", "?round=1&from=-1", f"?round=1&from={'9' * 99}"):
            response = await client.get(f"/v1/streams/s{query}")
            assert (response.status_code, decode(response.content, Error).code) == (400, "bad_request"), query


async def test_its_room_is_for_those_who_are_there(target: Engine, endless: Card, own: list[int]) -> None:
    async with left(target, app_of(target, endless, max_sessions=1)) as (client, held):
        held.allow(5)
        response = await client.post("/v1/rounds", content=message(1, [], PROMPT, session="other"))
        assert response.status_code == 200
        assert await counter(client, "evictions_total") == 1
        tokens = tokens_of(await frames_at(client, kept(1, len(PROMPT))))
        assert tokens == own[: len(tokens)], "what was written before is kept"


async def test_a_session_that_is_dropped_keeps_nothing(target: Engine, endless: Card) -> None:
    async with left(target, app_of(target, endless)) as (client, held):
        held.allow()
        assert (await client.delete("/v1/sessions/s")).status_code == 204
        assert (await client.get(kept(1, len(PROMPT)))).status_code == 404


async def test_a_draining_server_writes_for_nobody(target: Engine, endless: Card) -> None:
    app = app_of(target, endless)
    async with left(target, app) as (client, held):
        app.admission.drain()
        held.allow()
        await until(client, "running_sessions", 0)
        assert await counter(client, "away_tokens_total") <= 2


async def test_it_is_kept_for_a_while_and_not_without_bound(
    target: Engine, endless: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reached(app_of(target, endless)) as client:

        async def found(*sessions: str) -> list[int]:
            return [(await client.get(kept(1, len(PROMPT), session))).status_code for session in sessions]

        for session in ("one", "two", "three", "four"):
            await begun(client, stream(session=session))
            await until(client, "running_sessions", 0)
        assert await found("one", "four") == [200, 200]
        for limit, most, those in (("STREAMS", 2, [404, 404, 200, 200]), ("TOKENS", 20, [404, 404, 404, 200])):
            monkeypatch.setattr(f"remote.verifier.absence.KEPT_{limit}", most)
            assert await found("one", "two", "three", "four") == those
        monkeypatch.setattr("remote.verifier.absence.KEPT_SECONDS", 0.0)
        assert await found("four") == [404]
