"""The metrics page: its text is what Prometheus reads, and says what happened."""

from __future__ import annotations

import re

from models.engines.engine import Engine
from remote.protocol import Card, encode
from remote.verifier.collector import CONTENT_TYPE
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.options import ServeOptions
from tests.remote.verifier.test_hosted import ask
from tests.remote.verifier.test_http import PROMPT, connected, message
from tests.support.serving import REPOSITORY

TOKEN = "0123456789abcdef-anna"


def values(text: str) -> dict[str, float]:
    """Each sample of a page, by its name with its labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def test_the_page_counts_requests_times_and_tokens(target: Engine, card: Card) -> None:
    async with connected(create_app(target, card)) as client:
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
    assert found['outrider_http_requests_total{route="other",status="404"}'] == 2
    assert found["outrider_prompt_tokens_total"] == 2 * len(PROMPT)
    assert found["outrider_new_tokens_total"] == 6
    for name, rounds, streams in (
        ("http_request_duration", 2, 1),
        ("queue_wait", 1, 1),
        ("time_to_first_token", 1, 1),
        ("time_between_pieces", 0, 4),
        ("round_duration", 1, 5),
    ):
        for route, count in (("/v1/rounds", rounds), ("/v1/streams", streams)):
            assert found.get(f'outrider_{name}_seconds_count{{route="{route}"}}', 0) == count, (name, route)
    documented = set(re.findall(r"`(outrider_\w+)", (REPOSITORY / "docs/operating.md").read_text()))
    shown = set(re.findall(r"^# TYPE (\w+)", reply.text, re.MULTILINE))
    assert {name for name in documented if "_holder_" not in name} <= shown
    first = found['outrider_time_to_first_token_seconds_sum{route="/v1/streams"}']
    assert 0 < first < found['outrider_http_request_duration_seconds_sum{route="/v1/streams"}']
    (build,) = (name for name in found if name.startswith("outrider_build_info{"))
    assert 'engine="TorchEngine"' in build and 'target="tiny"' in build and 'version="' in build


async def test_names_of_holders_are_shown_only_where_that_is_asked_for(target: Engine, card: Card) -> None:
    tokens = Tokens([("anna", TOKEN), ("bert", TOKEN[::-1])])
    for by_holder in (False, True):
        app = create_app(target, card, ServeOptions(tokens=tokens, metrics_by_holder=by_holder))
        async with connected(app, Authorization=f"Bearer {TOKEN}") as client:
            await client.post("/v1/rounds", content=message(1, [], PROMPT))
            text = (await client.get("/metrics")).text
        async with connected(app) as stranger:
            await stranger.post("/v1/rounds", content=message(1, [], PROMPT))
        assert ("anna" in text) == by_holder and "bert" not in text
    assert values(text)['outrider_holder_requests_total{holder="anna"}'] == 1
    assert values(text)['outrider_holder_prompt_tokens_total{holder="anna"}'] == len(PROMPT)
    assert values(text)['outrider_holder_new_tokens_total{holder="anna"}'] == 1
