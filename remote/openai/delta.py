"""Reads what OpenAI-compatible servers send of an answer: an event of a stream, or the whole answer at once.

Text, reasoning, the reason of the end and the count of tokens are read wherever servers put them. Nothing else is
looked at, so no odd field can spoil an answer. Reasoning is kept apart from the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from remote.openai.ends import goes_on
from remote.openai.lenient_json import number, text
from remote.openai.schema import PredictionTokens, Usage

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields with reasoning: of vLLM, llama.cpp, DeepSeek and SGLang; of OpenRouter, Ollama and newer vLLM; of a few
others."""
NESTED = 3
"""Levels of lists and objects that are searched for text."""


@dataclass(frozen=True)
class AnswerDelta:
    """What one event adds to an answer. All of it may be empty, as in a sign of life."""

    text: str = ""
    reasoning: str = ""
    finish: str = ""
    """Why the answer ends, in the server's word. Empty while it goes on."""
    usage: Usage | None = None


def read_delta(found: Any) -> AnswerDelta:
    """The parts of a decoded event, or of a whole answer. Empty if it holds none of them."""
    if not isinstance(found, dict):
        return AnswerDelta()
    own = found.get("x_groq")  # Groq's own part, where the count stood before it was asked for.
    usage = _usage(found.get("usage")) or _usage(own.get("usage") if isinstance(own, dict) else None)
    for choice in found["choices"] if isinstance(found.get("choices"), list) else ():
        if isinstance(choice, dict) and number(choice.get("index")) == 0:
            return _piece(choice, usage)
    return AnswerDelta(usage=usage)


def _piece(choice: dict[str, Any], usage: Usage | None) -> AnswerDelta:
    said = next((choice[key] for key in ("delta", "message") if isinstance(choice.get(key), dict)), choice)
    content = said.get("content", said.get("text"))
    parts = content if isinstance(content, list) else [content]
    words = "".join(_flat(part) for part in parts if not _is_reasoning(part)) or text(said.get("refusal"))
    reasoning = "".join(_flat(part) for part in parts if _is_reasoning(part))
    reasoning = reasoning or next((found for key in REASONING if (found := _flat(said.get(key)))), "")
    finish = text(choice.get("finish_reason"))
    return AnswerDelta(words, reasoning, "" if goes_on(finish) else finish, usage)


def _is_reasoning(part: Any) -> bool:
    """True for a part with reasoning. Mistral streams it beside the text, in parts of another type."""
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")


def _flat(value: Any, depth: int = 0) -> str:
    """All text in a string, or in a list or an object of texts."""
    if isinstance(value, str):
        return text(value)
    if depth < NESTED and isinstance(value, list):
        return "".join(_flat(part, depth + 1) for part in value)
    if depth < NESTED and isinstance(value, dict):
        return next((said for key in ("text", "thinking", "content") if (said := _flat(value.get(key), depth + 1))), "")
    return ""


def _usage(found: Any) -> Usage | None:
    if not isinstance(found, dict):
        return None
    prompt, completion = number(found.get("prompt_tokens")), number(found.get("completion_tokens"))
    if not prompt and not completion:
        return None
    details = found.get("completion_tokens_details")
    kept, dropped = (
        number(details.get(name)) if isinstance(details, dict) else 0 for name in PredictionTokens.__struct_fields__
    )
    # Two zeros stand in every answer of some services, with a prediction or without one.
    prediction = PredictionTokens(kept, dropped) if kept or dropped else msgspec.UNSET
    return Usage(prompt, completion, number(found.get("total_tokens")), prediction)
