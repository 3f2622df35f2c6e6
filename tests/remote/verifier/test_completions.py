"""Chat completions: their text in a real process, and their limits in this one."""

import asyncio
import gzip
import json
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
import torch
from starlette.applications import Starlette

from models.engines.engine import Engine, slab_rows
from models.engines.target import Target
from models.engines.torch_engine import TorchEngine
from remote import VerifierClient
from remote.openai.lenient_json import BOM
from remote.protocol import Error, Progress, Sampling, decode, unpack_tokens
from remote.verifier.completions.completions import KEPT
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.holders import Tokens
from remote.verifier.http import create_app
from remote.verifier.observability.request_log import REQUESTS
from remote.verifier.options import ServeOptions
from remote.verifier.serve import card
from remote.verifier.sessions.table import HOST_BYTES
from tests.app.drafting.test_prompt import LEAVES_OUT, REFUSES, with_template
from tests.remote.verifier.test_http import PATIENT, TOKEN, Gate, connected, counter, reached, until
from tests.support.serving import VerifierProcess
from tests.support.tiny_text import tiny_text

QUESTION = {"role": "user", "content": "how do I unpack a tar archive?"}
TEXT = tiny_text()
GREEDY = Sampling()
CHAT = "/v1/chat/completions"


@pytest.fixture
async def client(verifier: VerifierProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=verifier.url, timeout=PATIENT, trust_env=False, verify=False) as client:
        yield client


