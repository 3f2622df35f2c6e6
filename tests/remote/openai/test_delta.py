"""Events of answers, whatever they hold: nothing fails, thoughts are told from text, and a full context is recognised.

What services really send is in `test_dialects.py`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.openai.delta import TAGS, ThinkTags, read_delta
from remote.openai.delta import AnswerDelta as Delta
from remote.openai.error_bodies import read_error
from remote.openai.lenient_json import Halves, parse
from remote.openai.server_errors import refused


def test_shapes_that_no_file_of_dialects_has_are_read_too() -> None:
    odd = {"content": 7, "reasoning": [], "tool_calls": {}}
    for choice, piece in (
        ({"delta": {"reasoning": "hm", "reasoning_content": "hm"}}, Delta("", "hm")),
        ({"text": "a", "finish_reason": None}, Delta("a")),
        ({"delta": odd, "finish_reason": 3}, Delta()),
    ):
        assert read_delta({"choices": [choice]}) == piece


def odd_json(*names: str) -> st.SearchStrategy[Any]:
    """Any JSON whose objects have fields of these names."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(names), inner, max_size=4),
        max_leaves=12,
    )


FIELDS = (
    "choices", "delta", "content", "index", "reasoning", "finish_reason", "usage", "error", "message", "code", "type",
    "text", "thinking", "detail", "object", "prompt_tokens",
)  # fmt: skip


@given(odd_json(*FIELDS))
def test_no_value_makes_reading_fail(value: Any) -> None:
    found = parse(json.dumps(value))
    piece = read_delta(found)
    assert (Halves().join(piece.text + piece.reasoning, last=True) + piece.finish).encode() or piece
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
    "llama.cpp, newer": "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "vLLM, newer": "The decoder prompt (length 5000) is longer than the maximum model length of 4096. too large",
    "llama-cpp-python": "Requested tokens (2285) exceed context window of 2048",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "Google": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
}
"""Sentences that no file of dialects has."""


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
