"""Google's OpenAI-compatible API. Its own list of models tells their context, which the compatible one leaves out."""

from __future__ import annotations

from typing import Any

import msgspec

from remote.openai.client import CompletionsClient
from remote.openai.model_list import ModelList
from remote.openai.schema import Model
from remote.wire import common_headers

PATH = "/v1beta/openai"
"""How the address ends. Source: Gemini API reference, `models.list`, 2026-11."""
LISTED = 1000
"""Models in one answer, the most that may be asked for."""


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
        return common_headers(token) if token is None else {**common_headers(token), "x-goog-api-key": token}

    def _models(self, listed: ModelList) -> tuple[Model, ...]:
        return tuple(msgspec.structs.replace(model, id=model.id.removeprefix("models/")) for model in listed.models)