def app(loaded: Target, engine: Engine, own: OwnDrafter | None = None, **options: Any) -> Starlette:
    return create_app(engine, card(loaded, engine), ServeOptions(**options), text=loaded.text, own=own)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream without words says very soon that it is still there."""
    monkeypatch.setattr("remote.verifier.completions.completions.QUIET_SECONDS", 0.05)


async def own_text(verifier: VerifierProcess, count: int, sampling: Sampling = GREEDY) -> str:
    """What the target says by itself, token by token, to a device."""
    async with VerifierClient(verifier.url) as device:
        stream = await device.session().stream(
            TEXT.render([("user", QUESTION["content"])]), sampling, most=count, memory_from=None, deadline=PATIENT,
            silence=PATIENT, draft=False,
        )  # fmt: skip
        tokens = [one async for frame in stream if isinstance(frame, Progress) for one in unpack_tokens(frame.tokens)]
    assert len(tokens) == count
    return TEXT.decode(tokens)


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [QUESTION], "temperature": 0, "max_tokens": 40, **fields}


async def whole(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await client.post(CHAT, json=body(**fields))
    assert response.status_code == 200, response.text
    return response.json()


async def streamed(client: httpx.AsyncClient, **fields: Any) -> list[dict[str, Any]]:
    """The events before [DONE]."""
    response = await client.post(CHAT, json=body(stream=True, **fields))
    assert response.headers["content-type"].startswith("text/event-stream")
    # A busy machine may be slow enough for a sign of life, which is a comment.
    events = [event.removeprefix("data: ") for event in response.text.split("\n\n") if not event.startswith(":")]
    assert events[-2:] == ["[DONE]", ""]
    return [json.loads(event) for event in events[:-2]]


def said(events: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])


# ---- text ------------------------------------------------------------------------------------------------------------


async def test_an_answer_is_the_targets_own_streamed_or_not(
    client: httpx.AsyncClient, verifier: VerifierProcess
) -> None:
    expected = await own_text(verifier, 40)
    answer, message = await whole(client), {"role": "assistant", "content": expected}
    assert answer["choices"] == [{"index": 0, "message": message, "finish_reason": "length"}]
    assert answer["object"] == "chat.completion" and answer["model"] == "target"
    prompt = len(TEXT.render([("user", QUESTION["content"])]))
    assert answer["usage"] == {"prompt_tokens": prompt, "completion_tokens": 40, "total_tokens": prompt + 40}

    events = await streamed(client, stream_options={"include_usage": True}, unheard_of=1)
    assert said(events) == expected
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert {event["id"] for event in events} == {events[0]["id"]} != {answer["id"]}
    assert [event["choices"][0]["finish_reason"] for event in events[:-1]] == [None] * (len(events) - 2) + ["length"]
    assert events[-1]["choices"] == [] and events[-1]["usage"] == answer["usage"]
    assert [event["usage"] for event in events[:-1]] == [None] * (len(events) - 1)


async def test_a_seed_gives_the_tokens_that_a_device_gets(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    sampling = Sampling(temperature=0.7, top_p=0.95, top_k=40, seed=7)
    expected = await own_text(verifier, 20, sampling)
    fields = {"temperature": 0.7, "top_p": 0.95, "top_k": 40, "seed": 7, "max_completion_tokens": 20}
    assert said(await streamed(client, **fields)) == expected
    assert (await whole(client, **fields))["choices"][0]["message"]["content"] == expected
    assert said(await streamed(client, **{**fields, "seed": 8})) != expected


async def test_stop_strings_end_it_and_are_not_shown(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    expected = await own_text(verifier, 40)
    stop = expected[9:14]
    for events in (await streamed(client, stop=stop), await streamed(client, stop=["\x00never", stop])):
        assert said(events) == expected.partition(stop)[0]
        assert events[-1]["choices"][0]["finish_reason"] == "stop"
    answer = (await whole(client, stop=[stop]))["choices"][0]
    assert (answer["message"]["content"], answer["finish_reason"]) == (expected.partition(stop)[0], "stop")


async def test_an_answer_that_was_cut_is_gone_on_with(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    expected = await own_text(verifier, 40)
    for at in (0, 11, 25):
        messages = [QUESTION, {"role": "assistant", "content": expected[:at]}]
        continued = await whole(client, messages=messages, continue_final_message=True, add_generation_prompt=False)
        found = continued["choices"][0]["message"]["content"]
        assert found[: len(expected) - at] == expected[at:]


async def test_the_templates_roles_and_parts_of_text_are_read(client: httpx.AsyncClient) -> None:
    plain = await whole(client, messages=[{"role": "system", "content": "Be brief."}, QUESTION])
    parts = [{"type": "text", "text": QUESTION["content"]}]
    turns = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    same = await whole(client, messages=turns)
    assert plain["choices"] == same["choices"] and plain["usage"] == same["usage"]


@pytest.mark.parametrize("template", [REFUSES, LEAVES_OUT], ids=["refuses", "leaves out"])
async def test_a_template_without_a_system_role_gets_it_in_the_first_question(
    loaded: Target, engine: Engine, template: str
) -> None:
    made = create_app(engine, card(loaded, engine), ServeOptions(), text=with_template(template))
    first = {"role": "user", "content": f"Be brief.\n\n{QUESTION['content']}"}
    begun, goes_on = {"role": "assistant", "content": "Use"}, {"continue_final_message": True}
    async with connected(made) as client:
        for answer, fields in (([], {}), ([begun], goes_on)):
            asked = [{"role": "system", "content": "Be brief."}, QUESTION, *answer]
            apart = await whole(client, messages=asked, max_tokens=8, **fields)
            merged = await whole(client, messages=[first, *answer], max_tokens=8, **fields)
            assert apart["choices"] == merged["choices"] and apart["usage"] == merged["usage"]


EARLIER: dict[str, dict[str, Any]] = {
    "as OpenAI's Responses have it": {"content": [{"type": "output_text", "text": "Use tar.", "annotations": []}]},
    "a refusal as a part": {"content": [{"type": "refusal", "refusal": "Use tar."}]},
    "a refusal beside it": {"content": None, "refusal": "Use tar."},
    "thoughts before it": {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Use tar."}]},
    "thoughts in parts": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "reasoning", "summary": [], "content": None},
            {"type": "text", "text": "Use tar."},
        ]
    },
    "empty parts": {"content": [{"type": "text", "text": ""}, {"type": "text", "text": None}, "Use tar."]},
    "one part": {"content": {"type": "text", "text": "Use tar."}},
    "all fields of OpenAI's client": {
        "content": "Use tar.", "refusal": None, "annotations": [], "audio": None, "function_call": None,
        "tool_calls": None, "reasoning": "Hm.", "reasoning_content": "Hm.", "reasoning_details": [{"text": "Hm."}],
    },
}  # fmt: skip


async def test_an_earlier_answer_is_read_as_other_servers_gave_it(client: httpx.AsyncClient) -> None:
    async def after(answer: dict[str, Any]) -> tuple[object, object]:
        turns = [QUESTION, {"role": "assistant", **answer}, {"role": "user", "content": "and a zip?"}]
        found = await whole(client, messages=turns, max_tokens=8)
        return found["choices"], found["usage"]

    plain = await after({"content": "Use tar."})
    assert [name for name, answer in EARLIER.items() if await after(answer) != plain] == []


async def test_a_stop_token_ends_it_with_nothing_of_its_text(loaded: Target, engine: Engine) -> None:
    stops = tuple(range(card(loaded, engine).vocabulary))  # Whatever comes is the end.
    made = create_app(engine, msgspec.structs.replace(card(loaded, engine), stop_tokens=stops), text=loaded.text)
    async with connected(made) as client:
        answer = await whole(client)
    assert answer["choices"][0]["message"]["content"] == "" and answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 1


# ---- models and errors -----------------------------------------------------------------------------------------------


async def test_the_model_is_listed_and_checked(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list"
    [model] = listed["data"]
    assert (model["id"], model["owned_by"], model["max_model_len"]) == ("target", "outrider", 1024)
    assert (await client.get("/v1/models/target")).json() == model
    assert (await client.get("/v1/models/org/other")).status_code == 404
    assert (await whole(client, model="target", max_tokens=1))["model"] == "target"


LONG = {"role": "user", "content": "tar " * 2000}
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}


def nested(levels: int) -> dict[str, Any]:
    """A format whose schema is this many levels deep."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return formed(schema)


