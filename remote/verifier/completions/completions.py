"""Completions for all other clients: text in, text out, through OpenAI's API.

An answer is a stream in its own session, so other clients also benefit from the verifier's own drafts. The newest
sessions are kept for a while: a client resends its whole conversation with each question, and only the new part has to
be read. Half of the sessions are reserved for devices; a request waits in the queue while the other half is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

import msgspec
from anyio import to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from models.engines.engine import EngineError
from models.text.chat_text import ChatText
from remote.openai.schema import DONE, EVENTS, JSON, OWNER, Model, Models, error_body
from remote.openai.sse import COMMENT, QUIET_SECONDS, event
from remote.protocol import Card, Error, ErrorCode, Progress, Stream, digest_of, pack_tokens, unpack_tokens
from remote.tasks import end, kept_alive
from remote.verifier.completions.completion_requests import ChoiceState, CompletionCall, RequestReader
from remote.verifier.completions.completion_shapes import ChatShape, Piece, Shape, TextShape
from remote.verifier.completions.line import Line
from remote.verifier.holders import EVERYONE
from remote.verifier.observability.observer import HUNG_UP
from remote.verifier.refusals import Overloaded, RoundRefused
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import Turns
from remote.verifier.sessions.verification import Answer
from remote.verifier.stream_response import STREAM_HEADERS, Streamed

BODY_BYTES_PER_TOKEN = 16
"""Bytes of the longest conversation, per token. JSON may spell a character in six bytes."""
KEPT = 16
"""How many answers that are over keep their session."""


class Completions:
    """The endpoints for completions. `text`: the target's tokenizer and chat template.

    `max_wait`: as for `Line`. A stream without words for `QUIET_SECONDS` sends a sign of life.
    """

    def __init__(
        self,
        sessions: Sessions,
        card: Card,
        text: ChatText,
        turns: Turns,
        max_wait: float | None = None,
    ) -> None:
        self._sessions, self._card, self._text, self._turns = sessions, card, text, turns
        self._reader = RequestReader(card, text)
        self._kept: deque[str] = deque()
        """The sessions of the newest answers."""
        self.line = Line(max(1, sessions.table.max_sessions // 2), turns.max_waiting, max_wait)
        self._model = Model(
            id=card.target, created=int(time.time()), owned_by=OWNER, max_model_len=card.limits.max_tokens
        )
        self.max_body_bytes = max(card.limits.max_body_bytes, BODY_BYTES_PER_TOKEN * card.limits.max_tokens)

    def models(self) -> Response:
        return _json(Models(object="list", data=(self._model,)))

    def model(self, name: str) -> Response:
        """The model with that name. Raises `CompletionRefused`."""
        self._reader.check_model(name)
        return _json(self._model)

    async def chat(self, body: bytes, gone: Callable[[], Awaitable[bool]], holder: str = EVERYONE) -> Response:
        """Answer a holder's request for chat. `gone`: true if the client has disconnected.

        Raises `RoundRefused`, and what the turns and the engine raise.
        """
        # In a thread, because tokenizing a long prompt takes time.
        call = await to_thread.run_sync(self._reader.chat, body)
        return await self._answered(call, ChatShape(self._card.target, self._text), gone, holder)

    async def text(self, body: bytes, gone: Callable[[], Awaitable[bool]], holder: str = EVERYONE) -> Response:
        """Answer a holder's request for plain text, as `chat` does."""
        call = await to_thread.run_sync(self._reader.text, body)
        return await self._answered(call, TextShape(self._card.target, self._text), gone, holder)

    async def _answered(
        self, call: CompletionCall, shape: Shape, gone: Callable[[], Awaitable[bool]], holder: str
    ) -> Response:
        answers = [self._written(choice, gone, holder) for choice in call.choices]
        pieces = answers[0] if len(answers) == 1 else merged(answers)
        if call.stream:
            return await self._streamed(call, shape, pieces)
        written: dict[int, list[Piece]] = {choice.index: [] for choice in call.choices}
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                written[piece.choice.index].append(piece)
                if await gone():
                    return Response(status_code=HUNG_UP)
        return _json(shape.whole(call, [written[choice.index] for choice in call.choices]))

    async def _streamed(self, call: CompletionCall, shape: Shape, pieces: AsyncGenerator[Piece, None]) -> Response:
        """The answer as a stream. If its first words take long, the stream begins without them."""
        first = asyncio.ensure_future(anext(pieces))

        async def close() -> None:
            await end(first)
            await pieces.aclose()

        try:
            await asyncio.wait([first], timeout=QUIET_SECONDS)
            if first.done():
                first.result()  # Until something has been sent, a refusal is a status, not an event.
        except BaseException:
            await close()
            raise
        events = kept_alive(self._events(call, shape, first, pieces), QUIET_SECONDS, COMMENT)
        return Streamed(events, close, headers=STREAM_HEADERS, media_type=EVENTS)

    async def _events(
        self, call: CompletionCall, shape: Shape, first: Awaitable[Piece], rest: AsyncGenerator[Piece, None]
    ) -> AsyncGenerator[bytes, None]:
        begun = set[int]()
        try:
            async for piece in _chained(first, rest):
                choice = piece.choice
                if choice.index not in begun:
                    yield shape.first(piece)
                    begun.add(choice.index)
                elif piece.text or piece.noted or piece.calls:
                    yield shape.next(piece)
                if piece.last:
                    yield shape.end(choice)
        except (RoundRefused, EngineError) as error:
            code: ErrorCode = error.code if isinstance(error, RoundRefused) else "internal"
            retry = isinstance(error, RoundRefused) and error.retry
            param = error.param if isinstance(error, RoundRefused) else None
            yield event(error_body(Error(code=code, message=str(error), retry=retry), param=param))
            return
        except ClientDisconnect:  # The client disconnected while it waited for the first words.
            return
        if call.counts:
            yield shape.usage(call)
        yield event(DONE.encode())

    async def _written(
        self, choice: ChoiceState, gone: Callable[[], Awaitable[bool]], holder: str
    ) -> AsyncGenerator[Piece, None]:
        """An answer, one piece for each of the verifier's rounds. Afterwards `choice` records how it ended."""
        name, sound = secrets.token_urlsafe(16), True
        # A request is refused before its first answer, or not at all.
        async with self.line.place(gone, sure=choice.index > 0) as place:
            try:
                while True:
                    frames = self._frames(choice, name, holder)
                    with contextlib.suppress(Overloaded):
                        first = await self._turns.first(name, frames, gone)
                        break
                    await self.line.make_way(place, gone)
                self.line.began()
                async with contextlib.aclosing(self._turns.rest(name, first, frames)) as rest:
                    async for frame in rest:
                        if isinstance(frame, Progress):
                            yield self._taken(choice, frame)
                        if choice.pieces.stopped or choice.tokens >= choice.most:
                            break
                yield _end(choice)
            except Exception as error:
                sound = isinstance(error, ClientDisconnect)
                raise
            finally:
                if self._sessions.table.get(name) is not None:
                    await self._turns.last(name, lambda: self._ended(frames, name, sound))

    def _frames(self, choice: ChoiceState, name: str, holder: str) -> Answer:
        return self._sessions.stream(
            Stream(
                session=name,
                round=0,
                base=0,
                digest=digest_of([]),
                append=pack_tokens(choice.prompt),
                most=choice.most + choice.forced,
                sampling=choice.sampling,
            ),
            holder,
            choice.options,
            again=choice.again,
        )

    def _ended(self, frames: Answer, name: str, sound: bool) -> None:
        """End an answer. Its session is kept unless it failed, and replaces the oldest one kept. A client that hung up
        may come back: what was read is not read again."""
        frames.close()
        if not sound:
            self._sessions.drop(name)
            return
        self._sessions.rest(name)
        self._kept.append(name)
        if len(self._kept) > KEPT:
            self._sessions.drop(self._kept.popleft())

    def _taken(self, choice: ChoiceState, frame: Progress) -> Piece:
        """Add a round's tokens to an answer, up to the one that ends it."""
        tokens = unpack_tokens(frame.tokens)
        noted = [choice.options.noted.popleft() for _ in tokens] if choice.options.notes else []
        again = self._spelt_again(choice, tokens)
        text = choice.pieces.add(tokens[:again]) if again else ""
        new = slice(again, again + choice.most - choice.tokens)
        tokens, noted = tokens[new], noted[new]
        shown = tokens[:-1] if tokens and tokens[-1] in self._card.stop_tokens else tokens
        # A stop string may end an answer at any token; later tokens are not counted. A marker is special, so it has no
        # text of its own.
        single = choice.pieces.stops or choice.marker in shown
        parts = [[token] for token in shown] if single else [shown]
        count = 0
        for part in parts:
            if choice.calls is not None and part == [choice.marker]:
                text += choice.calls.form.opening
            text += choice.pieces.add(part)
            count += len(part)
            if choice.pieces.stopped:
                choice.reason = "stop"
                break
        else:
            if len(shown) < len(tokens):
                choice.reason = "stop"
                choice.tokens += 1
        choice.tokens += count
        if choice.calls is None:
            return Piece(choice, text, noted[:count])
        text, called = choice.calls.feed(text)
        return Piece(choice, text, noted[:count], calls=called)

    def _spelt_again(self, choice: ChoiceState, tokens: Sequence[int]) -> int:
        """How many of an answer's next tokens only spell what was given of it."""
        count = 0
        while choice.forced and count < len(tokens):
            left = choice.forced - len(self._text.spelling(tokens[count])[1])
            choice.forced = max(0, left)
            if left < 0:
                break
            count += 1
        return count


