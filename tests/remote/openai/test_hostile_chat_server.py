"""Hostile chat servers: whatever they send, the outcome is text or a typed error, in bounded time and memory."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from remote import ChatStream, CompletionsClient, RemoteError, VerifierClient
from remote.detect import detect
from remote.openai.stream import MAX_TEXT
from remote.protocol import Sampling
from tests.remote.openai.hostile_chat_peers import STREAMS, hostile

pytestmark = pytest.mark.faults

LIMITS = {"deadline": 0.6, "silence": 0.6}
PATIENCE = 60.0
"""Seconds for everything on a busy machine. No outcome needs a third of it."""
MOST_BYTES = 64 << 20
"""Bytes that anything may take at the same time: the longest list of models, twice."""


async def heard(client: CompletionsClient) -> tuple[str, ChatStream | None, RemoteError | None]:
    """Text, and the error that ended it, if one did."""
    text, stream = "", None
    try:
        stream = await client.chat([("user", "hello")], Sampling(), model="m", most=None, **LIMITS)
        async for piece in stream:
            text += piece
    except RemoteError as error:
        return text, stream, error
    return text, stream, None


@pytest.mark.parametrize("name", STREAMS)
async def test_an_answer_is_text_or_a_typed_error_in_bounded_time_and_memory(name: str) -> None:
    asked: list[int] = []
    tracemalloc.start()
    try:
        async with (
            asyncio.timeout(PATIENCE),
            hostile(STREAMS[name], asked) as port,
            CompletionsClient(f"http://127.0.0.1:{port}", "s3cret") as client,
        ):
            text, stream, error = await heard(client)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert asked == [0], "a request that may be paid for is sent once"
    assert most < MOST_BYTES and len(text) <= MAX_TEXT
    assert text.encode() or error is not None
    if error is not None:
        assert str(error).isprintable() and len(str(error)) < 1000 and "s3cret" not in str(error)
    else:
        assert stream is not None and (stream.reason or stream.overlong or text)


async def test_a_list_of_models_is_one_or_a_typed_error_and_nobody_is_taken_for_a_server() -> None:
    async def greeted(name: str) -> None:
        async with hostile(STREAMS[name]) as port:
            url, errors = f"http://127.0.0.1:{port}", list[str]()
            async with VerifierClient(url) as verifier, CompletionsClient(url) as client:
                for wanted in (None, "m"):
                    try:
                        models = await client.models(0.4, wanted=wanted)
                    except RemoteError as error:
                        errors.append(str(error))
                    else:
                        assert models and all(model.id for model in models), name
                with pytest.raises(RemoteError) as caught:
                    await detect(verifier, client, 0.4)
        assert all(said.isprintable() and len(said) < 1000 for said in (*errors, str(caught.value))), name

    async with asyncio.timeout(2 * PATIENCE):
        await asyncio.gather(*map(greeted, STREAMS))