def formed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no messages": ({"messages": []}, "messages", "messages"),
    "an unknown role": ({"messages": [{"role": "bot", "content": "x"}]}, "messages", "'bot'"),
    "a message of nobody": ({"messages": [{"content": "x"}]}, "messages", "role"),
    "a part that is no text": (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages", "'input_audio'",
    ),
    "a picture": ({"messages": [PICTURE]}, "messages", "'image_url'"),
    "a temperature below 0": ({"temperature": -1}, "temperature", "temperature"),
    "too many likeliest": ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "20"),
    "likeliest of nothing": ({"top_logprobs": 2}, "logprobs", "logprobs: true"),
    "a stop string too long": ({"stop": ["a", "b" * 257]}, "stop", "length <= 256"),
    "a bias for no token": ({"logit_bias": {"tar": 1}}, "logit_bias", "ids are numbers"),
    "a bias beyond all tokens": ({"logit_bias": {"999999": 1}}, "logit_bias", "below"),
    "a bias beyond all numbers": ({"logit_bias": {"9" * 5000: 1}}, "logit_bias", "below"),
    "a format of another kind": ({"response_format": {"type": "yaml"}}, "response_format", "json_object"),
    "a format without its schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format", "needs a schema",
    ),
    "a schema that is none": ({"response_format": formed({"type": "thing"})}, "response_format", "thing"),
    "a schema too deep": ({"response_format": nested(130)}, "response_format", "Make it flatter"),
    "a schema far too deep": ({"response_format": nested(400)}, "response_format", "Make it flatter"),
    "a schema that is itself": ({"response_format": formed({"$ref": "#"})}, "response_format", "no text fits it"),
    "a pattern that cannot be read": (
        {"response_format": formed({"type": "string", "pattern": "^(?=a)b"})}, "response_format",
        "regex parse error: look-around, including look-ahead",
    ),
    "a constant too long": ({"response_format": formed({"const": "x" * 4001})}, "response_format", "4000 characters"),
    "a name too long": (
        {"response_format": formed({"properties": {"x" * 4001: {}}})}, "response_format", "4000 characters",
    ),
    "a pattern that spells too much": (
        {"response_format": formed({"type": "string", "pattern": "^x{17000}$"})}, "response_format", "4000 characters",
    ),
    "nothing to go on with": ({"continue_final_message": True}, "continue_final_message", "assistant"),
    "both at once": (
        {"continue_final_message": True, "add_generation_prompt": True}, "add_generation_prompt", "begins a new answer",
    ),
}  # fmt: skip
UNSUPPORTED: dict[str, tuple[dict[str, Any], str, str]] = {
    "what a tool gave": ({"messages": [{"role": "tool", "content": "x"}]}, "messages", "new conversation"),
    "tools": ({"tools": [TOOL]}, "tools", "tool_choice: none"),
    "a tool that must be called": ({"tool_choice": "required"}, "tool_choice", "tools"),
    "sound": ({"modalities": ["audio"]}, "modalities", "cannot be used"),
    "another server's sampler": ({"min_p": 0.1}, "min_p", "cannot be used"),
    "another server's grammar": ({"ebnf": "root ::= x"}, "ebnf", "Leave it out."),
    "the best of several": ({"best_of": 2}, "best_of", "plain text"),
    "an answer without its beginning": ({"add_generation_prompt": False}, "add_generation_prompt", "goes on"),
    "a format for an answer that has begun": (
        {"messages": [QUESTION, {"role": "assistant", "content": "{"}], "continue_final_message": True,
         "response_format": {"type": "json_object"}},
        "response_format", "has begun",
    ),
}  # fmt: skip


