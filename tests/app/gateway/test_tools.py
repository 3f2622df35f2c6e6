"""Requests with tools: the server's calls come back as they are, and a call that breaks off is nobody's to complete."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai

from tests.app.gateway.conftest import Opened
from tests.support.chat_server import ChatServer, Script
from tests.support.gateways import CHAT, stream_to_end
from tests.support.patience import PATIENCE_SECONDS

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
QUESTION: dict[str, Any] = {"role": "user", "content": "Weather in Bonn and Rome?"}
BODY: dict[str, Any] = {"model": "outrider", "messages": [QUESTION], "tools": [WEATHER], "parallel_tool_calls": True}


def piece(index: int, name: str = "", arguments: str = "") -> dict[str, Any]:
    """A delta of a tool call, which begins it if it has a name."""
    begun = {"id": f"call_{index}", "type": "function"} if name else {}
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"tool_calls": [{"index": index, **begun, "function": function}]}


TWO_CALLS = Script(
    ["I look", " it up.", piece(0, "weather"), piece(0, "", '{"city":'), piece(0, "", '"Bonn"}'),
     piece(1, "weather", '{"city":"Rome"}'), piece(1, "weather", '{"city":"Rome"}')],
    reason="tool_calls",
)  # fmt: skip
HALF_A_CALL = Script(["Now ", piece(0, "weather"), piece(0, "", '{"city":')], cut=True)
CALLS = [("call_0", "weather", '{"city":"Bonn"}'), ("call_1", "weather", '{"city":"Rome"}')]


@asynccontextmanager
async def between(running: Opened, *scripts: Script) -> AsyncIterator[tuple[ChatServer, httpx.AsyncClient]]:
    """A server with these answers, and a client of a gateway in front of it."""
    server = ChatServer(scripts)
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1") as (_, client):
        yield server, client


def sdk(client: httpx.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)


async def test_calls_come_back_whole_and_streamed_and_their_results_go_up(running: Opened) -> None:
    async with between(running, TWO_CALLS, TWO_CALLS, Script(["Rain."])) as (server, client), sdk(client) as ai:
        answer = await ai.chat.completions.create(**BODY, temperature=0.5)
        said = answer.choices[0].message
        assert answer.choices[0].finish_reason == "tool_calls" and said.content == "I look it up."
        assert [(call.id, call.function.name, call.function.arguments) for call in said.tool_calls] == CALLS
        assert server.asked[0]["tools"] == [WEATHER] and server.asked[0]["parallel_tool_calls"] is True
        assert (server.asked[0]["model"], server.asked[0]["temperature"]) == ("talker", 0.5)
        async with ai.chat.completions.stream(**BODY) as stream:
            final = (await stream.get_final_completion()).choices[0]
        assert final.finish_reason == "tool_calls" and final.message.content == "I look it up."
        assert [(call.id, call.function.name, call.function.arguments) for call in final.message.tool_calls] == CALLS
        history = [QUESTION, said.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})]
        results = [{"role": "tool", "tool_call_id": call, "content": "rain"} for call, _, _ in CALLS]
        done = await ai.chat.completions.create(model="outrider", messages=[*history, *results], tool_choice="none")
        assert done.choices[0].message.content == "Rain." and done.choices[0].finish_reason == "stop"
        assert server.asked[2]["messages"] == [*history, *results]
        assert len(server.asked) == 3, "nothing was asked twice"


async def test_half_a_call_is_an_error_and_never_a_call(running: Opened) -> None:
    async with between(running, HALF_A_CALL, HALF_A_CALL) as (server, client):
        read = await stream_to_end(client, BODY)
        assert read.text == "Now " and read.finish is None and not read.ended
        assert read.error is not None and read.error["code"] == "answer_broken"
        whole = await client.post(CHAT, json=BODY)
        assert whole.status_code == 502 and whole.headers["x-should-retry"] == "false"
        assert len(server.asked) == 2


async def test_a_client_that_leaves_ends_the_servers_answer(running: Opened) -> None:
    async with between(running, Script(["Now ", piece(0, "weather", '{"ci')], hold=True)) as (server, client):
        async with client.stream("POST", CHAT, json={**BODY, "stream": True}) as response:
            place = response.headers["x-outrider-answer"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.hung_up.wait()
        report = (await client.get(place)).json()
        assert report["state"] == "failed" and len(server.asked) == 1


async def test_what_cannot_be_passed_on_is_refused_by_name(running: Opened) -> None:
    async with between(running, Script(["Hello."])) as (server, client):
        for field, value in (("n", 2), ("logprobs", True), ("functions", [{"name": "weather"}])):
            answer = await client.post(CHAT, json={**BODY, field: value})
            assert answer.status_code == 400 and answer.json()["error"]["param"] == field
        server.refuses = "talker does not support tools"
        refused = await client.post(CHAT, json=BODY)
        assert refused.status_code == 400 and "does not support tools" in refused.json()["error"]["message"]
        none = await client.post(CHAT, json={**BODY, "tool_choice": "none", "parallel_tool_calls": None})
        assert none.status_code == 400 and "tools" not in server.asked[-1]
    async with running(None, home="alone") as (_, client):
        away = await client.post(CHAT, json=BODY)
        assert away.status_code == 503 and "Tools need a server" in json.dumps(away.json())


def odd_call(odd: str, city: str, name: str) -> dict[str, Any]:
    index = {} if odd == "unnumbered" else {"index": 0} if odd == "all zero" else {"index": int(name)}
    named = {} if odd == "without ids" else {"id": name}
    given: Any = {"city": city} if odd == "as objects" else json.dumps({"city": city})
    return {"tool_calls": [{**index, **named, "function": {"name": "weather", "arguments": given}}]}


async def test_odd_servers_calls_are_neither_joined_nor_doubled(running: Opened) -> None:
    kinds = ("unnumbered", "all zero", "without ids", "as objects")
    scripts = [Script([odd_call(odd, "Bonn", "0"), odd_call(odd, "Rome", "1")]) for odd in kinds]
    async with between(running, *scripts) as (_, client), sdk(client) as ai:
        for odd in kinds:
            choice = (await ai.chat.completions.create(**BODY)).choices[0]
            calls = choice.message.tool_calls
            assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Bonn", "Rome"], odd
            assert len({call.id for call in calls}) == 2 and choice.finish_reason == "tool_calls", odd
