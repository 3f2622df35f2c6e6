"""Model servers for tests, as their programs speak: real sockets on loopback with the pages that each program has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tests.remote.toy_verifier import http, listening
from tests.support.chat_server import in_thread

JSON = "application/json"


def listed(*names: str, owner: str, created: float = 1_700_000_000) -> dict[str, Any]:
    """A list of models in OpenAI's shape."""
    models = [{"id": name, "object": "model", "created": created, "owned_by": owner} for name in names]
    return {"object": "list", "data": models}


OLLAMA = {"/v1/models": listed("llama3.2:latest", "qwen3:8b", owner="library"), "/api/version": {"version": "0.9.1"}}
EMPTY_OLLAMA = {"/v1/models": {"object": "list", "data": None}, "/api/version": {"version": "0.9.1"}}
OWN_OLLAMA = {"/v1/models": listed("me/mine:latest", owner="me"), "/api/version": {"version": "0.9.1"}}
LM_STUDIO = {
    "/v1/models": {"data": [{"id": "qwen2.5-7b", "object": "model", "owned_by": "organization_owner"}]},
    "/api/v0/models": {"data": [{"id": "qwen2.5-7b", "state": "loaded", "compatibility_type": "gguf"}]},
}
LATER_LM_STUDIO = {**LM_STUDIO, "/v1/models": listed("qwen2.5-7b", owner="somebody")}
LLAMA_CPP = {"/v1/models": listed("tiny.gguf", owner="llamacpp"), "/props": {"default_generation_settings": {}}}
ROUTED_LLAMA_CPP = {**LLAMA_CPP, "/v1/models": listed("tiny.gguf", owner="ggml-org")}
VLLM = {"/v1/models": listed("Qwen/Qwen3-8B", owner="vllm"), "/version": {"version": "0.11.0"}}
TRANSFORMERS = {"/v1/models": listed("Qwen/Qwen3-0.6B", owner="Qwen", created=1_700_000_000.5)}
BARE_TRANSFORMERS = {"/openapi.json": {"openapi": "3.1.0", "paths": {"/load_model": {}, "/v1/models": {}}}}
"""Nothing was downloaded yet: its list of models is an error."""
OTHER = {"/v1/models": listed("talker", owner="somebody")}


@dataclass
class ModelServer:
    """Answers `GET` with these pages and 404 for others. `token`: what its pages below `/v1` want."""

    pages: Mapping[str, Any]
    token: str | None = None
    asked: list[str] = field(default_factory=list)
    """The first line of each request."""

    def listening(self) -> AbstractAsyncContextManager[int]:
        return listening(self._serve)

    def in_thread(self) -> AbstractContextManager[int]:
        """Serve beside a test that has no event loop; yields the port."""
        return in_thread(self.listening())

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.asked.append(head.splitlines()[0])
        path = head.split(" ")[1]
        if self.token and path.startswith("/v1/") and f"authorization: bearer {self.token}" not in head.lower():
            body = {"error": {"message": "Give an API key.", "code": 401}}
            writer.write(http(json.dumps(body).encode(), status="401 Unauthorized", content_type=JSON))
        elif path == "/v1/models" and self.pages is BARE_TRANSFORMERS:
            writer.write(http(b"Internal Server Error", status="500 Error", content_type="text/plain; charset=utf-8"))
        elif path in self.pages:
            writer.write(http(json.dumps(self.pages[path]).encode(), content_type=JSON))
        else:
            writer.write(http(b'{"error":"Not Found"}', status="404 Not Found", content_type=JSON))
        await writer.drain()
