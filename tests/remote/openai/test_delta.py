"""Events of answers in every shape that servers give them: text, reasoning and the end are found, and nothing fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.openai.delta import TAGS, ThinkTags, read_delta
from remote.openai.delta import AnswerDelta as Delta
from remote.openai.error_bodies import read_error
from remote.openai.lenient_json import parse
from remote.openai.schema import Usage
from remote.openai.server_errors import refused


def choice(delta: Any, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **fields}]}


SHAPES: dict[str, tuple[Any, Delta]] = {
    "both fields": (choice({"reasoning": "hm", "reasoning_content": "hm"}), Delta("", "hm")),
    "a refusal": (choice({"content": None, "refusal": "no"}), Delta("no")),
    "a whole message": ({"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}, Delta("a", "", "stop")),
    "the older text": ({"choices": [{"text": "a", "finish_reason": None}]}, Delta("a")),
    "another choice": ({"choices": [{"index": 1, "delta": {"content": "b"}}]}, Delta()),
    "usage": ({"choices": [], "usage": {"prompt_tokens": 1.0, "completion_tokens": "2"}}, Delta(usage=Usage(1, 2, 0))),
    "a ping": ({"type": "ping"}, Delta()),
    "choices null": ({"choices": None}, Delta()),
    "delta null": (choice(None), Delta()),
    "odd types": (choice({"content": 7, "reasoning": [], "tool_calls": {}}, finish_reason=3), Delta()),
    "no object": ([1], Delta()),
    "nothing": (None, Delta()),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_an_event_is_read_as_servers_give_it(name: str) -> None:
    shape, piece = SHAPES[name]
    assert read_delta(parse(json.dumps(shape))) == piece


def test_halves_of_a_character_can_be_stored() -> None:
    piece = read_delta(parse('{"choices":[{"delta":{"content":"a\\ud83e","reasoning":"\\udd80"}}]}'))
    assert piece == Delta("a\ufffd", "\ufffd") and (piece.text + piece.reasoning).encode()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "content", "index", "reasoning", "finish_reason", "usage", "error", "message", "code",
             "type", "text", "thinking", "detail", "object", "prompt_tokens"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(values)
def test_no_value_makes_reading_fail(value: Any) -> None:
    found = parse(json.dumps(value))
    piece = read_delta(found)
    assert (piece.text + piece.reasoning + piece.finish).encode() or piece
    told = read_error(found, bare=True)
    assert told is None or (told[0] and " ".join(told).encode())


@given(st.text(alphabet="<>/thinkTHINK[] \n", max_size=40), st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_tags_are_found_wherever_a_text_is_cut(text: str, sizes: list[int]) -> None:
    def split(pieces: list[str]) -> tuple[str, str]:
        tags = ThinkTags()
        parts = [tags.feed(piece) for piece in pieces] + [tags.end()]
        return "".join(one for one, _ in parts), "".join(other for _, other in parts)

    pieces, at = [], 0
    while at < len(text):
        pieces.append(text[at : at + sizes[len(pieces) % len(sizes)]])
        at += len(pieces[-1])
    assert split(pieces) == split([text])
    thought, said = split([text])
    assert thought or said == text or text.lstrip().startswith(tuple(TAGS)), "a block may be empty"


@pytest.mark.parametrize("tag", TAGS)
def test_a_text_that_is_continued_may_be_about_tags(tag: str) -> None:
    tags = ThinkTags(begun=True)
    assert [tags.feed(piece) for piece in (tag[:3], f"{tag[3:]} is", " a tag.")] + [tags.end()] == [
        *(("", piece) for piece in (tag[:3], f"{tag[3:]} is", " a tag.")),
        ("", ""),
    ]


FULL = {
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "llama.cpp, newer": "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "vLLM": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "vLLM, newer": "The decoder prompt (length 5000) is longer than the maximum model length of 4096. too large",
    "llama-cpp-python": "Requested tokens (2285) exceed context window of 2048",
    "LM Studio": "Trying to keep the first 5000 tokens when context the overflows. loaded with context length",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Anthropic": "prompt is too long: 205000 tokens > 200000 maximum",
    "Google": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_context_is_understood_in_every_dialect(name: str) -> None:
    assert refused("host", 400, FULL[name], "").code == "too_long"


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "temperature is not supported with this model", "bad_request"),
        (429, "You have sent too many tokens this minute; maximum tokens per minute is 9", "busy"),
        (401, "context length unknown without a key", "unauthorised"),
        (404, "model `x` not found; its context length is not known", "not_found"),
    ],
)
def test_other_trouble_is_not_taken_for_it(status: int, message: str, code: str) -> None:
    assert refused("host", status, message, "").code == code
