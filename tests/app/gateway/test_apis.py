"""The other APIs of the gateway: OpenAI's responses and plain text, and Anthropic's messages."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.apis.messages_api import read_messages
from app.gateway.apis.responses_request import Conversations, read_responses
from app.gateway.apis.text_api import read_text
from app.gateway.refusals import GatewayRefused
from tests.app.gateway.conftest import Opened, Relaying, between
from tests.app.gateway.test_tools import BODY, CALLS, HALF_A_CALL, TWO_CALLS, WEATHER, piece, sdk
from tests.support.chat_server import Script
from tests.support.messages_server import MessagesServer, Reply, claude

FUNCTION: dict[str, Any] = {"type": "function", "strict": False, **WEATHER["function"]}
PATCH: dict[str, Any] = {"type": "custom", "name": "apply_patch", "description": "Edits.", "format": {"type": "text"}}
CODEX: dict[str, Any] = {
    "model": "outrider",
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandbox: on."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix a.py."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "custom_tool_call", "call_id": "c0", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "ok"},
    ],
    "tools": [FUNCTION, PATCH, {"type": "web_search"}, {"type": "namespace", "name": "mcp", "tools": [FUNCTION]}],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
}
"""A request as Codex sends it."""
MESSAGES: dict[str, Any] = {
    "model": "outrider",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": [{"name": "weather", "input_schema": WEATHER["function"]["parameters"]}],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
}


async def events_of(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await client.post(path, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]


async def test_responses_carry_text_and_calls_and_continue(relaying: Relaying) -> None:
    async with between(relaying, TWO_CALLS, TWO_CALLS, Script(["Rain."])) as (server, client), sdk(client) as ai:
        asked: dict[str, Any] = {"model": "outrider", "input": "Weather?", "tools": [FUNCTION]}
        whole = await ai.responses.create(**asked)
        async with ai.responses.stream(**asked, instructions="Be brief.") as stream:
            streamed = await stream.get_final_response()
        for answer in (whole, streamed):
            assert answer.status == "completed" and answer.output_text == "I look it up."
            calls = [item for item in answer.output if item.type == "function_call"]
            assert [(call.call_id, call.name, call.arguments) for call in calls] == CALLS
        outputs = [{"type": "function_call_output", "call_id": name, "output": "rain"} for name, _, _ in CALLS]
        done = await ai.responses.create(model="outrider", previous_response_id=streamed.id, input=outputs)
        assert done.output_text == "Rain."
        roles = [message["role"] for message in server.asked[2]["messages"]]
        assert roles == ["user", "assistant", "tool", "tool"], "instructions hold for one answer"
        assert [call["id"] for call in server.asked[2]["messages"][1]["tool_calls"]] == ["call_0", "call_1"]
        unknown = await client.post("/v1/responses", json={**asked, "previous_response_id": "resp_no"})
        assert unknown.status_code == 400 and unknown.json()["error"]["code"] == "previous_response_not_found"


async def test_what_codex_sends_is_answered_in_its_own_terms(relaying: Relaying) -> None:
    calls = [piece(0, "apply_patch", '{"input":"*** End"}'), piece(1, "mcp__weather", "{}")]
    async with between(relaying, Script(calls, reason="tool_calls"), HALF_A_CALL) as (server, client):
        events = await events_of(client, "/v1/responses", CODEX)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert (items[0]["type"], items[0]["name"], items[0]["input"]) == ("custom_tool_call", "apply_patch", "*** End")
        assert (items[1]["type"], items[1]["name"], items[1]["namespace"]) == ("function_call", "weather", "mcp")
        assert events[-1]["type"] == "response.completed" and events[-1]["response"]["output"] == items
        sent = server.asked[0]
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["weather", "apply_patch", "mcp__weather"]
        assert sent["messages"][0] == {"role": "system", "content": "You are a coding agent.\n\nSandbox: on."}
        assert sent["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"input": "*** Begin"}'
        assert sent["parallel_tool_calls"] is False and "store" not in sent
        broken = await events_of(client, "/v1/responses", CODEX)
        assert broken[-1]["type"] == "response.failed" and broken[-1]["response"]["output"] == []
        assert not [event for event in broken if event["type"] == "response.output_item.done"]


async def test_messages_carry_text_calls_and_results(relaying: Relaying) -> None:
    scripts = (TWO_CALLS, TWO_CALLS, HALF_A_CALL, Script(["Rain.", piece(0, "weather")], reason="length"))
    async with between(relaying, *scripts) as (server, client):
        whole = (await client.post("/v1/messages", json=MESSAGES)).json()
        assert [block["type"] for block in whole["content"]] == ["text", "tool_use", "tool_use"]
        assert whole["stop_reason"] == "tool_use" and whole["content"][2]["input"] == {"city": "Rome"}
        assert server.asked[0]["tool_choice"] == "required" and server.asked[0]["parallel_tool_calls"] is False
        assert server.asked[0]["messages"][0] == {"role": "system", "content": "Be brief."}
        events = await events_of(client, "/v1/messages", MESSAGES)
        assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
        begun = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
        assert begun == ["text", "tool_use", "tool_use"] and events[-2]["delta"]["stop_reason"] == "tool_use"
        broken = await events_of(client, "/v1/messages", MESSAGES)
        assert broken[-1]["type"] == "error" and "tool_use" not in json.dumps(broken)
        results = [{"type": "tool_result", "tool_use_id": name, "content": "rain"} for name, _, _ in CALLS]
        history = [*MESSAGES["messages"], {"role": "assistant", "content": whole["content"]}]
        asked = {**MESSAGES, "messages": [*history, {"role": "user", "content": results}], "tool_choice": None}
        done = (await client.post("/v1/messages", json=asked)).json()
        assert done["content"] == [{"type": "text", "text": "Rain."}] and done["stop_reason"] == "max_tokens"
        assert [message["role"] for message in server.asked[3]["messages"]][1:] == ["user", "assistant", "tool", "tool"]
        counted = (await client.post("/v1/messages/count_tokens", json=asked)).json()["input_tokens"]
        assert 20 < counted < 1000
        refused = await client.post("/v1/messages", json={**MESSAGES, "model": "claude"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (404, "not_found_error")
        for path, body, told in REFUSED:
            answered = (await client.post(path, json=body)).json()
            assert answered["type"] == "error" and told in answered["error"]["message"]


AS_JSON = {**BODY, "response_format": {"type": "json_object"}}
LACKS = [("/v1/chat/completions", AS_JSON, "response_format"), ("/v1/completions", {"prompt": "tar -"}, "prompt")]


async def test_anthropics_api_takes_tools_from_every_api(
    running: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses calls whose results do not follow, and results without tools."""
    calls, question = [*CALLS, ("call_2", "weather", "{}")], {"role": "user", "content": "Weather?"}
    wants = Reply(["I look", " it up.", *CALLS, ("call_2", "weather", "")], reason="tool_use")
    server = MessagesServer([*[wants] * 6, *[Reply(["Rain."])] * 3, Reply(["Now ", *CALLS], cut=True)])
    async with server.listening() as port:
        claude(port, tmp_path / "home", monkeypatch)
        async with running("claude") as (_, client), sdk(client) as ai:
            chat: dict[str, Any] = {"model": "outrider", "messages": [question], "tools": [WEATHER]}
            said = (await ai.chat.completions.create(**chat, temperature=0.5, seed=3)).choices[0].message
            async with ai.chat.completions.stream(**chat) as streamed:
                also = (await streamed.get_final_completion()).choices[0].message
            asked: dict[str, Any] = {"model": "outrider", "input": "Weather?", "tools": [FUNCTION]}
            first = await ai.responses.create(**asked)
            async with ai.responses.stream(**asked) as stream:
                second = await stream.get_final_response()
            content = (await client.post("/v1/messages", json=MESSAGES)).json()["content"]
            events = await events_of(client, "/v1/messages", MESSAGES)
            for one in (said, also):
                made = [(each.id, each.function.name, each.function.arguments) for each in one.tool_calls or ()]
                assert made == calls
            for other in (first, second):
                items = [item for item in other.output if item.type == "function_call"]
                assert [(item.call_id, item.name, item.arguments) for item in items] == calls
            deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
            assert [delta["partial_json"] for delta in deltas if "partial_json" in delta] == [one for *_, one in calls]

            history = [question, said.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})]
            history += [{"role": "tool", "tool_call_id": name, "content": "rain"} for name, _, _ in calls]
            done = await ai.chat.completions.create(model="outrider", messages=history)
            outputs = [{"type": "function_call_output", "call_id": name, "output": "rain"} for name, _, _ in calls]
            more = await ai.responses.create(model="outrider", previous_response_id=first.id, input=outputs)
            given = [{"type": "tool_result", "tool_use_id": name, "content": "rain"} for name, _, _ in calls]
            turns = [question, {"role": "assistant", "content": content}, {"role": "user", "content": given}]
            last = (await client.post("/v1/messages", json={**MESSAGES, "messages": turns})).json()
            assert done.choices[0].message.content == more.output_text == last["content"][0]["text"] == "Rain."
            broken = await events_of(client, "/v1/messages", MESSAGES)
            assert broken[-1]["type"] == "error" and "tool_use" not in json.dumps(broken)
            for path, body, param in LACKS:
                refused = await client.post(path, json=body)
                assert refused.status_code == 400 and refused.json()["error"]["param"] == param
    assert server.refused == ["`temperature` is deprecated for this model."] and len(server.asked) == 10
    tool = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    assert all((one["messages"], one["tools"]) == ([question], [tool]) for one in server.asked[:6])
    assert server.asked[4]["tool_choice"] == MESSAGES["tool_choice"] and server.asked[4]["max_tokens"] == 50
    assert [one["messages"] for one in server.asked[6:9]] == [turns] * 3
    assert server.asked[6]["tool_choice"] == {"type": "none"}, "only the tools of the calls are named"


