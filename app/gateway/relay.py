"""Passes on an answer to a request with tools: the server's own text and calls, as they come.

The gateway runs no tool. A request with tools is sent to the server once, as it came, and nobody else continues its
answer: if the line breaks, it ends with an error, because half a call must never be completed by another model.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from app.config import Settings
from app.events import Failed, FailureCode, Stats
from app.gateway.answers import Answer
from app.gateway.call import NOT_HERE, PLAIN_TEXT
from app.gateway.refusals import LIMIT, SERVER, GatewayRefused, refused
from app.gateway.sent_text import Piece, Span
from app.remotes.connection import Connection, wants_token
from app.remotes.peer import Endpoint, Peer, Verifier
from app.reply.assistant import Assistant
from app.reply.endpoint import BETWEEN_SECONDS
from remote import Busy, ChatStream, CompletionsClient, Incompatible, LinkDown, Refused, RemoteError, Unsent
from remote.openai.ends import end_of
from remote.openai.request_fields import FOREIGN, FieldRefused, refuse_fields
from remote.openai.schema import ToolCall
from remote.openai.server_errors import BadRequest

AWAY_SECONDS = 3.0
"""How long a request waits for a server that is away. Programs ask again by themselves after that."""
NO_SERVER = "Tools need a server, and there is none: {why}. Ask again when it is back, or without tools."
NO_SERVER_TO_CONTINUE = "Only a server continues plain text, and there is none: {why}. Ask again when it is back."
NO_TOOLS = "{name} does not support tools. Leave tools out, or choose another server with --remote."
NO_TEXT = (
    "{name} does not continue plain text. Ask it through /v1/chat/completions, or choose another server with --remote."
)
LACKING = "the {api} server behind the gateway does not support it"
BROKE_OFF = "The server broke the answer off ({reason}). Ask again."


class Relay:
    def __init__(self, answer: Answer, assistant: Assistant, settings: Settings) -> None:
        self._answer, self._assistant, self._settings = answer, assistant, settings
        self.failed: Failed | None = None
        self.system_unread = False
        self.stats, self.tokens = Stats(), 0
        self.finish = "stop"
        """Why the answer ended, in OpenAI's terms."""
        self.calls: tuple[ToolCall, ...] = ()

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """The pieces of the answer. Leaving early stops it. Raises `GatewayRefused`."""
        connection, peer, client = await self._server()
        self._answer.model = peer.model_name
        try:
            stream = await self._opened(client, peer)
            async with aclosing(stream):
                async for piece in self._read(connection, peer, stream):
                    yield piece
        except RecursionError:
            raise GatewayRefused("The request is nested too deeply. Make it flatter.") from None
        except RemoteError as error:
            if isinstance(error, LinkDown) and not isinstance(error, Unsent):
                connection.lost(peer, error)
            raise _refusal(error) from error
        self._answer.end()

    async def _server(self) -> tuple[Connection, Peer, CompletionsClient]:
        """Who answers. Raises `GatewayRefused` if nobody can."""
        plain = self._answer.call.path == PLAIN_TEXT
        await self._assistant.settled()
        connection = self._assistant.backend.routing.shown
        if connection is not None and connection.verifier is None:
            with connection.wanted(), contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AWAY_SECONDS):
                    while connection.verifier is None:
                        await connection.changed()
        peer = None if connection is None else connection.verifier
        if connection is None or peer is None:
            why = "the gateway was started offline" if connection is None else connection.why
            told = NO_SERVER_TO_CONTINUE if plain else NO_SERVER
            raise refused(Failed(told.format(why=why), "unavailable"))
        client = peer.client if isinstance(peer, Endpoint) else connection.source.chat
        if not isinstance(client, CompletionsClient) or (plain and not client.relays):
            told, field = (NO_TEXT, "prompt") if plain else (NO_TOOLS, "tools")
            raise GatewayRefused(told.format(name=peer.model_name), field, code="unsupported_parameter")
        if not client.relays:
            try:
                refuse_fields(self._answer.call.relayed or {}, {**FOREIGN, **NOT_HERE}, LACKING.format(api=client.api))
            except FieldRefused as error:
                raise GatewayRefused(str(error), error.param, code=error.reason) from None
        return connection, peer, client

    async def _opened(self, client: CompletionsClient, peer: Peer) -> ChatStream:
        settings, options = self._settings, client.options
        return await client.relay(
            {**self._defaults(peer), **(self._answer.call.relayed or {}), "model": peer.model_name},
            path=self._answer.call.path,
            deadline=options.first_words_seconds or settings.first_words_timeout,
            silence=options.read_seconds or BETWEEN_SECONDS,
        )

    def _defaults(self, peer: Peer) -> dict[str, Any]:
        """Fields from the settings, if the request does not set them."""
        settings, asked = self._settings, self._answer.call.relayed or {}
        chosen: dict[str, Any] = {}
        if (settings.temperature is not None and asked.get("top_p") is None) or isinstance(peer, Verifier):
            chosen["temperature"] = settings.temperature or 0.0
        if settings.max_tokens is not None and "max_completion_tokens" not in asked:
            chosen["max_tokens"] = settings.max_tokens
        return chosen

    async def _read(self, connection: Connection, peer: Peer, stream: ChatStream) -> AsyncGenerator[Piece, None]:
        sent, text, hosted = self._answer.sent, "", isinstance(peer, Endpoint)
        async for new in stream:
            connection.gained()
            text += new
            calls = stream.calls.new()
            for piece in sent.take(text, hosted=hosted, complete=bool(calls)):
                yield piece
            if calls:
                sent.hosted = hosted
                yield Piece("", Span(len(text), len(text), sent.source), calls)
        for piece in sent.take(text, hosted=hosted, complete=True):
            yield piece
        end = end_of(stream.reason)
        if end == "broken":
            raise GatewayRefused(
                BROKE_OFF.format(reason=stream.reason), status=502, code="answer_broken", kind=SERVER, retries=False
            )
        self.calls = stream.calls.whole
        if end in ("length", "context", "unknown") or stream.overlong:
            self.finish = "length"
        else:
            self.finish = "content_filter" if end == "filter" else "tool_calls" if self.calls else "stop"
        if stream.usage is not None:
            self.stats, self.tokens = Stats(read=stream.usage.prompt_tokens), stream.usage.completion_tokens


def _refusal(error: RemoteError) -> GatewayRefused:
    """The error for a request that the server did not answer to its end."""
    said = str(error).rstrip(".") + "."
    if isinstance(error, Busy):
        seconds = max(1, round(error.after or 1))
        if error.code == "busy":
            return GatewayRefused(said, status=429, code="rate_limit_exceeded", kind=LIMIT, seconds=seconds)
        return GatewayRefused(said, status=503, code="server_busy", kind=SERVER, seconds=seconds)
    if isinstance(error, BadRequest):
        return GatewayRefused(said, error.field or None, code="server_refused")
    code: FailureCode = "broken"
    if isinstance(error, Unsent):
        code = "unavailable"
    elif isinstance(error, Refused) and error.code != "unavailable":
        code = "too_long" if error.code == "too_long" else "refused"
    elif isinstance(error, Incompatible):
        code = "incompatible"
    return refused(Failed(said, code, wants_token=wants_token(error)))