async def refused(client: httpx.AsyncClient, sent: str, status: int, code: str, param: str | None, words: str) -> None:
    before = await counter(client, "sessions")
    response = await client.post(CHAT, content=sent)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (status, code, param)
    assert words in error["message"] and error["type"] == "invalid_request_error"
    assert await counter(client, "sessions") <= before, "fewer, where those of others had to make room"


@pytest.mark.parametrize("name", [*WRONG, *UNSUPPORTED])
async def test_a_field_that_cannot_be_used_is_named(client: httpx.AsyncClient, name: str) -> None:
    fields, param, words = (WRONG | UNSUPPORTED)[name]
    code = "bad_request" if name in WRONG else "unsupported_parameter"
    await refused(client, json.dumps(body(**fields)), 400, code, param, words)


async def test_other_errors_have_openais_shape_too(client: httpx.AsyncClient) -> None:
    await refused(client, "{", 400, "bad_request", None, "cannot be read")
    await refused(client, json.dumps(body(model="gpt-5")), 404, "model_not_found", "model", "'gpt-5'")
    await refused(client, json.dumps(body(messages=[LONG])), 400, "context_length_exceeded", None, "no room")
    large = json.dumps(body(messages=[{"role": "user", "content": "x" * 99_999}]))
    await refused(client, large, 413, "too_large", None, "bytes")


CHANGES_NOTHING = {"suffix": "", "best_of": 1, "echo": False, "prompt": "", "ebnf": "", "json_schema": None}
CHANGES_NOTHING |= {"bad_words": [], "min_p": 0, "logprobs": False, "top_logprobs": 0}
CHANGES_NOTHING |= {"tool_choice": "none", "tools": [TOOL]}


async def test_what_changes_nothing_is_taken(client: httpx.AsyncClient) -> None:
    plain = await whole(client, temperature=0)
    assert (await whole(client, temperature=0, **CHANGES_NOTHING))["choices"] == plain["choices"]
    text = BOM + b'{"prompt": "%s", "temperature": 0, "max_tokens": -1}' % (b"tar -" * 190)
    unlimited = (await client.post("/v1/completions", content=text)).json()
    assert unlimited["usage"]["completion_tokens"] > 16, "what plain text has without a limit"


async def test_a_compressed_body_is_refused_by_its_name(client: httpx.AsyncClient) -> None:
    refused = await client.post(CHAT, content=gzip.compress(b"{}"), headers={"content-encoding": "gzip"})
    assert refused.status_code == 415
    assert "not supported (gzip)" in refused.json()["error"]["message"]
    named = await client.post(CHAT, json=body(max_tokens=1), headers={"content-encoding": "identity"})
    assert named.status_code == 200


async def test_a_slip_in_the_address_is_told_the_right_path(client: httpx.AsyncClient) -> None:
    for path in ("/chat/completions", "//v1/chat/completions", "/v1/", "/", "/models", "/v1/v1/models"):
        refused = await client.post(f"{client.base_url}".rstrip("/") + path)
        assert (refused.status_code, refused.headers["content-type"]) == (404, "application/json"), path
        error = refused.json()["error"]
        assert error["code"] == "not_found" and "below /v1: /v1/chat/completions" in error["message"]
    for own in ("/v1/card/x", "/v1/v1/card", "/v1/sessions"):
        assert decode((await client.get(own)).content, Error).code == "not_found"