@pytest.mark.parametrize(
    ("written", "text", "reason", "stop"),
    [
        # What may begin a stop string is held back, and sent at the end.
        (["Rain.", "\n"], "Rain.\n", "end_turn", None),
        (["Rain. T", "hus."], "Rain. ", "stop_sequence", "Thus"),
    ],
)
async def test_a_stop_string_ends_an_answer_with_tools_and_is_named(
    relaying: Relaying, written: list[str], text: str, reason: str, stop: str | None
) -> None:
    asked = {**MESSAGES, "stop_sequences": ["\n\n", "Thus"]}
    async with between(relaying, *[Script(written)] * 2) as (_, client):
        whole = (await client.post("/v1/messages", json=asked)).json()
        assert whole["content"][0]["text"] == text and (whole["stop_reason"], whole["stop_sequence"]) == (reason, stop)
        events = await events_of(client, "/v1/messages", asked)
        assert "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta") == text
        assert events[-2]["delta"] == {"stop_reason": reason, "stop_sequence": stop}


NAMES = [
    "type", "role", "content", "name", "tools", "tool_choice", "input", "messages", "function_call", "custom", "user",
    "function_call_output", "namespace", "tool_use", "tool_result", "text", "assistant", "image", "input_image",
    "image_url", "source", "id", "call_id", "output", "arguments", "input_schema", "system", "instructions",
    "reasoning", "format", "effort", "prompt", "auto", "tool", "function",
]  # fmt: skip
REFUSED = [
    ("/v1/messages", {"messages": "hi"}, "has the wrong type"),
    ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}, "lacks 'name'"),
    ("/v1/messages/batches", {}, "there is no such path. There are /v1/chat/completions, "),
]
"""Paths and bodies that are not answered -> what the error says, in the shape of Anthropic's API."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8))
def test_whatever_is_sent_is_read_or_refused(sent: dict[str, Any]) -> None:
    body = json.dumps(sent).encode()
    for read in (lambda: read_responses(body, Conversations()), lambda: read_messages(body), lambda: read_text(body)):
        with contextlib.suppress(GatewayRefused):
            read()
