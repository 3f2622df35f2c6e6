"""Behind the gateway is a server that checks no drafts: its text has its own mark, its tool calls come back unchanged.

A call that breaks off is nobody's to complete.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai

from app.config import Folders
from app.local.registry import LocalModels
from app.remotes.registry import Remote, Remotes
from tests.app.gateway.conftest import Opened, Relaying, between
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


def sdk(client: httpx.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)


async def test_calls_come_back_whole_and_streamed_and_their_results_go_up(relaying: Relaying) -> None:
    async with between(relaying, TWO_CALLS, TWO_CALLS, Script(["Rain."])) as (server, client), sdk(client) as ai:
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


async def test_half_a_call_is_an_error_and_never_a_call(relaying: Relaying) -> None:
    async with between(relaying, HALF_A_CALL, HALF_A_CALL) as (server, client):
        read = await stream_to_end(client, BODY)
        assert read.text == "Now " and read.finish is None and not read.ended
        assert read.error is not None and read.error["code"] == "answer_broken"
        whole = await client.post(CHAT, json=BODY)
        assert whole.status_code == 502 and whole.headers["x-should-retry"] == "false"
        assert len(server.asked) == 2


async def test_a_client_that_leaves_ends_the_servers_answer(running: Opened) -> None:
    server = ChatServer([Script(["Now ", piece(0, "weather", '{"ci')], hold=True)])
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1") as (_, client):
        async with client.stream("POST", CHAT, json={**BODY, "stream": True}) as response:
            place = response.headers["x-outrider-answer"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.hung_up.wait()
        report = (await client.get(place)).json()
        assert report["state"] == "failed" and len(server.asked) == 1


async def test_a_place_at_the_server_is_waited_for_with_tools_and_without(running: Opened, tmp_path: Path) -> None:
    server, plain = ChatServer([Script(["One"], hold=True), Script(["Two."])] * 2), {"messages": [QUESTION]}
    async with server.listening() as port:
        remotes = Remotes(Folders.locate({"OUTRIDER_HOME": str(tmp_path / "home")}))
        remotes.put("one", Remote(url=f"http://127.0.0.1:{port}/v1", kind="openai", parallel=1))
        async with running("one", "--max-waiting", "1") as (_, client):
            for asked, first in ((1, BODY), (3, plain)):
                async with client.stream("POST", CHAT, json={**first, "stream": True}):
                    two = [asyncio.create_task(client.post(CHAT, json=body)) for body in (BODY, plain)]
                    (refused, *_), (waiting,) = await asyncio.wait(two, return_when=asyncio.FIRST_COMPLETED)
                    answer = refused.result()
                    assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
                    assert answer.json()["error"]["code"] == "rate_limit_exceeded" and len(server.asked) == asked
                assert (await waiting).json()["choices"][0]["message"]["content"] == "Two."
                assert len(server.asked) == asked + 1


async def test_what_cannot_be_passed_on_is_refused_by_name(relaying: Relaying) -> None:
    async with between(relaying, Script(["Hello."])) as (server, client):
        for field, value in (("n", 2), ("logprobs", True), ("functions", [{"name": "weather"}])):
            answer = await client.post(CHAT, json={**BODY, field: value})
            assert answer.status_code == 400 and answer.json()["error"]["param"] == field
        server.refuses = "talker does not support tools"
        refused = await client.post(CHAT, json=BODY)
        assert refused.status_code == 400 and "does not support tools" in refused.json()["error"]["message"]
        none = await client.post(CHAT, json={**BODY, "tool_choice": "none", "parallel_tool_calls": None})
        assert none.status_code == 400 and "tools" not in server.asked[-1]


def odd_call(odd: str, city: str, name: str) -> dict[str, Any]:
    index = {} if odd == "unnumbered" else {"index": 0} if odd == "all zero" else {"index": int(name)}
    named = {} if odd == "without ids" else {"id": name}
    given: Any = {"city": city} if odd == "as objects" else json.dumps({"city": city})
    return {"tool_calls": [{**index, **named, "function": {"name": "weather", "arguments": given}}]}


async def test_odd_servers_calls_are_neither_joined_nor_doubled(relaying: Relaying) -> None:
    kinds = ("unnumbered", "all zero", "without ids", "as objects")
    scripts = [Script([odd_call(odd, "Bonn", "0"), odd_call(odd, "Rome", "1")]) for odd in kinds]
    async with between(relaying, *scripts) as (_, client), sdk(client) as ai:
        for odd in kinds:
            choice = (await ai.chat.completions.create(**BODY)).choices[0]
            calls = choice.message.tool_calls
            assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Bonn", "Rome"], odd
            assert len({call.id for call in calls}) == 2 and choice.finish_reason == "tool_calls", odd


# ---- its text --------------------------------------------------------------------------------------------------------


ROLES = ("user", "assistant")
LATE = [("system", "Be brief."), ("user", "how?"), ("assistant", "So."), ("system", "Be polite."), ("user", "why?")]
HELLO = {"messages": [{"role": "user", "content": "Say hello."}], "temperature": 0}


async def test_its_text_is_marked_and_a_broken_answer_ends_with_an_error(relaying: Relaying) -> None:
    scripts = Script(["Hell", "o."]), Script(["Hello", " again"]), Script(["Half of"], cut=True, reason="")
    async with between(relaying, *scripts) as (server, client):
        answered = await client.post(CHAT, json={**HELLO, "temperature": 0.5, "top_p": 0.5, "seed": 3})
        told = answered.json()
        assert told["choices"][0]["message"]["content"] == "Hello." and told["model"] == "talker"
        assert answered.headers["x-outrider-source"] == told["outrider"]["source"] == "hosted"
        assert told["outrider"]["state"] == "hosted" and told["outrider"]["checked"] == 6
        assert (server.asked[0]["top_p"], server.asked[0]["seed"]) == (0.5, 3)
        read = await stream_to_end(client, HELLO)
        assert read.text == "Hello again" and set(read.sources) == {"hosted"}
        cut = await stream_to_end(client, HELLO)
        assert cut.text == "Half of" and cut.error is not None and not cut.ended
        assert cut.error["code"] == "answer_broken" and "is kept" not in cut.error["message"]


async def test_any_conversation_is_passed_on_in_order(relaying: Relaying) -> None:
    """Late system messages come first. Thousands of messages are passed on: such servers read a million tokens."""
    said = [{"role": role, "content": f"{role} {turn} " + "x" * 500} for turn in range(2_500) for role in ROLES]
    async with between(relaying, Script(["Hello."])) as (server, client):
        for number in range(2):
            asked = [*said, {"role": "user", "content": "Say hello."}]
            answered = await client.post(CHAT, json={"messages": asked})
            assert answered.json()["choices"][0]["message"]["content"] == "Hello."
            assert server.asked[number]["messages"] == asked
            said = [*asked, {"role": "assistant", "content": "Hello."}]
        await client.post(CHAT, json={"messages": [{"role": role, "content": text} for role, text in LATE]})
    sent = [(one["role"], one["content"]) for one in server.asked[2]["messages"]]
    assert sent == [("system", "Be brief.\n\nBe polite."), ("user", "how?"), ("assistant", "So."), ("user", "why?")]
    assert "temperature" not in server.asked[2], "nobody has chosen one"


async def test_a_model_on_this_device_continues_and_is_named(running: Opened, tiny_pair: Path, tmp_path: Path) -> None:
    LocalModels(Folders.locate({"OUTRIDER_HOME": str(tmp_path / "home")})).add("small-one", tiny_pair / "target")
    server = ChatServer([Script(["Half", " of"], cut=True)], leaves=True)
    async with server.listening() as port, running(f"http://127.0.0.1:{port}/v1", offline="local") as (_, client):
        names = [model["id"] for model in (await client.get("/v1/models")).json()["data"]]
        assert names == ["outrider", "talker"]
        cut = await stream_to_end(client, HELLO)
        assert cut.ended and cut.error is None and cut.text.startswith("Half of") and len(cut.text) > 7
        assert cut.sources == ["hosted"] * 7 + ["local"] * (len(cut.text) - 7)
        end = cut.chunks[-1]["outrider"]
        assert (end["source"], end["state"], end["checked"]) == ("local", "unchecked", 7)
        report = (await client.get(end["answer"])).json()
        assert report["spans"] == [
            {"start": 0, "end": 7, "source": "hosted"},
            {"start": 7, "end": len(cut.text), "source": "local", "model": "small-one"},
        ]
        assert report["model"] == "talker" and "this device" in report["why"]
        whole = await client.post(CHAT, json=HELLO)
        marks = whole.json()["outrider"]
        assert whole.json()["model"] == "small-one" and whole.headers["x-outrider-source"] == "local"
        assert [span["model"] for span in marks["spans"]] == ["small-one"] and marks["checked"] == 0
        named = await client.post(CHAT, json={**HELLO, "model": "talker"})
        assert named.json()["model"] == "small-one", "a program asks on for the model that is away"
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == names
