"""What a request may ask beside its words, through OpenAI's own client: each against the target's plain logits."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import openai
import pytest
import torch
from openai import AsyncOpenAI
from transformers import PreTrainedModel

from drafter.runtime import Drafter
from models.engines.engine import Engine, Floats
from models.engines.target import Target
from models.text.detokenizer import INCOMPLETE
from remote.protocol import Sampling
from remote.verifier.completions.completion_requests import RequestReader
from remote.verifier.drafting.own_drafter import OwnDrafter, OwnDrafts
from remote.verifier.http import create_app
from remote.verifier.serve import card
from remote.verifier.sessions.acceptance import chooser
from tests.remote.verifier.test_http import PATIENT, running
from tests.support.tiny_text import END, tiny_text

TEXT = tiny_text()
QUESTION = "how do I unpack a tar archive?"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
PROMPT = TEXT.render([("user", QUESTION)])
GREEDY = Sampling()
SAMPLED = Sampling(temperature=0.9, top_p=0.95, seed=11)
Changing = Callable[[Floats, Sequence[int]], Floats]
"""(logits (V,), tokens of the answer so far) -> changed logits."""


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest, loaded: Target, engine: Engine, drafter: Drafter) -> Iterator[str]:
    own = None if getattr(request, "param", "drafts") == "no drafts" else OwnDrafter(drafter, engine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnDrafts, "pays", lambda self, length: True)  # Else the time of a forward decides.
        with running(create_app(engine, card(loaded, engine), text=loaded.text, own=own)) as url:
            yield url


@pytest.fixture
async def client(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncOpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=PATIENT, max_retries=0) as client:
        yield client


def plain(
    model: PreTrainedModel, prompt: Sequence[int], count: int, sampling: Sampling, change: Changing | None = None
) -> tuple[list[int], list[Floats]]:
    """An answer token by token, without sessions or drafts, and the target's logits before each token."""
    answer, seen = list[int](), list[Floats]()
    while len(answer) < count and answer[-1:] != [END]:
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *answer]])).logits[0, -1].numpy()
        seen.append(logits)
        changed = change(logits.copy(), answer) if change else logits.copy()
        answer.append(chooser(changed[None], sampling)(0, len(prompt) + len(answer)))
    return answer, seen


def chat(client: AsyncOpenAI, **fields: Any) -> Coroutine[None, None, Any]:
    return client.chat.completions.create(model="target", messages=MESSAGES, **fields)


def fields(sampling: Sampling) -> dict[str, Any]:
    return {"temperature": sampling.temperature, "top_p": sampling.top_p, "seed": sampling.seed}


def log_probs(logits: Floats) -> np.ndarray:
    return torch.log_softmax(torch.from_numpy(logits), -1).numpy()


either = pytest.mark.parametrize("url", ["no drafts", "drafts"], indirect=True)


async def test_several_answers_are_those_of_seeds_in_a_row(client: AsyncOpenAI, engine: Engine) -> None:
    seeded = [msgspec.structs.replace(SAMPLED, seed=seed) for seed in (11, 12, 13)]
    expected = [TEXT.decode(plain(engine.model, PROMPT, 20, sampling)[0]) for sampling in seeded]
    asked = {"n": 3, "max_tokens": 20, **fields(SAMPLED)}
    whole = await chat(client, **asked)
    assert [(choice.index, choice.message.content) for choice in whole.choices] == list(enumerate(expected))
    assert whole.usage.prompt_tokens == len(PROMPT)

    said, reasons = Counter[int](), dict[int, str | None]()
    texts = ["", "", ""]
    stream = await chat(client, **asked, stream=True, stream_options={"include_usage": True})
    async for chunk in stream:
        for choice in chunk.choices:
            assert (choice.delta.role == "assistant") == (said[choice.index] == 0)
            said[choice.index] += 1
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason
        used = chunk.usage
    assert texts == expected and used == whole.usage
    assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}


# ---- logits ----------------------------------------------------------------------------------------------------------


@either
async def test_log_probabilities_are_the_targets_own(client: AsyncOpenAI, engine: Engine) -> None:
    tokens, logits = plain(engine.model, PROMPT, 24, SAMPLED)
    asked = {"max_tokens": 24, "logprobs": True, "top_logprobs": 4, **fields(SAMPLED)}
    choice = (await chat(client, **asked)).choices[0]
    chunks = [chunk.choices[0] async for chunk in await chat(client, **asked, stream=True)]
    streamed = [one for chunk in chunks if chunk.logprobs for one in chunk.logprobs.content or []]
    pieces = "".join(chunk.delta.content or "" for chunk in chunks)
    for noted, text in ((choice.logprobs.content, choice.message.content), (streamed, pieces)):
        assert len(noted) == len(tokens) and text == TEXT.decode(tokens)
        assert b"".join(bytes(one.bytes or []) for one in noted).decode(errors="replace") == text
        for token, row, one in zip(tokens, logits, noted):
            expected = log_probs(row)
            best = np.argsort(-expected)[:4].tolist()
            assert math.isclose(one.logprob, expected[token], abs_tol=1e-3)
            assert [each.token for each in one.top_logprobs] == [TEXT.spelling(each)[0] for each in best]
            assert np.allclose([each.logprob for each in one.top_logprobs], expected[best], atol=1e-3)