def _end(choice: ChoiceState) -> Piece:
    """The last piece of an answer."""
    text = choice.pieces.finish()
    if choice.calls is None:
        return Piece(choice, text, last=True)
    shown, called = choice.calls.feed(text)
    rest, more = choice.calls.end(cut=choice.reason == "length")
    if choice.calls.calls and choice.reason == "stop":
        choice.reason = "tool_calls"
    return Piece(choice, shown + rest, last=True, calls=[*called, *more])


async def merged(answers: Sequence[AsyncGenerator[Piece, None]]) -> AsyncGenerator[Piece, None]:
    """The pieces of several answers, at least one, as they arrive.

    The others begin after the first one's first piece, when the prompt that they share has been read.
    """
    later, waiting = list(answers), dict[asyncio.Task[Piece | None], AsyncGenerator[Piece, None]]()
    begin = 1
    try:
        while waiting or later:
            for answer in later[:begin]:
                waiting[asyncio.create_task(_next(answer))] = answer
            del later[:begin]
            begin = len(later)
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer = waiting.pop(task)
                if (piece := task.result()) is not None:
                    waiting[asyncio.create_task(_next(answer))] = answer
                    yield piece
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for answer in answers:
            await answer.aclose()


async def _next(answer: AsyncGenerator[Piece, None]) -> Piece | None:
    return await anext(answer, None)


async def _chained(first: Awaitable[Piece], rest: AsyncGenerator[Piece, None]) -> AsyncIterator[Piece]:
    yield await first
    async for piece in rest:
        yield piece


def _json(message: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(message), media_type=JSON)
