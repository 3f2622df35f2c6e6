"""The device's end of OpenAI's dialect: any server that speaks it can answer, in text and without memory.

Fails as a verifier does: every failure is a `RemoteError`, so whoever can carry on alone from one can from the other.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import TypeVar

import httpx
import msgspec

from remote.errors import Broken, Incompatible, LinkDown, Refused, RemoteError, quoted
from remote.handshake import Handshake
from remote.openai import (
    DONE,
    EVENTS,
    JSON,
    ChatRequest,
    Choice,
    ChunkChoice,
    Message,
    Model,
    Models,
    StreamOptions,
    Usage,
    read_error,
)
from remote.protocol import Error, ErrorCode, Sampling
from remote.sse import EventTooLong, read_events
from remote.transport import DEFAULT, TransportOptions
from remote.wire import Answer, Traffic, Wire

S = TypeVar("S", bound=msgspec.Struct)
VERSIONED = re.compile(r"/v\d[^/]*(/|$)")
"""A base address that names its version, as most servers' documents give it."""
ADVICE = "check the token of this remote"
TOO_LONG = ("context_length", "context length", "too long", "maximum context")
SPENT = "insufficient_quota"
"""A limit that no waiting lifts."""


class _Piece(msgspec.Struct, frozen=True):
    """What is read of an event. Servers differ most in the fields that nobody needs."""

    choices: tuple[ChunkChoice, ...] | None = None
    usage: Usage | None = None


class _Whole(msgspec.Struct, frozen=True):
    """Likewise of an answer that is not streamed."""

    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None


