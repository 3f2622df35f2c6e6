"""Reads the events of an answer in Anthropic's Messages API: text, thinking, tool calls, its end, and token counts.

`message_start`, then for each block `content_block_start`, `content_block_delta` and `content_block_stop`, then
`message_delta` with the reason and `message_stop`. `ping` and unknown events mean only that the line is alive.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec

from remote.errors import Incompatible
from remote.openai.delta import AnswerDelta
from remote.openai.ends import end_of
from remote.openai.lenient_json import Halves, number, piece, text
from remote.openai.schema import Usage
from remote.openai.tool_calls import CallPiece

READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""Counts of what the model has read. They do not include one another."""


class MessageReader:
    """Reads one answer, event by event. The counts at its end are complete only with those at its beginning.

    `repeated`: text with which it is to begin, because it continues an answer of `host` that ended so; it is left out.
    """

    def __init__(self, host: str = "", repeated: str = "") -> None:
        self._counts: dict[str, int] = {}
        self._bare = set[int]()
        """Indices of the calls without arguments so far."""
        self._host, self._repeated, self._heard, self._halves = host, repeated, "", Halves()

    def read(self, found: Any) -> AnswerDelta:
        """What an event adds, or a whole answer. Empty for anything else.

        Raises `Incompatible` if an answer that should continue another one is a new one.
        """
        new = self._read(found)
        end = bool(new.finish or new.done)
        if not self._repeated or not (new.text or end):
            return new
        self._heard = (self._heard + self._halves.join(new.text, last=end)).lstrip()
        begun = self._heard[: len(self._repeated)]
        if (end and 0 < len(begun) < len(self._repeated)) or not self._repeated.startswith(begun):
            raise Incompatible(f"{self._host} could not continue the answer and began a different one")
        if begun != self._repeated:
            return replace(new, text="")
        rest, self._repeated = self._heard[len(begun) :], ""
        return replace(new, text=rest + self._halves.held)

    def _read(self, found: Any) -> AnswerDelta:
        if not isinstance(found, dict):
            return AnswerDelta()
        match found.get("type"):
            case "message_start" if isinstance(message := found.get("message"), dict):
                return AnswerDelta(usage=self._usage(message.get("usage")))
            case "content_block_start":
                return self._noted(_block(found.get("content_block"), number(found.get("index"))))
            case "content_block_delta":
                return self._noted(_block(found.get("delta"), number(found.get("index"))))
            case "message_delta":
                delta = found.get("delta")
                reason = text(delta.get("stop_reason")) if isinstance(delta, dict) else ""
                bare = sorted(self._bare) if end_of(reason) in ("tools", "whole") else ()
                calls = tuple(CallPiece(index, "", "", "{}") for index in bare)
                return AnswerDelta(finish=reason, usage=self._usage(found.get("usage")), calls=calls)
            case "message_stop":
                return AnswerDelta(done=True)
            case "message":
                parts = found.get("content")
                blocks = [_block(part, at) for at, part in enumerate(parts)] if isinstance(parts, list) else []
                whole = "{}" if end_of(reason := text(found.get("stop_reason"))) in ("tools", "whole") else ""
                return AnswerDelta(
                    "".join(block.text for block in blocks),
                    "".join(block.reasoning for block in blocks),
                    reason,
                    self._usage(found.get("usage")),
                    tuple(
                        msgspec.structs.replace(call, arguments=call.arguments or whole)
                        for block in blocks
                        for call in block.calls
                    ),
                )
        return AnswerDelta()

    def _noted(self, new: AnswerDelta) -> AnswerDelta:
        for call in new.calls:
            if call.arguments:
                self._bare.discard(call.index or 0)
            elif call.name:
                self._bare.add(call.index or 0)
        return new

    def _usage(self, found: Any) -> Usage | None:
        if not isinstance(found, dict):
            return None
        self._counts |= {name: count for name in (*READ, "output_tokens") if (count := number(found.get(name)))}
        prompt, completion = sum(self._counts.get(name, 0) for name in READ), self._counts.get("output_tokens", 0)
        return Usage(prompt, completion, prompt + completion) if prompt or completion else None


def _block(found: Any, index: int) -> AnswerDelta:
    """The text, thinking or tool call of a block, or of a part of one. Signatures are skipped."""
    if not isinstance(found, dict):
        return AnswerDelta()
    match found.get("type"):
        case "thinking" | "thinking_delta":
            return AnswerDelta(reasoning=piece(found.get("thinking")))
        case "text" | "text_delta":
            return AnswerDelta(piece(found.get("text")))
        case "tool_use":
            given = found.get("input")
            written = json.dumps(given, ensure_ascii=False) if isinstance(given, dict) and given else ""
            return AnswerDelta(calls=(CallPiece(index, text(found.get("id")), text(found.get("name")), written),))
        case "input_json_delta":
            return AnswerDelta(calls=(CallPiece(index, "", "", piece(found.get("partial_json"))),))
    return AnswerDelta()
