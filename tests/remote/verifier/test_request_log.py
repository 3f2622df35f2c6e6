"""The log of the server: one line for each request, and never a question, an answer or a token in it."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from drafter.runtime import Drafter
from models.engines.engine import Engine
from remote.protocol import Card, encode
from remote.verifier.http import create_app
from remote.verifier.observability.request_log import REQUESTS, JsonLines, TextLines, write_log
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PATIENT, PROMPT, connected, message
from tests.support.serving import VerifierProcess

TOKEN, OTHER_TOKEN = "0123456789abcdef-canary-token", "0123456789abcdef-canary-other"
CANARY = "canary"
"""A word of everything that a log must not hold."""


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged as JSON."""
    written, root, requests = io.StringIO(), logging.getLogger(), logging.getLogger(REQUESTS)
    before, level = list(root.handlers), requests.level
    write_log("json", written)
    yield written
    root.handlers[:] = before
    requests.setLevel(level)


async def test_a_request_is_one_line_with_its_id(target: Engine, card: Card, lines: io.StringIO) -> None:
    async with connected(create_app(target, card)) as client:
        given = await client.post("/v1/rounds", content=message(1, [], PROMPT), headers={"x-request-id": "abc-1.2_3"})
        made = await client.get("/nothing/canary?canary=1")
        await client.get("/healthz")
        await client.get("/metrics")
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert given.headers["x-request-id"] == first["request_id"] == "abc-1.2_3"
    assert first["milliseconds"] > 0 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    del first["milliseconds"], first["time"]
    assert first == {
        "level": "info",
        "request_id": "abc-1.2_3",
        "method": "POST",
        "route": "/v1/rounds",
        "status": 200,
        "prompt_tokens": len(PROMPT),
        "new_tokens": 1,
        "holder": "everyone",
        "whole": True,
    }
    assert (second["route"], second["status"]) == ("other", 404)
    assert re.fullmatch(r"[0-9a-f]{16}", second["request_id"])
    assert made.headers["x-request-id"] == second["request_id"]


@pytest.mark.parametrize("given", ["", "a" * 65, "two words", 'quote"', "new\x0bline", "{}", "<b>", "é"])
async def test_an_id_that_could_harm_a_log_is_replaced(target: Engine, card: Card, given: str) -> None:
    async with connected(create_app(target, card)) as client:
        reply = await client.get("/v1/card", headers=[(b"x-request-id", given.encode())])
    assert re.fullmatch(r"[0-9a-f]{16}", reply.headers["x-request-id"])


async def test_refusals_and_failures_have_an_id_too(
    target: Engine, card: Card, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("canary of a conversation")

    monkeypatch.setattr("remote.verifier.sessions.sessions.Sessions.round", fails)
    async with connected(create_app(target, card), Origin="https://evil.example") as web:
        assert "x-request-id" in (await web.get("/v1/card")).headers
    async with connected(create_app(target, card)) as client:
        failed = await client.post("/v1/rounds", content=message(1, [], PROMPT))
    assert failed.status_code == 500 and "x-request-id" in failed.headers
    refused, broke = (json.loads(line) for line in lines.getvalue().splitlines())
    assert (refused["status"], refused["holder"]) == (401, None)
    assert (broke["status"], broke["request_id"]) == (500, failed.headers["x-request-id"])


@pytest.mark.parametrize("form", [JsonLines(), TextLines()])
def test_a_traceback_tells_the_place_and_not_the_words(form: logging.Formatter) -> None:
    try:
        raise KeyError("canary of a conversation")
    except KeyError as error:
        caught = error
    info = (KeyError, caught, caught.__traceback__)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, __file__, 1, "It failed.\n", (), info)
    text = form.format(record)
    assert "KeyError" in text and "test_request_log.py" in text and "It failed." in text
    assert CANARY not in text


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_route_and_no_error_writes_what_was_said(tiny_pair: Path, tmp_path: Path, form: str) -> None:
    tokens, said = tmp_path / "tokens", tmp_path / "said"
    tokens.write_text(f"anna {TOKEN}\nbert {OTHER_TOKEN}\n")
    prompt = Drafter.load(tiny_pair / "drafter").text.render([("user", "canary in a question")])
    question = {"role": "user", "content": "canary in a question"}
    options = ("--log-format", form, "--tokens-per-minute", "400")
    with (
        VerifierProcess(tiny_pair, token_file=tokens, said=said, options=options) as server,
        httpx.Client(base_url=server.url, timeout=PATIENT, trust_env=False) as client,
    ):
        statuses = [client.get("/v1/card", headers={"authorization": "Bearer canary-that-is-wrong"}).status_code]
        client.headers["authorization"] = f"Bearer {TOKEN}"
        client.headers["user-agent"] = "canary"

        def post(path: str, **options: object) -> None:
            statuses.append(client.post(path, **options).status_code)  # type: ignore[arg-type]

        chat = "/v1/chat/completions"
        post(chat, json={"messages": [question], "max_tokens": 3})
        post(chat, json={"messages": [question], "max_tokens": 3, "stream": True})
        post(chat, json={"messages": [question], "model": "canary"})
        post(chat, json={"messages": [{"role": "canary", "content": "canary"}]})
        post(chat, json={"messages": "canary"})
        post(chat, content=b'{"messages": [canary')
        post(chat, content=b"canary" * 100_000)
        post("/v1/rounds", content=message(1, [], prompt, session="canary"))
        post("/v1/rounds", content=message(2, [5, 6], prompt, session="canary"))
        post("/v1/rounds", content=b"canary")
        post("/v1/streams", content=encode(ask([], prompt, most=3, session="canary2")))
        post("/canary/of/a/path?canary=canary", content=b"canary")
        post(chat, json={"messages": [question], "max_tokens": 900})  # More than a minute's tokens.
        post(chat, json={"messages": [question]})
        for path in ("/v1/card", "/v1/models", "/v1/models/canary", "/v1/drafters/canary", "/canary", "/metrics"):
            statuses.append(client.get(path).status_code)
        statuses.append(client.delete("/v1/sessions/canary").status_code)
        statuses.append(client.get("/v1/card", headers={"x-request-id": "canary canary"}).status_code)
        statuses.append(client.get("/v1/card", headers={"x-long": "canary" * 10_000}).status_code)
    text = said.read_text(encoding="utf-8")
    assert {200, 204, 400, 401, 404, 409, 413, 429, 431} <= set(statuses)
    assert CANARY not in text
    assert text.count("/v1/chat/completions") == 9
    assert "anna" in text and "bert" not in text