class CompletionsClient:
    """One OpenAI-compatible server.

    `url`: its base address, with or without `/v1` at the end. The other arguments are those of `VerifierClient`.
    Raises `Misconfigured`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        options: TransportOptions = DEFAULT,
    ) -> None:
        base = url.strip().rstrip("/")
        path = base.partition("://")[2].partition("/")
        if not VERSIONED.search("".join(path[1:])):
            base += "/v1"
        accept = f"{JSON}, {EVENTS}"
        self._wire = Wire(base, token, transport=transport, options=options, accept=accept, peer="a chat server")
        self.rtt_seconds: float | None = None
        """How long the last list of models took to arrive, which costs a server next to nothing; None before."""

    @property
    def host(self) -> str:
        return self._wire.host

    @property
    def handshake(self) -> Handshake | None:
        """As for `VerifierClient`."""
        return self._wire.handshake

    @property
    def ahead_seconds(self) -> float | None:
        """How far the server's clock was ahead of this device's at its last answer; None where it tells no time."""
        return self._wire.ahead_seconds

    async def __aenter__(self) -> CompletionsClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def models(self, timeout: float) -> tuple[Model, ...]:
        """What can be asked, at least one. Raises `LinkDown`, `Refused`, `Incompatible`."""
        async with self._wire.within(timeout):
            answer = await self._asked("GET", "/models", (JSON,), Traffic(), timeout)
            body = await answer.read()
        self.rtt_seconds = answer.arrived - answer.sent
        models = _decoded(body, Models, self._wire.host, "list of models").data
        if not models:
            raise Incompatible(f"{self._wire.host} serves no model; load one there")
        return models

    async def chat(
        self,
        messages: Sequence[tuple[str, str]],
        sampling: Sampling,
        *,
        model: str,
        most: int,
        deadline: float,
        silence: float,
        patience: float,
        continued: bool = False,
    ) -> ChatStream:
        """Ask for an answer of at most `most` tokens to `messages`, (role, text) in order.

        `continued`: the last message is the assistant's, and is gone on with; only where the model `continues`.
        `deadline`: seconds until the answer begins; `silence`: without a byte after which the line counts as broken;
        `patience`: without text, where the line is kept open. Raises `LinkDown`, `Refused`, `Incompatible`.
        """
        request = ChatRequest(
            messages=tuple(Message(role=role, content=text) for role, text in messages),
            model=model,
            max_tokens=most,
            temperature=sampling.temperature,
            top_p=sampling.top_p if sampling.top_p < 1 else None,
            top_k=sampling.top_k or None,  # Not every server knows it, and some refuse what they do not know.
            seed=sampling.seed if sampling.temperature else None,
            stream=True,
            stream_options=StreamOptions(include_usage=True),
            add_generation_prompt=False if continued else None,
            continue_final_message=True if continued else None,
        )
        traffic, body = Traffic(), msgspec.json.encode(request)
        async with self._wire.within(deadline):
            answer = await self._asked(
                "POST", "/chat/completions", (EVENTS, JSON), traffic, max(deadline, silence), body
            )
        return ChatStream(self._wire, answer, traffic, silence=silence, patience=patience)

    async def _asked(
        self,
        method: str,
        path: str,
        kinds: tuple[str, ...],
        traffic: Traffic,
        silence: float,
        body: bytes | None = None,
    ) -> Answer:
        """An answer with one of these content types; any other is raised.

        Where the connection breaks it is asked once more: it may be one that the server had given up long ago.
        """
        for last in (False, True):
            try:
                answer = await self._wire.exchange(method, path, traffic, silence=silence, body=body, content_type=JSON)
                break
            except Broken:
                if last:
                    raise
        if answer.status != 200 or answer.content_type not in kinds:
            raise await _refusal(self._wire, answer)
        return answer

    async def close(self) -> None:
        """Close all connections, and with them answers still on their way."""
        await self._wire.aclose()


class ChatStream:
    """An answer's text, piece by piece: read it to the end or close it. Fails as the call for it does.

    It is whole where the server says so; a line that ends before is `Broken`.
    """

    def __init__(self, wire: Wire, answer: Answer, traffic: Traffic, *, silence: float, patience: float) -> None:
        self.reason: str | None = None
        """Why the answer ended, as the server puts it: `stop`, `length` or another; None before, or unsaid."""
        self.usage: Usage | None = None
        """Tokens, where the server counts them; there at the end."""
        self.first_byte_seconds = answer.arrived - answer.sent
        """The round trip, and what the server took to begin."""
        self._wire, self._answer, self._traffic = wire, answer, traffic
        self._silence, self._patience = silence, patience
        self._pieces = self._events() if answer.content_type == EVENTS else self._whole()

    @property
    def bytes_up(self) -> int:
        return self._traffic.up

    @property
    def bytes_down(self) -> int:
        """Grows while it is read."""
        return self._traffic.down

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> str:
        try:
            async with self._wire.within(self._patience):
                return await anext(self._pieces)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._answer.aclose()

    async def _events(self) -> AsyncGenerator[str, None]:
        host, ended = self._wire.host, False
        try:
            async for data in read_events(self._heard()):
                if data == DONE:
                    return
                if (error := read_error(data)) is not None:
                    message, code = error
                    raise _refused(host, 500, self._wire.hiding(message), code)
                piece = _decoded(data, _Piece, host, "piece of an answer")
                self.usage = piece.usage or self.usage
                for choice in piece.choices or ():
                    if choice.index == 0:
                        self.reason = choice.finish_reason or self.reason
                        ended = self.reason is not None
                        if choice.delta.content:
                            yield choice.delta.content
        except EventTooLong as error:
            raise Incompatible(f"{host} sent {error}; check that it serves chat completions") from None
        except LinkDown:
            if not ended:  # Else only the count of tokens is missing.
                raise
        if not ended:
            raise Broken(f"the answer of {host} ended early; check the network")

    async def _heard(self) -> AsyncGenerator[bytes, None]:
        chunks = self._answer.chunks()
        while True:
            async with self._wire.within(self._silence):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            yield chunk

    async def _whole(self) -> AsyncGenerator[str, None]:
        """From a server that does not stream."""
        host = self._wire.host
        made = _decoded(await self._answer.read(), _Whole, host, "answer")
        if not made.choices or not isinstance(text := made.choices[0].message.content, str):
            raise Incompatible(f"{host} sent an answer without text; check which model it serves")
        self.reason, self.usage = made.choices[0].finish_reason, made.usage
        if text:
            yield text


async def _refusal(wire: Wire, answer: Answer) -> RemoteError:
    """What to raise for an answer that is none."""
    try:
        told = read_error(await answer.read()) if answer.status >= 400 and answer.content_type == JSON else None
        if told is None:
            return wire.stranger(answer)
        message, code = told
        return _refused(wire.host, answer.status, wire.hiding(message), code)
    finally:
        await answer.aclose()


def _refused(host: str, status: int, message: str, kind: str) -> Refused:
    """`status`: 500 for an error amid an answer, whose own code may say another."""
    if status == 500 and (named := re.search(r"\b[45]\d\d\b", kind)):
        status = int(named[0])
    code: ErrorCode = "bad_request"
    if status in (401, 403):
        code = "unauthorised"
        if ADVICE not in message.lower():
            message = f"{message}; {ADVICE}"
    elif status == 413 or any(sign in f"{kind} {message}".lower() for sign in TOO_LONG):
        code = "too_long"
    elif status == 404:
        code = "not_found"
    elif status == 429:
        code = "busy"
    elif status >= 500 or status == 408:
        code = "unavailable"
    retry = code in ("busy", "unavailable") and SPENT not in kind
    return Refused(Error(code=code, message=f"{host} refused ({status}): {message}", retry=retry))


def _decoded(data: bytes | str, kind: type[S], host: str, what: str) -> S:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Incompatible(
            f"{host} sent no readable {what} ({quoted(str(error))}); check that it serves chat completions"
        ) from None
