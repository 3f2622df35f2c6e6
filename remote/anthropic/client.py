"""The device's end of Anthropic's Messages API. The rest of the program uses it as any other chat server.

A conversation is translated when it is sent, and events when they arrive; deadlines, refusals and limits are those of
`remote/openai/client.py`. Source: Anthropic's API reference and migration guides, 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from remote.anthropic.events import MessageReader
from remote.anthropic.messages import MAX_TOKENS, last_words, messages_request
from remote.openai.client import CompletionsClient
from remote.openai.delta import AnswerDelta
from remote.openai.model_list import ModelList
from remote.openai.request_fields import FieldRefused, prepared, read_typed
from remote.openai.schema import EVENTS, JSON, ChatRequest, Model
from remote.openai.server_errors import BadRequest
from remote.openai.stream import ChatStream
from remote.protocol import Error
from remote.wire import common_headers

VERSION = "2023-06-01"
"""Version of the API, which every request names. In the next one, 2026-10-21, no model takes a temperature, and other
servers with this API do not know it."""
LISTED = 1000
"""Models in one answer, the most that may be asked for."""
PREFILLED = re.compile(r"claude-(2|3|instant|(opus|sonnet|haiku)-4(-[015])?(-\d{8})?$)")
"""Models that continue a last message of the assistant. From Claude 4.6 on, they refuse one and are asked to
continue."""
TOO_MANY = re.compile(r"max_tokens: \d+ > (\d+)")
"""A model's own limit, in a refusal: `max_tokens: 32000 > 8192, which is the maximum …`."""
NO_ROOM = re.compile(r"context limit: (\d+) \+ \d+ > (\d+)")
"""The room in the context of an older model: `… exceed context limit: 190000 + 32000 > 200000, …`."""
REQUEST = prepared(ChatRequest)


class MessagesClient(CompletionsClient):
    """Anthropic's API, or another server that speaks it, at its base address with or without `/v1`."""

    own_headers = {"accept": f"{JSON}, {EVENTS}", "anthropic-version": VERSION}
    api = "Anthropic-compatible"
    list_path = f"/models?limit={LISTED}"
    chat_path = "/messages"
    lacks = ("seed",)
    relays = False
    _limits: Mapping[str, int] = MappingProxyType({})
    """Most tokens that each model may write, from the last list."""
    _unfilled: frozenset[str] = frozenset()
    """Models that have refused a last message of the assistant."""

    @staticmethod
    def signed(token: str | None) -> dict[str, str]:
        return common_headers(None) if token is None else {**common_headers(None), "x-api-key": token}

    async def models(self, timeout: float, *, wanted: str | None = None) -> tuple[Model, ...]:
        """As in `CompletionsClient`, with what is known of each model."""
        found = await super().models(timeout, wanted=wanted)
        return tuple(msgspec.structs.replace(model, continuing=True) for model in found)

    def may_predict(self, model: Model) -> bool:
        return False

    async def relay(
        self, request: Mapping[str, Any], *, deadline: float, silence: float, path: str = "/chat/completions"
    ) -> ChatStream:
        """As in `CompletionsClient`, but for chat only, and translated."""
        try:
            asked = read_typed(request, REQUEST, {})
            most = asked.max_completion_tokens or asked.max_tokens
            asked = msgspec.structs.replace(asked, max_tokens=most, max_completion_tokens=None)
            begun, waits = bool(asked.continue_final_message), (deadline, silence)
            return await self._answer(asked, *waits, self._encoded, self.chat_path, continued=begun, tools=True)
        except FieldRefused as error:
            told = Error(code="bad_request", message=str(error), retry=False)
            raise BadRequest(told, 400, str(error), error.param or "") from None

    def _encoded(self, request: ChatRequest) -> bytes:
        most = self._limits.get(request.model or "", MAX_TOKENS)
        return msgspec.json.encode(messages_request(request, most, self._repeated(request)))

    def _repeated(self, request: ChatRequest) -> str:
        """The last words of an answer that is to be continued by a model that takes no beginning of it, or ""."""
        model = request.model or ""
        taken = PREFILLED.match(model) is not None and model not in self._unfilled
        return "" if taken or not request.continue_final_message else last_words(request.messages[-1])

    def _mended(self, request: ChatRequest, error: BadRequest) -> ChatRequest | None:
        """The request with as many tokens as the model may write, or in the way it continues an answer."""
        if "prefill" in error.said and not self._repeated(request):
            self._unfilled |= {request.model or ""}
            return request if self._repeated(request) else None
        room = None
        if found := TOO_MANY.search(error.said):
            room = int(found[1])
        elif found := NO_ROOM.search(error.said):
            room = int(found[2]) - int(found[1])
        sent = request.max_tokens or self._limits.get(request.model or "", MAX_TOKENS)
        return msgspec.structs.replace(request, max_tokens=room) if room and 0 < room < sent else None

    def _reader(self, request: ChatRequest) -> Callable[[Any], AnswerDelta]:
        return MessageReader(self.host, self._repeated(request)).read

    def _models(self, listed: ModelList) -> tuple[Model, ...]:
        self._limits = {model.id: model.most_written for model in listed.models if isinstance(model.most_written, int)}
        return listed.models
