"""Lists of models as real servers give them, and as no server should."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from remote import CompletionsClient, GeminiClient, Incompatible, RemoteError
from remote.openai.model_list import find_model, read_model_list
from remote.openai.schema import Model, Price, UnlistedModel
from tests.remote.toy_verifier import http, listening, raw_peer, request_of

JSON = "application/json"
PATIENCE = 60.0
LISTS: dict[str, tuple[Any, list[tuple[str, int | None]]]] = {
    "transformers serve": (
        {"object": "list", "data": [{"owned_by": "me", "id": "me/m", "object": "model", "created": 1763000000.25}]},
        [("me/m", None)],
    ),
    "llama.cpp": (
        {"models": [{"name": "a.gguf", "model": "a.gguf", "capabilities": ["completion"]}], "object": "list",
         "data": [{"id": "a.gguf", "object": "model", "created": 1, "owned_by": "llamacpp",
                   "meta": {"vocab_type": 2, "n_ctx": 4096, "n_ctx_train": 131072, "n_embd": 1}}]},
        [("a.gguf", 4096)],
    ),
    "LM Studio": (
        {"object": "list", "data": [{"id": "qwen3", "object": "model", "type": "llm", "publisher": "qwen",
                                     "loaded_context_length": 8192, "max_context_length": 40960}]},
        [("qwen3", 8192)],
    ),
    "OpenRouter": (
        {"data": [{"id": "a/b", "name": "A: B", "created": 1, "context_length": 200000, "pricing": {"prompt": "0"},
                   "top_provider": {"context_length": None}}]},
        [("a/b", 200000)],
    ),
    "Together": ([{"id": "t/m", "object": "model", "created": 0, "context_length": "131072"}], [("t/m", 131072)]),
    "null everywhere": (
        {"object": None, "data": [{"id": "m", "object": None, "created": None, "owned_by": None, "meta": None}]},
        [("m", None)],
    ),
    "types of another world": (
        {"object": 1, "data": [{"id": "m", "created": "yesterday", "owned_by": {"a": 1}, "max_model_len": "many"},
                               {"id": 7}, "bare", None, [], {"id": ""}, {"id": "x" * 9999}, {"id": "m"}]},
        [("m", None), ("bare", None)],
    ),
    "numbers that are none": ('{"data":[{"id":"m","max_model_len":NaN,"context_length":1e999}]}', [("m", None)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_models_are_read_as_servers_give_them(name: str) -> None:
    shape, models = LISTS[name]
    listing = read_model_list(shape if isinstance(shape, str) else json.dumps(shape))
    assert [(model.id, model.max_model_len) for model in listing.models] == models
    assert listing.loads_others == (name == "transformers serve")


def test_a_name_may_leave_the_latest_tag_out() -> None:
    models = [Model(id="llama3.2:1b"), Model(id="llama3.2:latest"), Model(id="plain"), Model(id="plain:latest")]
    assert [find_model(models, name) for name in (None, "llama3.2", "llama3.2:1b", "plain", "llama3")] == [
        models[0], models[1], models[0], models[2], None
    ]  # fmt: skip
    assert find_model([], None) is find_model([], "m") is None


async def listed(reply: bytes, wanted: str | None) -> list[str]:
    async with raw_peer(lambda _: reply) as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        return [model.id for model in await client.models(PATIENCE, wanted=wanted)]


def found(shape: Any) -> bytes:
    return http(json.dumps(shape).encode(), content_type=JSON)


NO_LIST = {
    "an empty list": found({"object": "list", "data": []}),
    "an unreadable list": found({"models": "all"}),
    "404 in JSON": http(b'{"error":{"message":"No."}}', status="404 No", content_type=JSON),
    "404 in words": http(b"Not Found", status="404 No", content_type="text/plain"),
    "500 of transformers serve": http(b"Internal Server Error", status="500 No", content_type="text/plain"),
    "500 in JSON": http(b'{"error":"no"}', status="500 No", content_type=JSON),
    "405": http(b"", status="405 No", content_type="text/html"),
    "a token that may list nothing": http(b'{"error":"no"}', status="403 No", content_type=JSON),
}


@pytest.mark.parametrize("name", NO_LIST)
async def test_a_model_that_is_named_needs_no_list(name: str) -> None:
    assert await listed(NO_LIST[name], "mine") == ["mine"]
    with pytest.raises(RemoteError):
        await listed(NO_LIST[name], None)


@pytest.mark.parametrize(
    ("entry", "wanted", "window"),
    [
        ({"id": "cached/m", "created": 1763000000.25}, "/models/mine", None),
        ({"id": "m", "created": 1763000000}, "mine", None),
        ({"id": "openai/gpt-4o", "context_length": 128000}, "openai/gpt-4o:online", 128000),
        ({"id": "models/gemini-2.5-flash", "context_length": 1048576}, "gemini-2.5-flash", 1048576),
        ({"id": "gpt-4o-2024-11-20"}, "my-deployment", None),
    ],
)
async def test_a_named_model_comes_first_and_the_list_only_suggests(
    entry: dict[str, Any], wanted: str, window: int | None
) -> None:
    reply = found({"data": [entry]})
    async with raw_peer(lambda _: reply) as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        named, other = await client.models(PATIENCE, wanted=wanted)
    assert (named.id, named.max_model_len, other.id) == (wanted, window, entry["id"])
    assert isinstance(named, UnlistedModel) and not isinstance(other, UnlistedModel)


@pytest.mark.parametrize("status", ["401 No", "503 Loading"])
async def test_trouble_is_no_missing_list(status: str) -> None:
    with pytest.raises(RemoteError) as caught:
        await listed(http(b'{"error":"no"}', status=status, content_type=JSON), "mine")
    assert not isinstance(caught.value, Incompatible)


async def test_a_long_list_is_read() -> None:
    models = [{"id": f"m{number}", "description": "x" * 2000} for number in range(1000)]
    assert len(await listed(found({"data": models}), None)) == 1000


@pytest.mark.parametrize(
    ("entry", "images"),
    [
        ('{"id": "a"}', None),
        ('{"id": "a", "type": "vlm"}', True),
        ('{"id": "a", "type": "llm"}', None),
        ('{"id": "a", "capabilities": {"vision": false}}', False),
        ('{"id": "a", "capabilities": {"vision": true}}', True),
        ('{"id": "a", "capabilities": ["completion", "multimodal"]}', True),
        ('{"id": "a", "capabilities": ["completion"]}', False),
        ('{"id": "a", "architecture": {"input_modalities": ["text", "image"]}}', True),
        ('{"id": "a", "architecture": {"input_modalities": ["text"]}}', False),
        ('{"id": "a", "capabilities": [["image"]], "architecture": "x"}', None),
    ],
)
def test_what_a_list_says_of_images(entry: str, images: bool | None) -> None:
    found = read_model_list(f'{{"data": [{entry}]}}')
    assert found.models[0].images is images


def test_prices_and_models_that_write_no_text() -> None:
    listed = [
        {"id": "paid", "pricing": {"prompt": "0.000003", "completion": "0.000015"}, "max_completion_tokens": 8192},
        {"id": "varies", "pricing": {"prompt": "-1", "completion": "-1"}},
        {"id": "odd", "pricing": {"prompt": "1e999", "completion": "much"}},
        {"id": "paints", "architecture": {"output_modalities": ["image"]}},  # OpenRouter.
        {"id": "embeds", "capabilities": {"completion_chat": False}},  # Mistral.
        {"id": "gone", "active": False},  # Groq.
    ]
    found = read_model_list({"data": listed})
    assert found is not None
    paid, varies, odd = found.models
    assert (paid.price, paid.most_written) == (Price(3, 15), 8192)
    assert not varies.price and not odd.price


async def test_geminis_own_list_tells_the_context() -> None:
    heads: list[bytes] = []

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await request_of(reader)
        heads.append(head)
        own = {"inputTokenLimit": 1048576, "outputTokenLimit": 65536, "supportedGenerationMethods": ["generateContent"]}
        embeds = {"name": "models/embeds", "supportedGenerationMethods": ["embedContent"]}
        listed = {"models": [{"name": "models/gemini-flash-latest", **own}, embeds], "nextPageToken": ""}
        writer.write(http(json.dumps(listed).encode(), content_type=JSON))
        await writer.drain()

    async with listening(serve) as port, GeminiClient(f"http://127.0.0.1:{port}/v1beta/openai/", "AIza") as client:
        [model] = await client.models(PATIENCE, wanted="gemini-flash-latest")
    assert (model.id, model.max_model_len, model.most_written) == ("gemini-flash-latest", 1048576, 65536)
    assert heads[0].startswith(b"GET /v1beta/models?pageSize=1000 ") and b"x-goog-api-key: AIza" in heads[0]
    assert heads[0].count(b"AIza") == 1, "its key is sent once"


async def test_gemini_is_told_that_calls_have_no_signature() -> None:
    bodies: list[Any] = []

    async def serve(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await request_of(reader)
        assert head.count(b"AIza") == 1 and b"authorization: bearer aiza" in head.lower()
        bodies.append(json.loads(body))
        writer.write(http(b"data: [DONE]\n\n", content_type="text/event-stream"))
        await writer.drain()

    signed = {"id": "b", "extra_content": {"google": {"thought_signature": "its own"}}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "a"}, signed, "odd"]},
    ]
    async with listening(serve) as port, GeminiClient(f"http://127.0.0.1:{port}/v1beta/openai", "AIza") as client:
        stream = await client.relay({"messages": said}, deadline=PATIENCE, silence=PATIENCE)
        await stream.aclose()
    unsigned = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    sent = bodies[0]["messages"]
    assert sent[0] == said[0] and sent[1]["tool_calls"] == [{"id": "a", "extra_content": unsigned}, signed, "odd"]
    assert said[1]["tool_calls"][0] == {"id": "a"}
