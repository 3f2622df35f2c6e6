"""Chat completions for all other clients: text in, text out, through OpenAI's API.

An answer is a stream in a session of its own. So other clients also profit from what the verifier drafts by itself. The
newest ones are kept for a while: a client sends its whole conversation again with each question, and only what is new
has to be read. Half of the sessions are left to devices; who comes when all others are taken waits in line.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from anyio import to_thread
from starlette.responses import Response

from drafter.template import TemplateFailed
from drafter.text import ChatText
from remote.openai.schema import (
    DONE,
    EVENTS,
    JSON,
    OWNER,
    ChatMessage,
    ChatRequest,
    Choice,
    Chunk,
    ChunkChoice,
    Completion,
    Delta,
    FinishReason,
    Model,
    Models,
    Usage,
    error_body,
)
from remote.openai.sse import event
from remote.protocol import (
    Card,
    Error,
    ErrorCode,
    Progress,
    Sampling,
    Stream,
    digest_of,
    pack_tokens,
    unpack_tokens,
)
from remote.verifier.detokenizer import Detokenizer
from remote.verifier.engine import EngineError
from remote.verifier.holders import EVERYONE
from remote.verifier.line import Line
from remote.verifier.refusals import RoundRefused
from remote.verifier.sessions import Sessions
from remote.verifier.stream_response import STREAM_HEADERS, Streamed
from remote.verifier.turns import Turns
from remote.verifier.verification import Answer

BODY_BYTES_PER_TOKEN = 16
"""Bytes of the longest conversation, per token. JSON may spell a character in six bytes."""
KEPT = 16
"""Answers whose session is kept after their end."""
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
HUNG_UP = 499
"""Nobody reads it. Proxies log this status for a client that left."""


class CompletionRefused(RoundRefused):
    """A request that this verifier cannot answer as asked."""

    def __init__(self, message: str, code: ErrorCode = "bad_request") -> None:
        super().__init__(message)
        self.code = code


@dataclass
class ChatCall:
    """A request and the state of its answer."""

    request: ChatRequest
    model: str
    prompt: list[int]
    pieces: Detokenizer
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    tokens: int = 0
    reason: FinishReason = "length"

    @property
    def usage(self) -> Usage:
        count = len(self.prompt)
        return Usage(prompt_tokens=count, completion_tokens=self.tokens, total_tokens=count + self.tokens)

    def chunk(self, delta: Delta, reason: FinishReason | None = None) -> bytes:
        return self._event((ChunkChoice(delta=delta, finish_reason=reason),), None)

    def usage_chunk(self) -> bytes:
        return self._event((), self.usage)

    def _event(self, choices: tuple[ChunkChoice, ...], usage: Usage | None) -> bytes:
        made = Chunk(id=self.id, created=self.created, model=self.model, choices=choices, usage=usage)
        return event(msgspec.json.encode(made))


class Completions:
    """The endpoint for chat completions. `text`: the target's tokenizer and chat template."""

    def __init__(self, sessions: Sessions, card: Card, text: ChatText, turns: Turns) -> None:
        self._sessions, self._card, self._text, self._turns = sessions, card, text, turns
        self._kept: deque[str] = deque()
        """The sessions of the newest answers."""
        self.line = Line(max(1, sessions.table.max_sessions // 2), turns.max_waiting)
        self._model = Model(
            id=card.target, created=int(time.time()), owned_by=OWNER, max_model_len=card.limits.max_tokens
        )
        self.max_body_bytes = max(card.limits.max_body_bytes, BODY_BYTES_PER_TOKEN * card.limits.max_tokens)

    def models(self) -> Response:
        return _json(Models(object="list", data=(self._model,)))

    def model(self, name: str) -> Response:
        """The model of that name. Raises `CompletionRefused`."""
        self._check_model(name)
        return _json(self._model)

    async def answer(self, body: bytes, gone: Callable[[], Awaitable[bool]], holder: str = EVERYONE) -> Response:
        """Answer a request of a holder. `gone`: true if the client has hung up.

        Raises `RoundRefused`, and what the turns and the engine raise.
        """
        asked = await to_thread.run_sync(self._asked, body)  # A long prompt takes time to be cut into tokens.
        pieces = self._written(asked, gone, holder)
        if asked.request.stream:
            first = await anext(pieces, "")
            events = self._events(asked, first, pieces)
            return Streamed(events, pieces.aclose, headers=STREAM_HEADERS, media_type=EVENTS)
        text = ""
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                text += piece
                if await gone():
                    return Response(status_code=HUNG_UP)
        choice = Choice(message=ChatMessage(role="assistant", content=text), finish_reason=asked.reason)
        made = Completion(id=asked.id, created=asked.created, model=asked.model, choices=(choice,), usage=asked.usage)
        return _json(made)

    async def _events(self, asked: ChatCall, first: str, pieces: AsyncGenerator[str, None]) -> AsyncIterator[bytes]:
        yield asked.chunk(Delta(role="assistant", content=first))
        try:
            async for piece in pieces:
                if piece:
                    yield asked.chunk(Delta(content=piece))
        except (RoundRefused, EngineError) as error:
            code: ErrorCode = error.code if isinstance(error, RoundRefused) else "internal"
            retry = isinstance(error, RoundRefused) and error.retry
            yield event(error_body(Error(code=code, message=str(error), retry=retry)))
            return
        yield asked.chunk(Delta(), asked.reason)
        options = asked.request.stream_options
        if options is not None and options.include_usage:
            yield asked.usage_chunk()
        yield event(DONE.encode())

    async def _written(
        self, asked: ChatCall, gone: Callable[[], Awaitable[bool]], holder: str
    ) -> AsyncGenerator[str, None]:
        """The answer's text, one piece for each of the verifier's rounds. Afterwards `asked` tells how it ended."""
        request, name = asked.request, secrets.token_urlsafe(16)
        frames = self._sessions.stream(
            Stream(
                session=name,
                round=0,
                base=0,
                digest=digest_of([]),
                append=pack_tokens(asked.prompt),
                most=request.max_completion_tokens or request.max_tokens or self._card.limits.max_tokens,
                sampling=_sampling(request),
            ),
            holder,
        )
        complete = False
        async with self.line.place(gone):
            try:
                first = await self._turns.first(name, frames, gone)
                async with contextlib.aclosing(self._turns.rest(name, first, frames)) as rest:
                    async for frame in rest:
                        if isinstance(frame, Progress):
                            yield self._taken(asked, frame)
                        if asked.pieces.stopped:
                            break
                complete = True
                yield asked.pieces.finish()
            finally:
                if self._sessions.table.get(name) is not None:
                    await self._turns.last(name, lambda: self._ended(frames, name, complete))

    def _ended(self, frames: Answer, name: str, complete: bool) -> None:
        """End an answer. The session of a complete one is kept in the place of the oldest one that is kept."""
        frames.close()
        if not complete:
            self._sessions.drop(name)
            return
        self._sessions.rest(name)
        self._kept.append(name)
        if len(self._kept) > KEPT:
            self._sessions.drop(self._kept.popleft())

    def _taken(self, asked: ChatCall, frame: Progress) -> str:
        tokens = unpack_tokens(frame.tokens)
        asked.tokens += len(tokens)
        if tokens[-1] in self._card.stop_tokens:
            asked.reason = "stop"
            tokens.pop()
        piece = asked.pieces.add(tokens)
        if asked.pieces.stopped:
            asked.reason = "stop"
        return piece

    def _asked(self, body: bytes) -> ChatCall:
        """Read a request. Raises `CompletionRefused`."""
        try:
            request = msgspec.json.decode(body, type=ChatRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CompletionRefused(f"The request cannot be read: {error}.") from None
        if request.model:
            self._check_model(request.model)
        if request.n not in (None, 1):
            raise CompletionRefused(f"n is {request.n}; this server writes one answer at a time.")
        if not self._card.chat_template:
            raise CompletionRefused(f"{self._card.target} has no chat template, so it takes no messages.")
        messages = [_plain(message) for message in request.messages]
        begun = ""
        if request.continue_final_message:
            if request.add_generation_prompt:
                raise CompletionRefused("add_generation_prompt begins a new answer; continue_final_message needs none.")
            if messages[-1][0] != "assistant" or len(messages) < 2:
                raise CompletionRefused("continue_final_message needs a message of the assistant after a question.")
            begun = messages.pop()[1]
        try:
            continued = [*messages, ("assistant", begun)]
            prompt = self._text.render_begun(continued) if begun else self._text.render(messages)
            before = self._text.encode(begun)
        except TemplateFailed as error:
            raise CompletionRefused(str(error)) from None
        stops = (request.stop,) if isinstance(request.stop, str) else request.stop or ()
        return ChatCall(request, self._card.target, prompt, Detokenizer(self._text, stops, before))

    def _check_model(self, name: str) -> None:
        if name != self._card.target:
            raise CompletionRefused(f"There is no model {name!r} here; ask for {self._card.target!r}.", "not_found")


def _plain(message: ChatMessage) -> tuple[str, str]:
    """The role and text of a message. Raises `CompletionRefused`."""
    role = ROLES.get(message.role)
    if role is None:
        raise CompletionRefused(f"A message of role {message.role!r}; known are {', '.join(ROLES)}.")
    if message.content is None or isinstance(message.content, str):
        return role, message.content or ""
    if other := [part.type for part in message.content if part.type != "text"]:
        raise CompletionRefused(f"A message holds a part of type {other[0]!r}; this model reads text only.")
    return role, "\n".join(part.text for part in message.content)


def _sampling(request: ChatRequest) -> Sampling:
    """OpenAI's defaults: temperature 1, and another answer each time if no seed is given."""
    return Sampling(
        temperature=1.0 if request.temperature is None else request.temperature,
        top_k=max(0, request.top_k or 0),
        top_p=1.0 if request.top_p is None else request.top_p,
        seed=secrets.randbits(32) if request.seed is None else request.seed,
    )


def _json(message: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(message), media_type=JSON)
