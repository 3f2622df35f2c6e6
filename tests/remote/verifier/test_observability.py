"""What can be seen of a server: whether it is ready, what it counts, and what it logs, which is never what was said."""

from __future__ import annotations

import asyncio
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
from models.engines.torch_engine import TorchEngine
from remote.protocol import Card, Error, decode, encode
from remote.verifier.collector import CONTENT_TYPE
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.observability.request_log import REQUESTS, JsonLines, TextLines, write_log
from remote.verifier.options import ServeOptions
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PATIENT, PROMPT, Gate, connected, message, reached
from tests.support.serving import REPOSITORY, VerifierProcess


async def looked_at(client: httpx.AsyncClient) -> tuple[int, str]:
    assert (await client.get("/healthz")).status_code == 200
    reply = await client.get("/readyz")
    assert ("retry-after" in reply.headers) == (reply.status_code == 503)
    return reply.status_code, reply.text


async def test_a_full_line_and_a_stuck_engine_are_not_ready(
    target: Engine, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(TorchEngine(target.model), card, ServeOptions(max_waiting=1))
    async with reached(app) as client, Gate(target.model) as held:
        waits = asyncio.create_task(client.post("/v1/rounds", content=message(1, [], PROMPT)))
        await held.entered()
        assert await looked_at(client) == (503, "the queue is full\n")
        refused = await client.post("/v1/rounds", content=message(1, [], PROMPT, session="other"))
        error = decode(refused.content, Error)
        assert (refused.status_code, error.code, error.retry) == (503, "busy", True)
        # For this look alone: turns that nobody waits for may stand in line a moment longer than their answer.
        with monkeypatch.context() as patched:
            patched.setattr("remote.verifier.http.STUCK_SECONDS", 0.0)
            status, text = await looked_at(client)
        assert status == 503 and text.startswith("the engine has finished nothing for ")
        held.allow()
        assert (await waits).status_code == 200
        assert await looked_at(client) == (200, "ready\n")


# ---- metrics ---------------------------------------------------------------------------------------------------------


ANNA = "0123456789abcdef-anna"


def values(text: str) -> dict[str, float]:
    """Each sample of a page, by its name with its labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def test_the_page_counts_requests_times_and_tokens(client: httpx.AsyncClient) -> None:
    await client.post("/v1/rounds", content=message(1, [], PROMPT))
    await client.post("/v1/streams", content=encode(ask([], PROMPT, most=5, session="other")))
    await client.post("/v1/rounds", content=b"no message")
    await client.get("/v1/drafters/0000")
    await client.get("/nothing/of/ours")
    reply = await client.get("/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE
    found = values(reply.text)
    assert found['outrider_http_requests_total{route="/v1/rounds",status="200"}'] == 1
    assert found['outrider_http_requests_total{route="/v1/rounds",status="400"}'] == 1
    assert found['outrider_http_requests_total{route="/v1/streams",status="200"}'] == 1
    assert found['outrider_http_requests_total{route="/v1/drafters/{digest}",status="404"}'] == 1
    assert found['outrider_http_requests_total{route="other",status="404"}'] == 1
    assert found["outrider_prompt_tokens_total"] == 2 * len(PROMPT)
    assert found["outrider_new_tokens_total"] == 6
    counted = {"http_request_duration": (2, 1), "queue_wait": (1, 1), "time_to_first_token": (1, 1)}
    counted |= {"time_between_pieces": (0, 4), "round_duration": (1, 5)}
    for name, counts in counted.items():
        for route, count in zip(("/v1/rounds", "/v1/streams"), counts):
            assert found.get(f'outrider_{name}_seconds_count{{route="{route}"}}', 0) == count, (name, route)
    documented = set(re.findall(r"`(outrider_\w+)", (REPOSITORY / "docs/operating.md").read_text()))
    shown = set(re.findall(r"^# TYPE (\w+)", reply.text, re.MULTILINE))
    assert {name for name in documented if "_holder_" not in name} <= shown
    first = found['outrider_time_to_first_token_seconds_sum{route="/v1/streams"}']
    assert 0 < first < found['outrider_http_request_duration_seconds_sum{route="/v1/streams"}']
    (build,) = (name for name in found if name.startswith("outrider_build_info{"))
    assert 'engine="TorchEngine"' in build and 'target="tiny"' in build and 'version="' in build


async def test_names_of_holders_are_shown_only_where_that_is_asked_for(target: Engine, card: Card) -> None:
    tokens = Tokens([("anna", ANNA), ("bert", ANNA[::-1])])
    for by_holder in (False, True):
        app = create_app(target, card, ServeOptions(tokens=tokens, metrics_by_holder=by_holder))
        async with connected(app, Authorization=f"Bearer {ANNA}") as client:
            await client.post("/v1/rounds", content=message(1, [], PROMPT))
            text = (await client.get("/metrics")).text
        async with connected(app) as stranger:
            await stranger.post("/v1/rounds", content=message(1, [], PROMPT))
        assert ("anna" in text) == by_holder and "bert" not in text
    assert values(text)['outrider_holder_requests_total{holder="anna"}'] == 1
    assert values(text)['outrider_holder_prompt_tokens_total{holder="anna"}'] == len(PROMPT)
    assert values(text)['outrider_holder_new_tokens_total{holder="anna"}'] == 1


# ---- log -------------------------------------------------------------------------------------------------------------


SECRET, OTHER_SECRET = "0123456789abcdef-canary-token", "0123456789abcdef-canary-other"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged as JSON."""
    written, root, requests = io.StringIO(), logging.getLogger(), logging.getLogger(REQUESTS)
    before, level = list(root.handlers), requests.level
    write_log("json", written)
    yield written
    root.handlers[:] = before
    requests.setLevel(level)


async def test_a_request_is_one_line_with_its_id(client: httpx.AsyncClient, lines: io.StringIO) -> None:
    given = await client.post("/v1/rounds", content=message(1, [], PROMPT), headers={"x-request-id": "abc-1.2_3"})
    made = await client.get("/nothing/canary?canary=1")
    await client.get("/healthz")
    await client.get("/metrics")
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert given.headers["x-request-id"] == first["request_id"] == "abc-1.2_3"
    assert first["milliseconds"] > 0 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    del first["milliseconds"], first["time"]
    assert first == {
        "level": "info", "request_id": "abc-1.2_3", "method": "POST", "route": "/v1/rounds", "status": 200,
        "prompt_tokens": len(PROMPT), "new_tokens": 1, "holder": "everyone", "whole": True,
    }  # fmt: skip
    assert (second["route"], second["status"]) == ("other", 404)
    assert re.fullmatch(r"[0-9a-f]{16}", second["request_id"])
    assert made.headers["x-request-id"] == second["request_id"]


async def test_an_id_that_could_harm_a_log_is_replaced(client: httpx.AsyncClient) -> None:
    for given in ("", "a" * 65, "two words", 'quote"', "new\x0bline", "{}", "<b>", "é"):
        reply = await client.get("/v1/card", headers=[(b"x-request-id", given.encode())])
        assert re.fullmatch(r"[0-9a-f]{16}", reply.headers["x-request-id"]), given


async def test_refusals_and_failures_have_an_id_too(
    target: Engine, card: Card, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("remote.verifier.sessions.sessions.Sessions.round")
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
    assert "KeyError" in text and "test_observability.py" in text and "It failed." in text
    assert "canary" not in text


def test_no_route_and_no_error_writes_what_was_said(tiny_pair: Path, tmp_path: Path) -> None:
    tokens, said = tmp_path / "tokens", tmp_path / "said"
    tokens.write_text(f"anna {SECRET}\nbert {OTHER_SECRET}\n")
    prompt = Drafter.load(tiny_pair / "drafter").text.render([("user", "canary in a question")])
    question = {"role": "user", "content": "canary in a question"}
    options = ("--log-format", "text", "--tokens-per-minute", "400")
    with (
        VerifierProcess(tiny_pair, token_file=tokens, said=said, options=options) as server,
        httpx.Client(base_url=server.url, timeout=PATIENT, trust_env=False) as client,
    ):
        statuses = [client.get("/v1/card", headers={"authorization": "Bearer canary-that-is-wrong"}).status_code]
        client.headers["authorization"] = f"Bearer {SECRET}"
        client.headers["user-agent"] = "canary"

        def post(path: str, **options: object) -> None:
            statuses.append(client.post(path, **options).status_code)

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
        for headers in ({"x-request-id": "canary canary"}, {"x-long": "canary" * 10_000}):
            statuses.append(client.get("/v1/card", headers=headers).status_code)
    text = said.read_text(encoding="utf-8")
    assert {200, 204, 400, 401, 404, 409, 413, 429, 431} <= set(statuses)
    assert "canary" not in text
    assert text.count("/v1/chat/completions") == 9
    assert "anna" in text and "bert" not in text