async def test_paths_methods_and_tokens_too(loaded: Target, engine: Engine) -> None:
    async with connected(app(loaded, engine, tokens=Tokens.one(TOKEN))) as client:
        for call in (client.get("/v1/models"), client.post(CHAT, json=body())):
            refused = await call
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
            assert refused.headers["www-authenticate"] == "Bearer"
        client.headers["authorization"] = f"Bearer {TOKEN}"
        method = await client.get(CHAT)
        assert (method.status_code, method.headers["allow"]) == (405, "POST") and "error" in method.json()
        own = await client.post("/v1/card")
        assert (own.status_code, decode(own.content, Error).code) == (405, "bad_request")


async def test_a_failing_target_is_an_error_before_or_amid_an_answer(loaded: Target, engine: Engine) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("no memory left")

    page = "https://chat.example"
    async with connected(app(loaded, engine, allow_origin=(page,)), Origin=page) as client:
        hook = engine.model.register_forward_pre_hook(broken)
        try:
            failed = await client.post(CHAT, json=body(stream=True))
        finally:
            hook.remove()
        assert (failed.status_code, failed.json()["error"]["type"]) == (500, "server_error")
        assert failed.headers["access-control-allow-origin"] == "https://chat.example", "a page could not read why"
        assert await counter(client, "sessions") == 0
        assert (await whole(client))["usage"]["completion_tokens"] == 40


# ---- waits -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
async def test_a_stream_without_words_says_that_it_is_still_there(loaded: Target, engine: Engine) -> None:
    async with reached(app(loaded, engine)) as client:
        expected = await streamed(client)
        async with Gate(engine.model) as held, client.stream("POST", CHAT, json=body(stream=True)) as response:
            assert response.status_code == 200
            lines = response.aiter_lines()
            assert [await anext(lines) for _ in range(4)] == [": still here", "", ": still here", ""]
            held.allow()
            data = [line.removeprefix("data: ") async for line in lines if line.startswith("data: ")]
    assert data.pop() == "[DONE]"
    assert said([json.loads(line) for line in data]) == said(expected) != ""


@pytest.mark.usefixtures("impatient")
async def test_what_fails_after_that_is_an_event(loaded: Target, engine: Engine) -> None:
    def broken(_: object, __: object, logits: torch.Tensor) -> torch.Tensor:
        return torch.full_like(logits, torch.nan)

    async with reached(app(loaded, engine)) as client, Gate(engine.model) as held:
        async with client.stream("POST", CHAT, json=body(stream=True)) as response:
            lines = response.aiter_lines()
            assert await anext(lines) == ": still here"
            hook = engine.model.get_output_embeddings().register_forward_hook(broken)
            try:
                held.allow()
                events = [line.removeprefix("data: ") async for line in lines if line.startswith("data: ")]
            finally:
                hook.remove()
        assert [json.loads(one)["error"]["type"] for one in events] == ["server_error"]
        await until(client, "sessions", 0)


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_hangs_up_before_its_first_words_stops_its_answer(loaded: Target, engine: Engine) -> None:
    async with reached(app(loaded, engine, max_sessions=2)) as client, Gate(engine.model) as held:
        written = asyncio.create_task(whole(client))
        await held.entered()
        for _ in range(2):  # The answer before it is being written, so it waits in line.
            async with client.stream("POST", CHAT, json=body(stream=True, max_tokens=900)) as response:
                assert await anext(response.aiter_lines()) == ": still here"
        held.allow()
        await written
        await until(client, "waiting_rounds", 0)
        assert (await whole(client))["usage"]["completion_tokens"] == 40
        assert await counter(client, "new_tokens_total") < 200


# ---- bounds ----------------------------------------------------------------------------------------------------------


