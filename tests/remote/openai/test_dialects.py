"""What hosted services and local servers say, each in its dialect: text, reasoning, counts, ends and errors.

The sources stand in each file of `tests/remote/openai/dialects`.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import Busy, ChatStream, CompletionsClient, RemoteError
from remote.errors import Refused
from remote.openai.dialect import ordered
from remote.openai.schema import Content, ContentPart, Model
from remote.protocol import Sampling
from tests.support.dialects import MODEL, Exchange, Playback, exchanges
from tests.support.patience import PATIENCE_SECONDS as PATIENCE

ALL = exchanges()
STREAMS = [one for one in ALL if one.stream is not None]
ERRORS = [one for one in ALL if one.stream is None and one.refuses is None]
REFUSALS = [one for one in ALL if one.refuses is not None]


async def begin(client: CompletionsClient) -> ChatStream:
    """A question with every optional field."""
    sampling = Sampling(temperature=0.7, top_p=0.9, top_k=40, seed=5)
    options = {"model": MODEL, "most": 50, "deadline": PATIENCE, "silence": PATIENCE, "prediction": "ls -la"}
    return await client.chat([("user", "how?")], sampling, **options)


@pytest.mark.parametrize("told", STREAMS, ids=str)
async def test_an_answer_is_read_as_the_service_means_it(told: Exchange) -> None:
    expected, thoughts, text, failure = told.expected, "", "", None
    async with Playback(told).listening() as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        stream = await begin(client)
        try:
            async for piece in stream:
                text += piece
                thoughts += stream.new_thoughts()
        except RemoteError as error:
            failure = error
    assert (text, thoughts) == (expected["text"], expected.get("reasoning", ""))
    if "error" in expected:
        assert failure is not None and expected["error"] in str(failure)
        assert "code" not in expected or (isinstance(failure, Refused) and failure.code == expected["code"])
        return
    assert failure is None and stream.reason == expected["reason"]
    usage = stream.usage
    assert expected.get("usage") == (usage and [usage.prompt_tokens, usage.completion_tokens])
    assert expected.get("prediction") == (stream.kept_of_prediction and list(stream.kept_of_prediction))


@pytest.mark.parametrize("told", ERRORS, ids=str)
async def test_an_error_says_what_the_service_says(told: Exchange) -> None:
    expected, server = told.expected, Playback(told)
    async with server.listening() as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(Refused) as caught:
            await begin(client)
    assert caught.value.code == expected["code"] and expected["said"] in str(caught.value), str(caught.value)
    assert caught.value.retry is expected.get("retry", expected["code"] in ("busy", "unavailable"))
    if "after" in expected:
        assert isinstance(caught.value, Busy) and caught.value.after == pytest.approx(expected["after"])
    assert len(server.asked) == 1, "what is no refused field is asked once"


@pytest.mark.parametrize("told", REFUSALS, ids=str)
async def test_a_field_that_a_service_refuses_is_left_out_from_then_on(told: Exchange) -> None:
    server, field = Playback(told), told.refuses
    async with server.listening() as port, CompletionsClient(f"http://127.0.0.1:{port}") as client:
        for _ in range(2):
            stream = await begin(client)
            assert "".join([piece async for piece in stream]) == "ls -l"
            assert stream.left_out == (field,) and stream.predicted is (field != "prediction")
        assert client.may_predict(Model(id=MODEL)) is (field != "prediction")
        assert client.may_predict(Model(id="another"))
    assert [field in request for request in server.asked] == [True, False, False]
    first, second = server.asked[0], server.asked[1]
    instead = told.expected.get("instead")
    assert second == {**{name: value for name, value in first.items() if name != field}, **(
        {} if instead is None else {instead: first[field]}
    )}  # fmt: skip


PICTURE = ContentPart(type="image_url", image_url="data:image/png;base64,AAAA")


def test_late_system_messages_and_neighbours_of_one_role_are_joined() -> None:
    said: list[tuple[str, Content]] = [
        ("system", "Be brief."), ("user", "how?"), ("system", "Be polite."), ("user", "and why?"), ("assistant", ""),
        ("assistant", "So."), ("assistant", "Because."), ("developer", "Be brief."), ("user", "what is this?"),
        ("user", (PICTURE,)),
    ]  # fmt: skip
    assert ordered(said) == [
        ("system", "Be brief.\n\nBe polite."),
        ("user", "how?\n\nand why?"),
        ("assistant", "So.\n\nBecause."),
        ("user", (ContentPart(type="text", text="what is this?"), PICTURE)),
    ]


turns = st.lists(st.tuples(st.sampled_from(["system", "developer", "user", "assistant"]), st.text(max_size=3)))


@given(turns)
def test_the_form_holds_for_any_conversation_and_no_word_is_lost(said: list[tuple[str, Content]]) -> None:
    found = ordered(said)
    roles = [role for role, _ in found]
    spoken = roles[1:] if roles[0] == "system" else roles
    assert spoken[0] == "user" and "system" not in spoken and all(one != other for one, other in pairwise(spoken))
    for role, content in said:
        assert any(role in (kind, "developer") and content in whole for kind, whole in found) or not content
    assert ordered(found) == found
