"""The client of Anthropic's API, against a server that refuses what the API refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import Busy, ChatStream, Incompatible, LinkDown, MessagesClient, Refused
from remote.anthropic.events import MessageReader
from remote.anthropic.messages import messages_request
from remote.openai.delta import AnswerDelta
from remote.openai.ends import end_of
from remote.openai.schema import CalledFunction, ChatMessage, ChatRequest, ContentPart, ImageUrl, ToolCall
from remote.protocol import Sampling
from tests.remote.openai.test_delta import odd_json
from tests.remote.toy_verifier import utf16_units
from tests.support.messages_server import KEY, OLD, MessagesServer, Reply
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

NEW = "claude-haiku-5-5"
FIELDS = ("type", "delta", "message", "content", "content_block", "usage", "text", "input_tokens", "stop_reason")
EVENTS = ("message_start", "content_block_start", "content_block_delta", "message_delta", "message", "error", "")
QUESTION = ("user", "How do I list files by size?")


def client_of(port: int, key: str | None = KEY) -> MessagesClient:
    return MessagesClient(f"http://127.0.0.1:{port}", key)


async def begin(client: MessagesClient, *messages: Any, **fields: Any) -> ChatStream:
    options = {"model": NEW, "most": None, "deadline": PATIENCE, "silence": PATIENCE, "unset": ("temperature", "seed")}
    sampling = fields.pop("sampling", Sampling())
    return await client.chat(messages or [QUESTION], sampling, **{**options, **fields})


async def test_an_answer_with_its_thoughts_its_end_and_its_counts() -> None:
    server = MessagesServer([Reply(("Use ", "ls -lS."), thinking="They want ls.")])
    async with server.listening() as port, client_of(port) as client:
        new, old = await client.models(PATIENCE)
        assert (new.id, new.max_model_len, new.images, new.continues) == (NEW, 1_000_000, True, True)
        assert (old.id, old.continues) == (OLD, True), "and no model that is retired"
        image = ContentPart(type="image_url", image_url=ImageUrl("data:image/png;base64,aGk="))
        asked = ("user", (ContentPart(type="text", text="What is this?"), image))
        stream = await begin(client, ("system", "Be brief."), ("system", "In English."), asked)
        assert "".join([piece async for piece in stream]) == "Use ls -lS."
    assert stream.new_thoughts() == "They want ls." and end_of(stream.reason) == "whole"
    assert stream.usage is not None and (stream.usage.prompt_tokens, stream.usage.completion_tokens) == (25, 12)
    [sent] = server.asked
    assert sent["system"] == "Be brief.\n\nIn English." and sent["max_tokens"] == 128_000
    assert sent["messages"][0]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}


async def test_what_a_model_does_not_take_is_left_out_and_named() -> None:
    server = MessagesServer([Reply(("Yes.",))])
    async with server.listening() as port, client_of(port) as client:
        warm = Sampling(temperature=0.5, seed=7)
        stream = await begin(client, most=10**7, sampling=warm, unset=())
        assert [piece async for piece in stream] == ["Yes."] and set(stream.left_out) == {"temperature", "seed"}
        stream = await begin(client, model=OLD, most=10, sampling=warm, unset=())
        assert [piece async for piece in stream] == ["Yes."] and stream.left_out == ("seed",)
    first, second = server.asked
    assert first["max_tokens"] == 128_000 and "temperature" not in first, "a limit that is too high is lowered"
    assert (second["max_tokens"], second["temperature"]) == (10, 0.5)
    assert len(server.refused) == 2


odd_events = st.tuples(st.sampled_from(EVENTS), st.dictionaries(st.sampled_from(FIELDS), odd_json(*FIELDS), max_size=4))


@given(st.lists(odd_events, max_size=5))
def test_no_event_is_too_odd_to_be_read(events: list[tuple[str, dict[str, Any]]]) -> None:
    reader = MessageReader()
    for kind, fields in events:
        piece = reader.read({**fields, "type": kind})
        assert isinstance(piece.text + piece.reasoning + piece.finish, str)
    assert reader.read([events]) == reader.read({"type": ["message_stop"]}) == AnswerDelta()


REPEATED = "that need not be repeated 🦀, then the command: 🐚 use l"
BEGINNING = f"Sizes:\n\nMany words {REPEATED}"


@pytest.mark.parametrize("size", [1, 7, 200])
async def test_another_model_is_asked_to_go_on_and_joins_at_the_last_words(size: int) -> None:
    units = utf16_units(f"\n{REPEATED}s -lS, largest first 🐘.")
    pieces = ["".join(units[at : at + size]) for at in range(0, len(units), size)]
    server = MessagesServer([Reply(pieces, thinking="Go on.")])
    async with server.listening() as port, client_of(port) as client:
        stream = await begin(client, QUESTION, ("assistant", BEGINNING), continued=True)
        assert "".join([piece async for piece in stream]) == "s -lS, largest first 🐘."
    first, begun, last = server.asked[0]["messages"]
    assert (first["role"], begun["content"], last["role"]) == ("user", BEGINNING, "user")
    assert last["content"].endswith(f"\n\n{REPEATED}") and not server.refused


@pytest.mark.parametrize("said", ["Sorry. Use ls.", REPEATED[:-1], REPEATED[1:] + "s"])
async def test_what_does_not_begin_with_the_last_words_is_not_joined(said: str) -> None:
    async with MessagesServer([Reply([said])]).listening() as port, client_of(port) as client:
        stream = await begin(client, QUESTION, ("assistant", BEGINNING), continued=True)
        with pytest.raises(Incompatible, match="began a different one"):
            assert not "".join([piece async for piece in stream])


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (Reply(("Use ",), cut=True), LinkDown, "ended early"),
        (Reply(("Use ",), error="overloaded_error"), Refused, "Overloaded"),
        (Reply(("Use ",), reason="error"), Refused, "error"),
    ],
)
async def test_a_stream_that_breaks_keeps_what_came(reply: Reply, error: type[Exception], said: str) -> None:
    async with MessagesServer([reply]).listening() as port, client_of(port) as client:
        stream, got = await begin(client), ""
        with pytest.raises(error, match=said):
            async for piece in stream:
                got += piece
    assert got == "Use "


async def test_a_full_server_says_when_to_ask_again_and_a_wrong_key_is_named() -> None:
    server = MessagesServer([Reply(status=529, after=3), Reply(status=429)])
    async with server.listening() as port, client_of(port) as client, client_of(port, "sk-wrong") as stranger:
        with pytest.raises(Busy) as busy:
            await begin(client)
        assert busy.value.after == 3
        with pytest.raises(Busy):
            await begin(client)
        with pytest.raises(Refused, match="invalid x-api-key") as refused:
            await stranger.models(PATIENCE)
        assert refused.value.code == "unauthorised"


def test_results_come_first_and_blanks_are_left_out() -> None:
    calls = tuple(ToolCall(id=name, function=CalledFunction("look", "{}")) for name in "ab")
    results = [ChatMessage("tool", "seen", tool_call_id=name) for name in "ab"]
    said = [ChatMessage("system", " "), ChatMessage("system", ""), ChatMessage("user", "go"),
            ChatMessage("assistant", None, calls), results[0], ChatMessage("user", "and this?"), results[1],
            ChatMessage("assistant", (ContentPart(type="output_text", text="so "),))]  # fmt: skip
    made = messages_request(ChatRequest(messages=tuple(said)), 9)
    assert made.system is None and made.messages[-1].content == [{"type": "text", "text": "so"}]
    assert [block["type"] for block in made.messages[2].content] == ["tool_result", "tool_result", "text"]
