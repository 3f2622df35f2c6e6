"""The line is cut in the middle of an answer: the client gets on, nothing is lost or doubled, and the truth is told."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.app.gateway.conftest import Opened, own_text, settled
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.faults import after, lasting, refused
from tests.support.gateways import CHAT, Streamed, stream, stream_to_end
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
