"""Reads what OpenAI-compatible servers send of an answer: an event of a stream, or the whole answer at once.

Text, reasoning, tool calls, the finish reason and the token counts are read wherever servers put them. Everything else
is ignored, so no odd field can spoil an answer. Reasoning is kept separate from the answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from models.text.detokenizer import overlap
from remote.openai.ends import goes_on
from remote.openai.lenient_json import number, piece, text
from remote.openai.schema import PredictionTokens, Usage
from remote.openai.tool_calls import CallPiece

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Fields with reasoning: of vLLM, llama.cpp, DeepSeek and SGLang; of OpenRouter, Ollama and newer vLLM; of a few
others."""
NESTED = 3
"""Levels of lists and objects that are searched for text."""
HELD = 64
"""Characters, white space included, within which a tag must begin."""
TAGS = {"<think>": "</think>", "<thinking>": "</thinking>", "<thought>": "</thought>", "[THINK]": "[/THINK]"}
"""Most models have the first, a few the second. The third is Gemini's, the last one Mistral's."""


@dataclass(frozen=True)
class AnswerDelta:
    """What one event adds to an answer; may be empty, as for a sign of life. Its texts may have half a character."""

    text: str = ""
    reasoning: str = ""
    finish: str = ""
    """Why the answer ends, in the server's words. Empty while it continues."""
    usage: Usage | None = None
    calls: tuple[CallPiece, ...] = ()
    done: bool = False
    """Whether nothing follows."""


def read_delta(found: Any) -> AnswerDelta:
    """The parts of a decoded event, or of a whole answer. Empty if it holds none of them."""
    if not isinstance(found, dict):
        return AnswerDelta()
    own = found.get("x_groq")  # Groq's own field, which had the counts before clients could ask for them.
    usage = _usage(found.get("usage")) or _usage(own.get("usage") if isinstance(own, dict) else None)
    for choice in found["choices"] if isinstance(found.get("choices"), list) else ():
        if isinstance(choice, dict) and number(choice.get("index")) == 0:
            return _piece(choice, usage)
    return AnswerDelta(usage=usage)


def _piece(choice: dict[str, Any], usage: Usage | None) -> AnswerDelta:
    said = next((choice[key] for key in ("delta", "message") if isinstance(choice.get(key), dict)), choice)
    content = said.get("content", said.get("text"))
    parts = content if isinstance(content, list) else [content]
    words = "".join(_flat(part) for part in parts if not _is_reasoning(part)) or piece(said.get("refusal"))
    reasoning = "".join(_flat(part) for part in parts if _is_reasoning(part))
    reasoning = reasoning or next((found for key in REASONING if (found := _flat(said.get(key)))), "")
    finish = text(choice.get("finish_reason"))
    return AnswerDelta(words, reasoning, "" if goes_on(finish) else finish, usage, _calls(said))


def _calls(said: dict[str, Any]) -> tuple[CallPiece, ...]:
    calls = said.get("tool_calls")
    return tuple(map(_call, filter(lambda call: isinstance(call, dict), calls))) if isinstance(calls, list) else ()


def _call(found: dict[str, Any]) -> CallPiece:
    function = found.get("function")
    function = function if isinstance(function, dict) else {}
    index, arguments = found.get("index"), function.get("arguments")
    return CallPiece(
        None if index is None else number(index),
        text(found.get("id")),
        text(function.get("name")),
        json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else piece(arguments),
    )


def _is_reasoning(part: Any) -> bool:
    """True for a part with reasoning. Mistral streams it with the text, in parts of another type."""
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")


def _flat(value: Any, depth: int = 0) -> str:
    """All text in a string, list or object."""
    if isinstance(value, str):
        return value
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
    # Some services send two zeros with every answer, with or without a prediction.
    prediction = PredictionTokens(kept, dropped) if kept or dropped else msgspec.UNSET
    return Usage(prompt, completion, number(found.get("total_tokens")), prediction)


# ---- reasoning in tags -----------------------------------------------------------------------------------------------


class ThinkTags:
    """Splits a stream of text into the reasoning in tags at its beginning and the answer after it.

    Most servers send reasoning in its own field. Some leave the tags of the model's template in the text. Later
    blocks belong to the answer, which may be about these tags. Pieces may be cut anywhere.
    """

    def __init__(self, *, begun: bool = False) -> None:
        """`begun`: the answer has begun before this stream, so all of it is answer."""
        self._held = ""
        """Text that may be the beginning of a tag."""
        self._closing: str | None = None if begun else ""
        """The tag that ends the reasoning. Empty before any reasoning, None once only the answer follows."""
        self._gap = False
        """The reasoning has just ended. White space before the answer is left out."""

    def feed(self, piece: str) -> tuple[str, str]:
        """The reasoning and the text that are certain so far."""
        if self._closing is None:
            return "", self._after(piece)
        held, self._held = self._held + piece, ""
        if not self._closing:
            return self._begin(held)
        return self._inside(held)

    def end(self) -> tuple[str, str]:
        """The text that was held back, at the end of the stream: it is no tag."""
        held, self._held = self._held, ""
        return (held, "") if self._closing else ("", held)

    def _begin(self, held: str) -> tuple[str, str]:
        start = held.lstrip()
        for opening, closing in TAGS.items():
            if start.startswith(opening):
                self._closing = closing
                return self._inside(start[len(opening) :])
        if len(held) <= HELD and any(opening.startswith(start) for opening in TAGS):
            self._held = held
            return "", ""
        self._closing = None
        return "", held

    def _inside(self, held: str) -> tuple[str, str]:
        assert self._closing
        reasoning, tag, text = held.partition(self._closing)
        if tag:
            self._closing, self._gap = None, True
            return reasoning, self._after(text)
        keep = overlap(held, self._closing)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], ""

    def _after(self, text: str) -> str:
        if self._gap:
            text = text.lstrip()
            self._gap = not text
        return text
