from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import httpx
import pytest
from starlette.applications import Starlette

from models.engines.engine import Engine
from models.tree import DraftTree
from remote.protocol import (
    CONTENT_TYPE,
    Card,
    Error,
    Frame,
    Memory,
    Round,
    Tree,
    Verdict,
    decode,
    decode_frame,
    digest_of,
    encode,
    pack_tokens,
    read_frames,
)
from remote.verifier.connections import Server, config
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.options import ServeOptions
from tests.remote.verifier.tiny import VOCABULARY, generated

PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]
TOKEN = "0123456789abcdef"
PATIENT = 300.0
"""Seconds: a test machine may be busy."""


def round_of(
    number: int, known: list[int], append: list[int], tree: DraftTree | None = None, **fields: object
) -> Round:
    base = {"session": "s", "round": number, "base": len(known), "digest": digest_of(known)}
    return Round(**base | {"append": pack_tokens(append), "tree": Tree.pack(tree or DraftTree.empty())} | fields)


def message(number: int, known: list[int], append: list[int], tree: DraftTree | None = None, **fields: object) -> bytes:
    return encode(round_of(number, known, append, tree, **fields))


def frames_of(body: bytes) -> list[Frame]:
    found = []
    while body:
        (size,) = struct.unpack_from("<I", body)
        found.append(decode_frame(body[4 : 4 + size]))
        body = body[4 + size :]
    return found


