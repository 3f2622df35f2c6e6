"""Google's OpenAI-compatible API. Its own list of models has their context sizes, which the compatible list lacks.

From Gemini 3 on it signs the thoughts before each tool call, in a field that no other server has, and refuses calls
that come back without. Nothing here keeps signatures, so each call says that it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from remote.openai.client import CompletionsClient
from remote.openai.model_list import ModelList
from remote.openai.schema import Model
from remote.openai.stream import ChatStream
from remote.wire import common_headers

PATH = "/v1beta/openai"
"""How the address ends. Source: Gemini API reference, `models.list`, 2026-11."""
LISTED = 1000
"""Models in one answer, the most that may be asked for."""


UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What a call has that was made elsewhere. Source: Gemini API reference, `Thought signatures`, 2026-11."""


def is_gemini(url: str) -> bool:
    """Whether an address is that of Google's API, or of a server in its place."""
    return url.strip().rstrip("/").endswith(PATH)


class GeminiClient(CompletionsClient):
    """Google's Gemini, at an address that ends in `/v1beta/openai`."""

    def __init__(self, url: str, token: str | None = None, **options: Any) -> None:
        super().__init__(url, token, **options)
        self.list_path = f"{self._url.removesuffix('/openai')}/models?pageSize={LISTED}"

    @staticmethod
    def signed(token: str | None) -> dict[str, str]:
        return common_headers(None)

    def _signature(self, path: str) -> dict[str, str]:
        """The key, once: Google's own list of models takes no `Authorization` with an API key."""
        if self._token is None:
            return {}
        return {"x-goog-api-key": self._token} if path == self.list_path else common_headers(self._token)

    def _models(self, listed: ModelList) -> tuple[Model, ...]:
        return tuple(msgspec.structs.replace(model, id=model.id.removeprefix("models/")) for model in listed.models)

    async def relay(
        self, request: Mapping[str, Any], *, deadline: float, silence: float, path: str = "/chat/completions"
    ) -> ChatStream:
        if isinstance(said := request.get("messages"), list):
            request = {**request, "messages": [_unsigned(message) for message in said]}
        return await super().relay(request, deadline=deadline, silence=silence, path=path)


def _unsigned(message: Any) -> Any:
    """The message, each of its tool calls with a signature, or a word in its place."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(calls, list):
        return message
    return {
        **message,
        "tool_calls": [{"extra_content": UNSIGNED, **one} if isinstance(one, dict) else one for one in calls],
    }
