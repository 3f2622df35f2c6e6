"""The gateway's routes with a real server behind it: answers, models, errors, strangers."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.config import Settings
from app.gateway.call import read_call
from app.remotes.peer import Endpoint
from app.reply.request import CONTEXT_TOKENS
from drafter.runtime import Drafter
from tests.app.gateway.conftest import Opened, own_text, settled
from tests.app.gateway.test_tools import sdk
from tests.support.conversing import ask as ask_outrider
from tests.support.conversing import assistant, hear
from tests.support.gateways import CHAT, GatewayProcess, stream_to_end
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

QUESTION: Any = {"role": "user", "content": "how do I unpack a tar archive?"}
BODY: dict[str, Any] = {"messages": [QUESTION], "temperature": 0, "max_tokens": 40}
TOKEN = "0123456789abcdef-gateway"


async def ask(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answered = await client.post(CHAT, json={**BODY, **fields})
    assert answered.status_code == 200, answered.text
    told: dict[str, Any] = answered.json()
    return told


def content(told: dict[str, Any]) -> str:
    text: str = told["choices"][0]["message"]["content"]
    return text


def direct_to(verifier: VerifierProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=verifier.url, timeout=PATIENCE_SECONDS, trust_env=False)


async def test_a_whole_answer_is_the_models_own(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    answered = await client.post(CHAT, json=BODY)
    async with direct_to(verifier) as direct:
        server = (await direct.post(CHAT, json=BODY)).json()
    told, own = answered.json(), content(server)
    assert content(told) == own and told["choices"][0]["finish_reason"] == "length"
    assert (told["object"], told["model"]) == ("chat.completion", "target")
    assert told["usage"]["completion_tokens"] == 40
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert told["usage"][name] == server["usage"][name], "they are counted as the server counts them"
    place = answered.headers["x-outrider-answer"]
    assert answered.headers["x-outrider-source"] == "verified" and place.endswith(told["id"])
    spans = [{"start": 0, "end": len(own), "source": "verified"}]
    marks = {"source": "verified", "spans": spans, "checked": len(own), "state": "checked", "answer": place}
    assert told["outrider"] == marks
    report = (await client.get(place)).json()
    assert (report["state"], report["text"], report["checked_text"]) == ("checked", own, own)


async def test_a_stream_has_the_same_text_and_openais_end(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    read = await stream_to_end(client, {**BODY, "stream_options": {"include_usage": True}})
    assert read.text == await own_text(verifier, [QUESTION], 40) and read.ended and read.finish == "length"
    assert read.chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert set(read.sources) == {"verified"} and read.marks["state"] == "checked"
    assert read.chunks[-1]["choices"] == [] and read.chunks[-1]["usage"]["completion_tokens"] == 40
    assert all(chunk["usage"] is None for chunk in read.chunks[:-1])
    assert len({chunk["id"] for chunk in read.chunks}) == 1


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


SYSTEM, ANSWER = said("system", "Be brief."), said("assistant", "Use ls.")
BRIEF, GO_ON = said("user", "Be brief."), said("user", "Continue.")
PARTS = [{"type": "text", "text": "how do I"}, {"type": "text", "text": "list files?"}]
TEXT, REFUSAL = {"type": "output_text", "text": "Use"}, {"type": "refusal", "refusal": "ls."}
EARLIER = [{"type": "thinking", "thinking": "Hm."}, TEXT, REFUSAL]
ASKED_AS: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    (
        [said("developer", "Be brief."), said("user", PARTS), ANSWER, said("user", "and"), said("user", "others?")],
        [SYSTEM, said("user", "how do I\nlist files?"), ANSWER, said("user", "and\n\nothers?")],
    ),
    ([QUESTION, said("assistant", EARLIER) | {"tool_calls": None}], [QUESTION, said("assistant", "Use\nls."), GO_ON]),
    ([QUESTION, SYSTEM], [SYSTEM, QUESTION]),
    ([SYSTEM], [BRIEF]),
    ([QUESTION, ANSWER, SYSTEM], [QUESTION, ANSWER, BRIEF]),
    ([QUESTION, said("assistant", "")], [QUESTION]),
    ([QUESTION, said("assistant", None), SYSTEM], [SYSTEM, QUESTION]),
]


async def test_any_order_of_messages_is_one_conversation(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    for messages, asked in ASKED_AS:
        turns = read_call(json.dumps({"messages": messages}).encode()).turns
        assert [said(role, text) for role, text in turns] == asked
    messages, asked = ASKED_AS[0]
    assert content(await ask(client, messages=messages)) == await own_text(verifier, asked, 40)


async def test_the_next_question_goes_on_in_the_session(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    async def sessions() -> str:
        lines = (await direct.get("/metrics")).text.splitlines()
        return next(line for line in lines if line.startswith("outrider_sessions "))

    first = content(await ask(client))
    async with direct_to(verifier) as direct:
        before = await sessions()
        messages = [QUESTION, said("assistant", first), said("user", "and a zip file?")]
        second = content(await ask(client, messages=messages))
        assert await sessions() == before, "the session at the server is the same"
    assert second == await own_text(verifier, messages, 40)
    other = [QUESTION, said("assistant", "No."), said("user", "and a zip file?")]
    assert content(await ask(client, messages=other)) == await own_text(verifier, other, 40)


async def test_a_stop_string_ends_the_answer_before_it(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    own = await own_text(verifier, [QUESTION], 40)
    stop = own[20:24]
    told = await ask(client, stop=["\x00never", stop])
    assert content(told) == own[: own.index(stop)] and told["choices"][0]["finish_reason"] == "stop"
    read = await stream_to_end(client, {**BODY, "stop": stop})
    assert read.text == content(told) and read.finish == "stop"
    async with direct_to(verifier) as direct:
        counted = (await direct.post(CHAT, json={**BODY, "stop": stop})).json()["usage"]["completion_tokens"]
    assert told["usage"]["completion_tokens"] == counted < 40, "what came after the stop string does not count"


async def test_the_models_are_the_gateway_and_the_servers(client: httpx.AsyncClient, verifier: VerifierProcess) -> None:
    listed = (await client.get("/v1/models")).json()
    assert listed["object"] == "list" and [model["id"] for model in listed["data"]] == ["outrider", "target"]
    assert (await client.get("/v1/models/target")).json() == listed["data"][1]
    async with direct_to(verifier) as direct:
        read = (await direct.get("/v1/models")).json()["data"][0]["max_model_len"]
    assert {model["max_model_len"] for model in listed["data"]} == {min(read, CONTEXT_TOKENS)}
    for name in ("outrider", "target", None):
        assert content(await ask(client, model=name))
    for answered in (await client.get("/v1/models/gpt"), await client.post(CHAT, json={**BODY, "model": "gpt"})):
        assert answered.status_code == 404
        assert answered.json()["error"]["code"] == "model_not_found" and answered.json()["error"]["param"] == "model"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"functions": [{"name": "f"}], "function_call": "auto"}, "functions"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"n": 2}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"logit_bias": {"1": 5}}, "logit_bias"),
    ({"presence_penalty": 0.5}, "presence_penalty"),
    ({"temperature": 2.5}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"stop": ["a"] * 17}, "stop"),
    ({"messages": []}, "messages"),
    ({"messages": [said("tool", "4")]}, "messages"),
    ({"messages": [said("assistant", "")]}, "messages"),
    ({"messages": [said("user", [{"type": "image_url", "image_url": {"url": "data:"}}])]}, "messages"),
    ({"messages": [QUESTION, {"role": "assistant", "tool_calls": [{}]}, QUESTION]}, "messages"),
]


async def test_what_cannot_be_done_is_refused_by_name(client: httpx.AsyncClient) -> None:
    for fields, parameter in REFUSED:
        answered = await client.post(CHAT, json={**BODY, **fields})
        error = answered.json()["error"]
        assert (answered.status_code, error["type"]) == (400, "invalid_request_error"), fields
        assert error["param"] == parameter and error["message"].endswith(".")


async def test_what_changes_nothing_is_taken(client: httpx.AsyncClient) -> None:
    harmless = {
        "n": 1, "tools": [{}], "tool_choice": "none", "response_format": {"type": "text"}, "logprobs": False,
        "presence_penalty": 0, "user": "me", "store": False, "metadata": {}, "logit_bias": {}, "tomorrow": True,
        "reasoning_effort": "high", "verbosity": "low",
    }  # fmt: skip
    assert content(await ask(client, **harmless)) == content(await ask(client))


async def test_every_error_has_openai_s_shape(client: httpx.AsyncClient) -> None:
    too_large = json.dumps({"messages": [said("user", "x" * (17 << 20))]})
    for answered, status in (
        (await client.get("/nowhere"), 404),
        (await client.get(CHAT), 405),
        (await client.get("/v1/outrider/answers/none"), 404),
        (await client.post(CHAT, content="[]"), 400),
        (await client.post(CHAT, content=b"\xff"), 400),
        (await client.post(CHAT, content=b'{"messages":' + b"[" * 100_000), 400),
        (await client.post(CHAT, content=too_large), 413),
        (await client.post(CHAT, content=b"\x1f\x8b", headers={"content-encoding": "gzip"}), 415),
    ):
        assert answered.status_code == status, answered.text
        assert set(answered.json()["error"]) == {"message", "type", "param", "code"}
    long = await client.post(CHAT, json={"messages": [said("user", "word " * 5000)]})
    assert long.status_code == 400 and long.json()["error"]["code"] == "context_length_exceeded"
    assert (await client.get("/healthz")).text == "ok\n"


async def test_what_is_surely_too_long_is_refused_before_it_is_read(client: httpx.AsyncClient) -> None:
    """It takes 10 s and more to render and to count."""
    letters = [said("user" if at % 2 == 0 else "assistant", "a") for at in range(4001)]
    for messages in (letters, [said("user", "word " * 780_000)]):
        refused = await client.post(CHAT, json={"messages": messages})
        error = refused.json()["error"]
        assert error["code"] == "context_length_exceeded" and error["param"] == "messages"
        assert refused.elapsed.total_seconds() < 5
        assert "oldest messages" in error["message"] and "pages" in error["message"]


async def test_foreign_names_and_web_pages_are_refused_except_those_that_may_ask(client: httpx.AsyncClient) -> None:
    page = await client.post(CHAT, json=BODY, headers={"Origin": "https://example.org"})
    assert page.status_code == 401 and "web page" in page.json()["error"]["message"]
    for path in ("/v1/models", "/v1/outrider/answers/x"):
        named = await client.get(path, headers={"Host": "evil.example"})
        assert named.status_code == 421 and "error" in named.json()
    assert (await client.get("/v1/models", headers={"Host": "localhost:8788"})).status_code == 200
    await read_by_a_page(client)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    (tmp_path / "tokens").write_text(TOKEN)
    return tmp_path / "tokens"


SHOWN = {"Authorization": f"Bearer {TOKEN}"}


async def read_by_a_page(client: httpx.AsyncClient) -> None:
    """A web page reads answers, streams and errors."""
    page, shown = {"Origin": "app://obsidian.md"}, {"Origin": "app://obsidian.md", **SHOWN}
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization", **page}
    for answered, status in (
        (await client.options(CHAT, headers=asks), 200),
        (await client.post(CHAT, json=BODY, headers=shown), 200),
        (await client.post(CHAT, json={**BODY, "stream": True}, headers=shown), 200),
        (await client.post(CHAT, json={**BODY, "n": 2}, headers=shown), 400),
        (await client.get("/nowhere", headers=shown), 404),
    ):
        assert answered.status_code == status, answered.text
        assert answered.headers["access-control-allow-origin"] in (page["Origin"], "*")


async def test_with_a_token_file_only_its_tokens_open(running: Opened, tokens: Path) -> None:
    async with running(None, "--token-file", str(tokens)) as (_, client):
        wrong = await client.post(CHAT, json=BODY, headers={"Authorization": "Bearer wrong"})
        assert wrong.status_code == 401 and wrong.json()["error"]["code"] == "invalid_api_key"
        assert (await client.get("/v1/models", headers={"x-api-key": TOKEN})).status_code == 200, "Anthropic's clients"
        right = await client.post(CHAT, json=BODY, headers=SHOWN)
        assert right.status_code == 200 and right.headers["x-outrider-source"] == "drafted"
        for header in ({"Origin": "http://localhost:3000"}, {"Host": "foo.example"}):  # With a token, from anywhere.
            assert (await client.get("/v1/models", headers=header)).status_code == 401
            assert (await client.get("/v1/models", headers={**header, **SHOWN})).status_code == 200
        await read_by_a_page(client)
        client.headers.update(SHOWN)
        tools = await client.post(CHAT, json={**BODY, **REFUSED[0][0]})
        assert tools.status_code == 503 and "Tools need a server" in tools.text
        report = await settled(client, right.headers["x-outrider-answer"])
        assert report["state"] == "unchecked" and "offline" in report["why"]


async def test_a_missing_token_of_the_gateways_own_is_told(running: Opened, tiny_pair: Path, tokens: Path) -> None:
    with VerifierProcess(tiny_pair, token_file=tokens) as server:
        async with running(server.url) as (_, client):
            for stream in (False, True):
                answered = await client.post(CHAT, json={**BODY, "stream": stream})
                error = answered.json()["error"]
                assert answered.status_code == 403 and "retry-after" not in answered.headers
                assert (error["code"], error["type"]) == ("server_token_refused", "permission_error")
                assert all(said in error["message"] for said in ("remote token NAME", "not the key that you sent"))


async def test_plain_text_is_continued_where_the_server_does(client: httpx.AsyncClient) -> None:
    async with sdk(client) as ai:
        whole = await ai.completions.create(model="outrider", prompt="tar -", max_tokens=8, temperature=0)
        parts = await ai.completions.create(model="outrider", prompt="tar -", max_tokens=8, temperature=0, stream=True)
        text = "".join([chunk.choices[0].text async for chunk in parts if chunk.choices])
        assert whole.choices[0].text == text and whole.usage is not None and whole.usage.completion_tokens == 8
        several = await client.post("/v1/completions", json={"prompt": ["a", "b"]})
        assert several.status_code == 400 and several.json()["error"]["param"] == "prompt"


async def test_outrider_goes_on_with_a_cut_answer(gateway: GatewayProcess, drafter: Drafter, database: Path) -> None:
    async with assistant(drafter, database, gateway.url, settings=Settings(max_tokens=5)) as opened:
        cut = await ask_outrider(opened, "list files")
        stored = opened.store.messages.get(cut.message)
        connection = opened.backend.routing.connection_of(stored.conversation_id)
        assert connection is not None and isinstance(connection.verifier, Endpoint), "it is known without its kind"
    assert cut.done.reason == "length"
    async with assistant(drafter, database, gateway.url, settings=Settings(max_tokens=12)) as opened:
        longer, rest = await ask_outrider(opened, "list files"), await hear(opened.resume(cut.message))
    assert rest.done and rest.text == longer.text != cut.text