@either
async def test_biases_and_penalties_change_the_logits_before_each_choice(client: AsyncOpenAI, engine: Engine) -> None:
    bias = {40: 3.0, 41: -100.0, 300: 1.5}

    def changed(logits: Floats, answer: Sequence[int]) -> Floats:
        for token, added in bias.items():
            logits[token] += np.float32(added)
        for token, count in Counter(answer).items():
            logits[token] -= np.float32(0.7 + 0.4 * count)
        return logits

    for sampling in (GREEDY, SAMPLED):
        tokens, _ = plain(engine.model, PROMPT, 40, sampling, changed)
        assert tokens != plain(engine.model, PROMPT, 40, sampling)[0]
        biased = {"logit_bias": {str(token): added for token, added in bias.items()}, "presence_penalty": 0.7}
        answer = await chat(client, max_tokens=40, **biased, frequency_penalty=0.4, **fields(sampling))
        assert answer.choices[0].message.content == TEXT.decode(tokens)


SCHEMA = {
    "type": "object", "required": ["command", "files", "sure"], "additionalProperties": False,
    "properties": {
        "command": {"enum": ["tar", "unzip"]}, "sure": {"type": "boolean"},
        "files": {"type": "integer", "minimum": 1, "maximum": 9},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema", "json_schema": {"name": "call", "schema": SCHEMA, "strict": True}},
        {"type": "json_object", "schema": SCHEMA},  # As to other servers.
        {"type": "json_schema", "schema": SCHEMA},
    ],
)
async def test_an_answer_fits_its_schema(client: AsyncOpenAI, wanted: Any) -> None:
    for seed in range(2):
        choice = (await chat(client, response_format=wanted, max_tokens=300, temperature=1, seed=seed)).choices[0]
        found = json.loads(choice.message.content or "")
        assert choice.finish_reason == "stop" and found.keys() == {"command", "files", "sure"}
        assert found["command"] in ("tar", "unzip") and 1 <= found["files"] <= 9 and isinstance(found["sure"], bool)
    stream = await chat(client, response_format={"type": "json_object"}, max_tokens=30, stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]).startswith("{")