@contextlib.asynccontextmanager
async def connected(app: Starlette, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        yield client


@contextlib.contextmanager
def running(app: Starlette, **options: Any) -> Iterator[str]:
    """The app behind a real socket on loopback; yields its URL. `options`: as for `config`."""
    server = Server(config(app, port=0, **options), lambda: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENT)


@contextlib.asynccontextmanager
async def reached(app: Starlette, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app behind a real socket."""
    with running(app) as url:
        async with httpx.AsyncClient(
            base_url=url, timeout=PATIENT, trust_env=False, verify=False, headers=headers
        ) as client:
            yield client


async def counter(client: httpx.AsyncClient, name: str) -> float:
    lines = (await client.get("/metrics")).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"outrider_{name} ")))


async def until(client: httpx.AsyncClient, name: str, count: float) -> None:
    """Wait until this metric has come to `count`."""
    async with asyncio.timeout(PATIENT):
        while await counter(client, name) != count:
            await asyncio.sleep(0.01)


class Gate:
    """Holds the target's forwards, or the encoder's, until they are allowed; counts who came."""

    def __init__(self, module: object) -> None:
        self._module, self._allowed, self.came = module, threading.Semaphore(0), 0

    def _wait(self, *_: object) -> None:
        self.came += 1
        assert self._allowed.acquire(timeout=PATIENT)

    def allow(self, forwards: int = 10_000) -> None:
        self._allowed.release(forwards)

    async def entered(self) -> None:
        """Wait until somebody is held."""
        while not self.came:
            await asyncio.sleep(0.01)

    async def __aenter__(self) -> Self:
        self._hook = self._module.register_forward_pre_hook(self._wait)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.allow()
        self._hook.remove()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"\xc1", 400, "bad_request"),
        (encode(Error(code="busy", message="", retry=False)), 400, "bad_request"),
        (message(1, [], [VOCABULARY]), 400, "bad_request"),
        (message(1, [], [2] * 300), 422, "too_long"),
        (b"x" * 5000, 413, "too_large"),
    ],
)
async def test_what_cannot_be_served_gets_a_typed_error(
    client: httpx.AsyncClient, body: bytes, status: int, code: str
) -> None:
    response = await client.post("/v1/rounds", content=body)
    error = decode(response.content, Error)
    assert (response.status_code, error.code, error.retry) == (status, code, False)
    assert error.message
    assert (await client.post("/v1/rounds", content=message(1, [], PROMPT))).status_code == 200


async def test_a_body_without_length_is_read_no_further_than_the_limit(client: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100_000:
            sent += 1000
            yield b"x" * 1000

    response = await client.post("/v1/rounds", content=endless())
    assert (response.status_code, decode(response.content, Error).code) == (413, "too_large")
    assert sent == 5000


async def test_the_token_guards_all_but_health(target: Engine, card: Card) -> None:
    app = create_app(target, card, ServeOptions(tokens=Tokens.one(TOKEN)))
    async with connected(app, Authorization="Bearer wrong") as client:
        for method, path in (("GET", "/v1/card"), ("POST", "/v1/rounds"), ("DELETE", "/v1/sessions/s")):
            response = await client.request(method, path)
            assert (response.status_code, decode(response.content, Error).code) == (401, "unauthorised")
        metrics = await client.get("/metrics")
        assert (metrics.status_code, metrics.json()["error"]["code"]) == (401, "invalid_api_key")
        assert [(await client.get(path)).text for path in ("/healthz", "/readyz")] == ["ok\n", "ready\n"]
    async with connected(app, Authorization=f"bearer {TOKEN}", Origin="https://app.example") as client:
        assert (await client.get("/v1/card")).status_code == 200


async def test_the_verdict_arrives_before_memory_is_computed(target: Engine, card: Card) -> None:
    expected = generated(target.model, PROMPT, 3)
    body = message(1, [], PROMPT, DraftTree.chain(expected[:2]), memory_from=0)
    async with (
        reached(create_app(target, card)) as client,
        Gate(target.encoder) as held,
        client.stream("POST", "/v1/rounds", content=body) as response,
    ):
        assert response.headers["content-type"] == CONTENT_TYPE
        frames = read_frames(response.aiter_raw())
        verdict = await anext(frames)
        held.allow()
        (memory,) = [frame async for frame in frames]
    assert isinstance(verdict, Verdict) and isinstance(memory, Memory)
    assert (verdict.accepted, verdict.bonus) == ((0, 1), expected[2])
    assert verdict.digest == digest_of(PROMPT + expected) and verdict.server_seconds > 0
    assert (memory.start, memory.count) == (0, len(PROMPT) + 2)


async def test_a_client_that_hangs_up_gets_everything_when_it_returns(target: Engine, card: Card) -> None:
    long = [2 + token % 40 for token in range(200)]
    body = message(1, [], long, memory_from=0)
    async with reached(create_app(target, card)) as client:
        async with Gate(target.encoder) as held:
            async with client.stream("POST", "/v1/rounds", content=body) as response:
                frames = read_frames(response.aiter_raw())
                verdict = await anext(frames)
            held.allow()
        again = frames_of((await client.post("/v1/rounds", content=body)).content)
        assert (again[0].length, again[0].digest, again[0].bonus) == (verdict.length, verdict.digest, verdict.bonus)
        assert sum(frame.count for frame in again[1:]) == 200
        tokens = [*long, verdict.bonus]
        later = frames_of((await client.post("/v1/rounds", content=message(2, tokens, []))).content)
        assert later[0].bonus == generated(target.model, tokens, 1)[0]


async def test_a_round_whose_client_left_is_still_committed_once(target: Engine, card: Card) -> None:
    body = message(1, [], PROMPT)
    async with reached(create_app(target, card)) as client:
        async with Gate(target.model) as held:
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/v1/rounds", content=body, timeout=httpx.Timeout(PATIENT, read=0.3))
            held.allow()
        retried = frames_of((await client.post("/v1/rounds", content=body)).content)
        assert retried[0].bonus == generated(target.model, PROMPT, 1)[0]
        assert await counter(client, "rounds_total") == 1


async def test_a_failing_target_is_a_typed_error_and_the_session_goes_on(
    client: httpx.AsyncClient, target: Engine
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no memory left")

    hook = target.model.register_forward_pre_hook(fail)
    broken = await client.post("/v1/rounds", content=message(1, [], PROMPT))
    hook.remove()
    error = decode(broken.content, Error)
    assert (broken.status_code, error.code, error.retry) == (500, "internal", True)
    verdict = frames_of((await client.post("/v1/rounds", content=message(1, [], PROMPT))).content)[0]
    assert verdict.bonus == generated(target.model, PROMPT, 1)[0]
