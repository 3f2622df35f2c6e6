"""Alive and ready are two things: a server that is full, stuck or about to stop is alive and not ready."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from models.engines.engine import Engine
from models.engines.torch_engine import TorchEngine
from remote.protocol import Card, Error, decode
from remote.verifier.admission import Admission
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.line import Line
from remote.verifier.options import ServeOptions
from remote.verifier.readiness import Readiness
from remote.verifier.turns import Turns
from tests.remote.verifier.test_http import PATIENT, PROMPT, TOKEN, connected, gate, message, running


async def told(client: httpx.AsyncClient) -> tuple[int, str]:
    assert (await client.get("/healthz")).status_code == 200
    reply = await client.get("/readyz")
    assert ("retry-after" in reply.headers) == (reply.status_code == 503)
    return reply.status_code, reply.text


async def test_a_server_that_is_idle_is_ready_and_says_so_to_anybody(target: Engine, card: Card) -> None:
    async with connected(create_app(target, card, ServeOptions(tokens=Tokens.one(TOKEN)))) as client:
        assert await told(client) == (200, "ready\n")


async def test_a_full_line_and_a_stuck_engine_are_not_ready(
    target: Engine, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(TorchEngine(target.model), card, ServeOptions(max_waiting=1))
    with running(app) as url, gate(target.model) as held:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENT, trust_env=False) as client:
            waits = asyncio.create_task(client.post("/v1/rounds", content=message(1, [], PROMPT)))
            while not held.came:
                await asyncio.sleep(0.01)
            assert await told(client) == (503, "the line is full\n")
            # For this look alone: turns that nobody waits for may stand in line a moment longer than their answer.
            with monkeypatch.context() as patched:
                patched.setattr("remote.verifier.readiness.STUCK_SECONDS", 0.0)
                status, text = await told(client)
            assert status == 503 and text.startswith("the engine has finished nothing for ")
            held.open.set()
            assert (await waits).status_code == 200
            assert await told(client) == (200, "ready\n")


async def test_a_full_line_of_chat_completions_is_not_ready(target: Engine) -> None:
    line = Line(places=1, longest=0)
    readiness = Readiness(Turns(8, target), Admission(ServeOptions()), line)
    assert readiness.reasons() == []

    async def gone() -> bool:
        return False

    async with line.place(gone):
        assert readiness.reasons() == ["the line is full"]
    assert readiness.reasons() == []


async def test_a_draining_server_is_not_ready_and_sends_others_away(target: Engine, card: Card) -> None:
    app = create_app(target, card)
    async with connected(app) as client:
        app.admission.drain()
        assert await told(client) == (503, "the server is about to stop\n")
        for method, path in (("POST", "/v1/rounds"), ("GET", "/v1/card"), ("POST", "/v1/chat/completions")):
            body = message(1, [], PROMPT) if path == "/v1/rounds" else None
            reply = await client.request(method, path, content=body)
            assert (reply.status_code, reply.headers["connection"]) == (503, "close")
            assert reply.headers["retry-after"] == "1"
            if path.startswith("/v1/chat"):
                assert reply.json()["error"]["code"] == "unavailable"
            else:
                assert decode(reply.content, Error).retry
        assert "outrider_draining 1" in (await client.get("/metrics")).text
        assert (await client.delete("/v1/sessions/s")).status_code == 404