async def test_a_prediction_changes_no_answer_and_is_counted(client: AsyncOpenAI, engine: Engine) -> None:
    tokens, _ = plain(engine.model, PROMPT, 40, SAMPLED)
    text = TEXT.decode(tokens)
    expected = TEXT.encode(text)
    for predicted, least in ((text, len(expected) // 2), ("zzz" + text[len(text) // 2 :], 2), ("quite another", 0)):
        prediction = {"type": "content", "content": predicted}
        answer = await chat(client, max_tokens=40, **fields(SAMPLED), prediction=prediction)
        assert answer.choices[0].message.content == text
        details = answer.usage.completion_tokens_details
        accepted, rejected = details.accepted_prediction_tokens, details.rejected_prediction_tokens
        assert least <= accepted and accepted + rejected == len(TEXT.encode(predicted))


# ---- plain text ------------------------------------------------------------------------------------------------------


async def test_plain_text_is_continued(client: AsyncOpenAI, engine: Engine) -> None:
    first, second = TEXT.encode("unpack a tar"), TEXT.encode("list all")
    expected = [TEXT.decode(plain(engine.model, prompt, 12, GREEDY)[0]) for prompt in (first, second)]
    one: dict[str, Any] = {"model": "target", "max_tokens": 12, "temperature": 0}
    for prompt in ("unpack a tar", first):
        answer = await client.completions.create(prompt=prompt, **one)
        assert [choice.text for choice in answer.choices] == expected[:1]
    for several in (["unpack a tar", "list all"], [first, second]):
        answer = await client.completions.create(prompt=several, **one, n=2, echo=True)
        echoed = [start + text for start, text in zip(("unpack a tar", "list all"), expected)]
        assert [choice.text for choice in answer.choices] == [echoed[0], echoed[0], echoed[1], echoed[1]]
        assert answer.usage.prompt_tokens == len(first) + len(second)
    stream = await client.completions.create(prompt="unpack a tar", **one, stream=True, echo=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "unpack a tar" + expected[0]
    short = await client.completions.create(model="target", prompt="list all", temperature=0)
    assert short.usage.completion_tokens <= 16


async def test_plain_text_has_log_probabilities_of_the_older_shape(client: AsyncOpenAI, engine: Engine) -> None:
    tokens, logits = plain(engine.model, TEXT.encode("list all"), 9, GREEDY)
    answer = await client.completions.create(model="target", prompt="list all", max_tokens=9, temperature=0, logprobs=3)
    noted = answer.choices[0].logprobs
    assert noted.tokens == [TEXT.spelling(token)[0] for token in tokens]
    expected = [log_probs(row)[token] for token, row in zip(tokens, logits)]
    assert np.allclose(np.array(noted.token_logprobs, float), expected, atol=1e-3)
    assert noted.text_offset == [len("".join(noted.tokens[:at])) for at in range(len(tokens))]
    assert [max(row, key=row.get) for row in noted.top_logprobs] == noted.tokens


CHAT_ALONE: dict[str, Any] = {
    "response_format": {"type": "json_object"}, "tools": [{"type": "function", "function": {"name": "look"}}],
    "tool_choice": "required", "functions": [{"name": "look"}], "function_call": {"name": "look"}, "top_logprobs": 2,
    "prediction": {"type": "content", "content": "tar"}, "max_completion_tokens": 5, "messages": ["no message"],
    "continue_final_message": True, "add_generation_prompt": True,
}  # fmt: skip


async def test_what_plain_text_cannot_be_asked_is_refused(client: AsyncOpenAI) -> None:
    asked: list[tuple[dict[str, Any], str]] = [
        ({"suffix": "end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"echo": True, "logprobs": 1}, "echo"),
        *(({"prompt": prompt}, "prompt") for prompt in ("", [], None, [1, "tar"], [-1], [1 << 30])),
        ({"prompt": [[1], [1 << 30]], "echo": True}, "prompt"),
        ({"prompt": ["tar"] * 65}, "n"),
        *(({"extra_body": {name: value}}, name) for name, value in CHAT_ALONE.items()),
    ]

    async def told(fields: dict[str, Any]) -> str | None:
        try:
            await client.completions.create(**{"model": "target", "prompt": "list", **fields})
        except openai.BadRequestError as error:
            return error.param
        return "it was taken"

    assert [await told(fields) for fields, _ in asked] == [param for _, param in asked]


async def test_fields_of_chat_that_change_no_text_are_taken(client: AsyncOpenAI) -> None:
    asked: dict[str, Any] = {"model": "target", "prompt": "list all", "temperature": 0}
    neutral = {"tool_choice": "none", "tools": CHAT_ALONE["tools"], "response_format": {"type": "text"}}
    neutral = dict.fromkeys(CHAT_ALONE) | neutral | {"top_logprobs": 0, "messages": []}
    plain = await client.completions.create(**asked)
    for extra in (dict.fromkeys(CHAT_ALONE), neutral):
        assert (await client.completions.create(**asked, extra_body=extra)).choices == plain.choices


async def test_tokens_after_a_stop_string_are_not_counted(client: AsyncOpenAI, engine: Engine) -> None:
    tokens, _ = plain(engine.model, PROMPT, 40, SAMPLED)
    text = TEXT.decode(tokens)
    stop = next(text[at : at + 3] for at in range(6, 30) if text.find(text[at : at + 3]) == at)
    least = next(count for count in range(1, 41) if stop in TEXT.decode(tokens[:count]))
    answer = await chat(client, max_tokens=40, stop=[stop], logprobs=True, **fields(SAMPLED))
    assert answer.choices[0].message.content == text.partition(stop)[0]
    assert answer.usage.completion_tokens == len(answer.choices[0].logprobs.content) == least


def test_a_schema_may_describe_at_length(loaded: Target, engine: Engine) -> None:
    wanted = {"type": "json_schema", "json_schema": {"schema": {**SCHEMA, "description": "so " * 3000}}}
    asked = {"messages": MESSAGES, "response_format": wanted}
    assert RequestReader(card(loaded, engine), loaded.text).chat(json.dumps(asked).encode()).choices


@pytest.mark.parametrize("begun", ["list all fil", "unpack a t", "naïve 日本", "find"])
async def test_only_new_tokens_of_an_answer_that_goes_on_count(client: AsyncOpenAI, begun: str) -> None:
    asked: dict[str, Any] = {
        "model": "target", "messages": [*MESSAGES, {"role": "assistant", "content": begun}], "temperature": 0,
        "logprobs": True, "extra_body": {"continue_final_message": True},
    }  # fmt: skip
    text = (await client.chat.completions.create(**asked, max_tokens=40)).choices[0].message.content or ""
    for most in (1, 2, 7):
        answer = await client.chat.completions.create(**asked, max_tokens=most)
        (choice,), used = answer.choices, answer.usage
        assert choice.logprobs is not None and choice.logprobs.content is not None and used is not None
        assert len(choice.logprobs.content) == used.completion_tokens == most and choice.finish_reason == "length"
        spelt = b"".join(bytes(one.bytes or []) for one in choice.logprobs.content).decode(errors="replace")
        said = choice.message.content or ""
        assert (
            spelt.rstrip(INCOMPLETE).endswith(said) and text.startswith(said) and used.completion_tokens_details is None
        )
    predicted = {"type": "content", "content": "list all files"}
    foreseen = (await client.chat.completions.create(**asked, max_tokens=7, prediction=predicted)).usage  # type: ignore[call-overload]
    assert foreseen is not None and (details := foreseen.completion_tokens_details) is not None
    counted = (details.accepted_prediction_tokens or 0) + (details.rejected_prediction_tokens or 0)
    assert counted == len(TEXT.encode("list all files"))