async def test_the_newest_answers_are_kept_for_those_that_begin_like_them(loaded: Target, engine: Engine) -> None:
    async with reached(app(loaded, engine)) as client:
        first = await whole(client)
        assert await counter(client, "shared_tokens_total") == 0
        turns = [QUESTION, first["choices"][0]["message"], {"role": "user", "content": "and then?"}]
        again = await whole(client, messages=turns)
        prompt = first["usage"]["prompt_tokens"]
        assert prompt <= await counter(client, "shared_tokens_total") < again["usage"]["prompt_tokens"]
        others = [{"role": "user", "content": f"{number} how do I list files?"} for number in range(KEPT + 3)]
        await asyncio.gather(*(whole(client, messages=[other], max_tokens=2) for other in others))
        assert await counter(client, "sessions") == KEPT
        assert (await whole(client, messages=turns))["choices"] == again["choices"]


async def test_nobodys_rows_are_shared_with_somebody_else(loaded: Target, engine: Engine) -> None:
    holders = app(loaded, engine, tokens=Tokens([("anna", "a" * 40), ("ben", "b" * 40)]))
    async with reached(holders) as client:
        for token, shared in (("a", False), ("b", False), ("a", True)):
            client.headers["authorization"] = f"Bearer {token * 40}"
            before = await counter(client, "shared_tokens_total")
            await whole(client, max_tokens=2)
            assert (await counter(client, "shared_tokens_total") > before) is shared


@pytest.mark.parametrize(
    ("stream", "tokens"),
    [(False, 8), (False, 500), (True, 500)],
    ids=["at its first words", "while its prompt is read", "before its stream"],
)
async def test_a_client_that_hangs_up_stops_its_answer_and_is_logged_as_such(
    loaded: Target, engine: Engine, caplog: pytest.LogCaptureFixture, stream: bool, tokens: int
) -> None:
    words = {"role": "user", "content": "tar " * (tokens // 4)}
    content = json.dumps(body(messages=[words], stream=stream, max_tokens=900)).encode()
    caplog.set_level(logging.INFO, REQUESTS)
    async with reached(app(loaded, TorchEngine(engine.model, chunk=16))) as other, Gate(engine.model) as held:
        with socket.create_connection((other.base_url.host, other.base_url.port or 0)) as client:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
            client.sendall(head.encode() + content)
            await held.entered()
        await asyncio.sleep(0.05)  # The server sees the end of the connection before it goes on.
        held.allow()
        async with asyncio.timeout(PATIENT):
            while not (logged := [one.fields for one in caplog.records if one.name == REQUESTS]):  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
        assert await counter(other, f'http_requests_total{{route="{CHAT}",status="499"}}') == 1
        assert await counter(other, "new_tokens_total") < 100
        await whole(other, messages=[words], max_tokens=1)
        assert await counter(other, "shared_tokens_total") >= 16, "what was read is not read again"
    assert [(one["route"], one["status"], one["whole"]) for one in logged] == [(CHAT, 499, False)]


async def test_a_prompt_is_counted_once_however_many_answers_it_gets(loaded: Target, engine: Engine) -> None:
    async with connected(app(loaded, engine, metrics_by_holder=True)) as client:
        asked = {"prompt": ["unpack a tar", "list all"], "n": 3, "max_tokens": 2}
        used = (await client.post("/v1/completions", json=asked)).json()["usage"]
        for name in ("prompt_tokens_total", 'holder_prompt_tokens_total{holder="everyone"}'):
            assert await counter(client, name) == used["prompt_tokens"]


def tight(loaded: Target, engine: Engine, **options: Any) -> Starlette:
    """A server with memory for one answer at a time."""
    rows = slab_rows(len(TEXT.render([("user", QUESTION["content"])])) + 40)
    bytes_of_one = rows * (engine.bytes_per_token + HOST_BYTES)
    served = ServeOptions(**options)
    return create_app(engine, card(loaded, engine), served, text=loaded.text, max_bytes=bytes_of_one * 3 // 2)


async def test_the_answers_of_one_request_wait_for_each_other(loaded: Target, engine: Engine) -> None:
    async with reached(tight(loaded, engine, max_sessions=4, max_waiting=1)) as client:
        expected = [choice["message"]["content"] for choice in (await whole(client, n=4))["choices"]]
        events = await streamed(client, n=4)
        for index, content in enumerate(expected):
            assert said([one for one in events if one["choices"][0]["index"] == index]) == content
