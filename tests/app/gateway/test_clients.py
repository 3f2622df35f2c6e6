"""Clients as they are: many at once, some that hang up, some hostile; and the end of the gateway itself."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.call import read_call
from app.gateway.refusals import GatewayRefused
from tests.app.gateway.conftest import Opened, own_text
from tests.support.commands import Outrider
from tests.support.conversing import until
from tests.support.faults import late
from tests.support.gateways import CHAT, GatewayProcess, Streamed, stream, stream_to_end, text_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

QUESTION = {"role": "user", "content": "how do I unpack a tar archive?"}
BODY: dict[str, Any] = {"messages": [QUESTION], "temperature": 0, "max_tokens": 60}


async def test_many_clients_at_once_get_their_own_answers(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    asked = [[{"role": "user", "content": f"tell me about topic {number}"}] for number in range(7)]

    async def one(messages: list[dict[str, str]]) -> str:
        read = await stream_to_end(client, {**BODY, "messages": messages})
        assert read.ended and set(read.sources) == {"verified"}
        return read.text

    answers = await asyncio.gather(*map(one, asked))
    assert answers == [await own_text(verifier, messages, 60) for messages in asked]


ONE_SEAT = ("--max-answers", "1", "--max-waiting", "1")


async def test_hanging_up_stops_an_answer(behind_a_line: Opened, verifier: VerifierProcess) -> None:
    async with behind_a_line(*ONE_SEAT, mode="edge") as (proxy, _, client):
        for streams in (True, False):
            proxy.line = late(0.05)
            if streams:
                async with client.stream("POST", CHAT, json={**BODY, "stream": True}) as response:
                    place = response.headers["x-outrider-answer"]
                    async for line in response.aiter_lines():
                        if line.startswith("data: {") and text_of(json.loads(line[6:])):
                            break
            else:
                asked = proxy.asked
                hanging = asyncio.create_task(client.post(CHAT, json=BODY))
                await until(lambda before=asked: proxy.asked > before)
                hanging.cancel()
            await proxy.heal()
            answered = await client.post(CHAT, json={**BODY, "max_tokens": 5})
            assert answered.status_code == 200, "the only seat is free again"
        report = (await client.get(place)).json()
        assert report["state"] == "failed" and "disconnected" in report["why"]
        assert len(report["text"]) < len(await own_text(verifier, [QUESTION], 60))


async def test_sigterm_lets_answers_end(behind_a_line: Opened, verifier: VerifierProcess, tmp_path: Path) -> None:
    async with behind_a_line(mode="edge") as (proxy, process, client):
        proxy.line = late(0.05)
        read, told = Streamed(), False
        async for found, text in stream(client, BODY):
            read = found
            if text and not told:
                told = True
                process.terminate()
        assert read.ended and read.text == await own_text(verifier, [QUESTION], 60)
        assert await asyncio.to_thread(process.process.wait, PATIENCE_SECONDS) == 0
        with pytest.raises(httpx.TransportError):
            await client.get("/healthz")
    assert not list((tmp_path / "home").rglob("*.db")), "nothing of a conversation is on the disk"
    assert process.said == ""


def test_a_taken_port_and_wrong_options_are_told_in_a_sentence(gateway: GatewayProcess, outrider: Outrider) -> None:
    for option, value, code, said in (
        ("--port", str(gateway.port), 1, "Choose another --port"),
        ("--token-file", "/nowhere", 2, "token file /nowhere"),
        ("--allow-origin", "*", 2, "Add --token-file"),
    ):
        assert outrider("gateway", "--mode", "offline", option, value).says(code, said)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
NESTED = st.lists(PLAIN, max_size=4) | st.dictionaries(st.text(max_size=6), PLAIN, max_size=4)
MESSAGES = st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls"]), PLAIN | NESTED), max_size=3)
JSON = PLAIN | NESTED | st.lists(NESTED, max_size=3) | MESSAGES
FIELDS = ["model", "temperature", "top_p", "top_k", "seed", "stop", "n", "stream", "stream_options", "tools",
          "response_format", "max_tokens", "max_completion_tokens", "logprobs", "logit_bias", "messages"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5), st.booleans())
def test_a_hostile_body_is_read_or_refused(fields: dict[str, Any], valid: bool) -> None:
    body = json.dumps({**({"messages": [QUESTION]} if valid else {}), **fields}).encode()
    try:
        call = read_call(body)
    except GatewayRefused as error:
        assert error.status == 400 and str(error) and json.loads(error.body)["error"]["message"] == str(error)
    else:
        assert call.relayed or call.turns[-1][0] == "user"  # What has tools is for the server to judge.
        assert call.choices.seed is not None
