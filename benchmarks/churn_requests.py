"""What the programs of `benchmarks.churn` ask, and how they read an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx

from benchmarks.clients import SCHEMA
from benchmarks.openapi import CHAT, TEXT
from remote.openai.sse import EventReader

MOST_TOKENS = 48
LONG = "Here is a list of files that I have. " + " ".join(f"notes-{number}.txt" for number in range(60)) + " "
"""The beginning of a long prompt: some 350 tokens of the bundled model."""
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": MOST_TOKENS}
SAMPLED: dict[str, Any] = {"temperature": 0.8, "seed": 7, "max_tokens": MOST_TOKENS}
FORMAT = {"type": "json_schema", "json_schema": {"name": "call", "strict": True, "schema": SCHEMA}}
PLAIN: Mapping[str, dict[str, Any]] = {
    "chat": GREEDY,
    "stop": {**GREEDY, "stop": ["-", "\n"]},
    "prediction": {**GREEDY, "prediction": {"type": "content", "content": "ls -lt"}},
}
"""Programs that ask by a conversation, and what a gateway can do too: the fields of their requests."""
CASES: Mapping[str, dict[str, Any]] = {
    **PLAIN,
    "logprobs": {**GREEDY, "logprobs": True, "top_logprobs": 5},
    "n": {**SAMPLED, "n": 3},
    "response_format": {**GREEDY, "response_format": FORMAT},
    "penalties": {**GREEDY, "presence_penalty": 0.5, "frequency_penalty": 0.5},
    "long": GREEDY,
    "text": {**GREEDY, "max_tokens": 12},
    "text, echo": {**GREEDY, "max_tokens": 12, "echo": True},
    "text, logprobs": {**GREEDY, "max_tokens": 12, "logprobs": 3},
}
REFUSED: Sequence[tuple[str, dict[str, Any], int]] = (
    (CHAT, {"messages": []}, 400),
    (CHAT, {"messages": [{"role": "user", "content": "ls"}], "temperature": "hot"}, 400),
    (CHAT, {"messages": [{"role": "user", "content": "ls"}], "tools": [{"type": "function"}]}, 400),
    (CHAT, {"messages": [{"role": "user", "content": "list files " * 3000}]}, 400),
    (CHAT, {"messages": [{"role": "user", "content": "ls"}], "model": "another"}, 404),
    ("/v1/nowhere", {}, 404),
)
"""Requests that are refused: a path, a body, and the status."""


class WrittenAlone(Exception):
    """The gateway's small model wrote some of an answer alone, as its marks say: its server was late."""


def request(case: str, question: str) -> tuple[str, dict[str, Any]]:
    """The path and the body of a program's request."""
    if case.startswith("text"):
        return TEXT, {"prompt": question, **CASES[case]}
    content = f"{LONG}{question}" if case == "long" else question
    return CHAT, {"messages": [{"role": "user", "content": content}], **CASES[case]}


async def events_of(response: httpx.Response, pause: float = 0.0) -> AsyncIterator[str]:
    """The data of each event. `pause`: seconds after each piece that is read."""
    events = EventReader()
    async for chunk in response.aiter_raw(256 if pause else None):
        for data in events.feed(chunk):
            yield data
        await asyncio.sleep(pause)


def check_marks(answer: Mapping[str, Any]) -> None:
    """Raise `WrittenAlone` where a gateway's marks say so. A server's answers have no marks."""
    if answer.get("outrider", {}).get("source") == "drafted":
        raise WrittenAlone


def text_of(choice: Mapping[str, Any]) -> str:
    said = choice["text"] if "text" in choice else choice.get("message", choice.get("delta", {})).get("content")
    return said or ""
