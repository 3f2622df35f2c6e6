"""One answer of an OpenAI-compatible server as it arrives: its text, its reasoning, and how it ended.

Bytes show that the connection is alive; text and reasoning show that the server makes progress. The two have separate
time limits, so a silently thinking model is not confused with a server that only keeps the connection alive.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from remote.errors import Broken, Incompatible, LinkDown, TooSlow, quoted
from remote.openai.delta import AnswerDelta, ThinkTags, read_delta
from remote.openai.ends import end_of
from remote.openai.error_bodies import ErrorBody, read_error
from remote.openai.lenient_json import UNREADABLE, Halves, parse
from remote.openai.schema import DONE, EVENTS, JSON, PredictionTokens, Usage
from remote.openai.server_errors import refused
from remote.openai.sse import EventReader, EventTooLong, begins
from remote.openai.tool_calls import ToolCalls, TooManyCalls
from remote.proxies import to_check
from remote.response import Response
from remote.wire import Wire

MAX_TEXT = 1 << 20
"""Most characters of an answer. Anything beyond is not read."""
MAX_REASONING = 1 << 22
"""Most characters of reasoning before the first word of the answer."""
KEPT_REASONING = 1 << 18
"""Characters of reasoning that are kept."""
MAX_WHOLE_BYTES = 16 << 20
"""Most bytes of an answer that is not streamed. It may contain an image."""
AFTER_END_SECONDS = 2.0
"""How long to wait for the token counts after the answer has ended."""
UNNAMED = "it ended the answer with an error and did not say which"
NO_TOOLS = "called a tool, though none was offered, and sent no text; ask again, or offer tools"
MAX_SHOWN = 100
"""Characters to quote of something that is not a piece of an answer."""


class ChatStream:
    """An answer's text, piece by piece. Read it to the end or close it. It raises what the call that began it raises.

    A piece is empty if only reasoning or tool calls have arrived. The answer is complete if the server says so, by a
    finish reason or `[DONE]`; a connection that ends earlier raises `Broken`.

    `begun`: when the question was sent, by the wire's clock. `deadline`: seconds from then to the first words, and from
    any words to the next. `silence`: seconds without a byte after the first words. `read`: reads an event, or a whole
    answer. `tools`: tools were offered, so an answer may consist of `calls`. `continued`: it continues a text, and may
    find that nothing is missing.
    """

    def __init__(
        self,
        wire: Wire,
        answer: Response,
        begun: float,
        deadline: float,
        silence: float,
        read: Callable[[Any], AnswerDelta] = read_delta,
        *,
        continued: bool = False,
        predicted: bool = False,
        left_out: tuple[str, ...] = (),
        tools: bool = False,
    ) -> None:
        self.traffic = answer.traffic
        self._tools = tools
        self.calls = ToolCalls()
        """The tool calls so far. They are complete when the answer is."""
        self._continued = continued
        self.predicted = predicted
        """Whether a prediction was sent with the question and not refused."""
        self.left_out = left_out
        """Fields that the server rejects for this model, so the question was asked without them."""
        self.reason: str | None = None
        """Why the answer ended, in the server's words: `stop`, `length` or another. None before the end, or if not
        given."""
        self.usage: Usage | None = None
        """Token counts, at the end, if the server gives them."""
        self.pieces = 0
        """Events that brought text or reasoning. With most servers about as many as tokens."""
        self.reasoning = 0
        """Characters of reasoning."""
        self.overlong = False
        """Whether reading stopped because the answer was too long."""
        self.first_byte_seconds = answer.arrived - answer.sent
        """The round trip, plus the time until the server began."""
        self._wire, self._response, self._read = wire, answer, read
        self._begun, self._deadline, self._silence = begun, deadline, silence
        self._tags = ThinkTags(begun=continued)
        self._words, self._reasons = Halves(), Halves()
        self._thoughts: list[str] = []
        self._told = 0
        self._characters = 0
        self._done = False
        """Whether the server has said that the answer is complete."""
        self._unreadable = ""
        """The last event that was not a piece of an answer, in the server's words."""
        self._source = self._pieces()

    def new_thoughts(self) -> str:
        """The reasoning that is new since the last call, up to the limit."""
        new, self._told = self._thoughts[self._told :], len(self._thoughts)
        return "".join(new)

    @property
    def kept_of_prediction(self) -> tuple[int, int] | None:
        """Tokens of the prediction that the server used and rejected, or None if it does not say."""
        details = None if self.usage is None else self.usage.completion_tokens_details
        if not isinstance(details, PredictionTokens):
            return None
        return details.accepted_prediction_tokens, details.rejected_prediction_tokens

    @property
    def spoken(self) -> bool:
        """True if words of the answer itself have arrived."""
        return self._characters > 0

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> str:
        try:
            waited = 0.0 if self.pieces else self._wire.clock.now() - self._begun
            try:
                async with self._wire.clock.within(max(0.0, self._deadline - waited)):
                    return await anext(self._source)
            except TimeoutError:
                more = "nothing more" if self.pieces else "nothing"
                raise TooSlow(f"{self._wire.host} said {more} for {self._deadline:.3g} s") from None
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        await self._source.aclose()
        await self._response.aclose()

    # ---- events ------------------------------------------------------------------------------------------------------

    async def _pieces(self) -> AsyncGenerator[str, None]:
        """The pieces of the answer, whatever its content type says."""
        heard, head, form = self._heard(), b"", None
        while form is None and (chunk := await anext(heard, None)) is not None:
            head = (head + chunk).lstrip()
            form = begins(head)
        declared = self._response.content_type
        if form == "events" or (form != "json" and declared == EVENTS):
            pieces = self._events(head, heard)
        elif form == "json" or declared == JSON:
            pieces = self._whole(head, heard)
        else:
            raise self._wire.stranger(self._response)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _events(self, head: bytes, heard: AsyncGenerator[bytes, None]) -> AsyncGenerator[str, None]:
        """The pieces of a stream of events that begins with `head`."""
        reader, broken = EventReader(), None
        chunk: bytes | None = head
        while chunk is not None and not (self._done or self.overlong):
            before, text = self.pieces, ""
            try:
                for data in reader.feed(chunk):
                    text += self._take(data)
                    if self._done or self.overlong:
                        break
            except EventTooLong as error:
                told = f"{self._wire.host} sent {error}; check that it serves chat completions"
                raise Incompatible(told) from None
            except Exception:
                if text:  # What arrived before the failure is kept.
                    yield text
                raise
            if text or self.pieces > before:
                yield text
            if self._done or self.overlong:
                break
            try:
                chunk = await anext(heard, None)
            except LinkDown as error:
                broken, chunk = error, None
        before = self.pieces
        rest = "" if self._done or self.overlong else "".join(self._take(data, last=True) for data in reader.end())
        rest += self._rest()
        if rest or self.pieces > before:
            yield rest
        if broken is not None and self.reason is None and not self._done:  # Else only the counts are missing.
            raise broken
        self._check_end()

    def _take(self, data: str, *, last: bool = False) -> str:
        """The text that an event adds to the answer. `last`: it may have been cut off.

        Anything but JSON counts as a sign of life.
        """
        if data.strip() == DONE:
            self._done = True
            return ""
        if not data.strip():
            return ""
        found = parse(data)
        if found is UNREADABLE and data.lstrip()[:1] not in ("{", "["):
            self._unreadable = quoted(data[:MAX_SHOWN].strip())
            return ""
        if found is UNREADABLE and last:
            return ""
        if found is UNREADABLE:
            raise self._no_piece(data[:MAX_SHOWN])
        piece = self._read(found)
        if self.reason is None:
            self._check_error(found, piece)
        return self._add(piece)

    def _no_piece(self, said: str) -> Incompatible:
        host, shown = self._wire.host, quoted(self._wire.hiding(said))
        return Incompatible(
            f"{host} sent an unreadable chunk of an answer ({shown}); check that it serves chat completions"
        )

    def _check_error(self, found: Any, piece: AnswerDelta) -> None:
        own = found.get("x_groq") if isinstance(found, dict) else None
        if isinstance(own, dict) and own.get("error"):
            found = own
        failed = isinstance(found, dict) and (found.get("error") or not found.get("choices"))
        if failed and (told := read_error(found)) is not None:
            raise refused(self._wire.host, 500, self._wire.hiding(told.message), told.code)
        if end_of(piece.finish) == "failed":
            choices = found.get("choices") or ()  # Anthropic's API has none.
            told = next((error for choice in choices if (error := read_error(choice))), ErrorBody(UNNAMED))
            raise refused(self._wire.host, 500, self._wire.hiding(told.message), told.code)

    def _add(self, piece: AnswerDelta) -> str:
        self.usage = piece.usage or self.usage
        self.reason = piece.finish or self.reason
        self._done = self._done or piece.done
        self.pieces += bool(piece.text or piece.reasoning or piece.calls)
        try:
            self.calls.take(piece.calls)
        except TooManyCalls as error:
            raise Incompatible(f"{self._wire.host} sent {error}; ask for fewer at once") from None
        return self._said(self._words.join(piece.text), self._reasons.join(piece.reasoning))

    def _said(self, words: str, reasons: str) -> str:
        thought, text = self._tags.feed(words) if words else ("", "")
        self._think(reasons + thought)
        return self._bounded(text)

    def _think(self, thought: str) -> None:
        if self.reasoning < KEPT_REASONING and thought:
            self._thoughts.append(thought)
        self.reasoning += len(thought)
        if self.reasoning > MAX_REASONING and not self.spoken:
            raise Incompatible(
                f"{self._wire.host} reasoned for {self.reasoning:,} characters without a word of an answer"
            )

    def _bounded(self, text: str) -> str:
        text = text[: MAX_TEXT - self._characters + 1]
        self._characters += len(text)
        self.overlong = self._characters > MAX_TEXT
        return text[:-1] if self.overlong else text

    def _rest(self) -> str:
        """The text that was held back."""
        text = self._said(self._words.join("", last=True), self._reasons.join("", last=True))
        thought, held = self._tags.end()
        self._think(thought)
        return text + self._bounded(held)

    def _check_end(self) -> None:
        """Raises `Broken` if the answer is incomplete, and `Incompatible` if there is none."""
        host = self._wire.host
        if self._unreadable and not self.pieces and self.reason is None:
            raise self._no_piece(self._unreadable)
        if not (self._done or self.reason or self.overlong):
            said = f" after {self._wire.hiding(self._unreadable)!r}" if self._unreadable else ""
            raise Broken(f"the answer of {host} ended early{said}; {to_check(host)}")
        if not self.spoken and not self._called:
            what = "reasoned, but said nothing" if self.reasoning else "ended its answer without a word"
            self._check_silence(what)

    @property
    def _called(self) -> bool:
        return self._tools and bool(self.calls)

    def _check_silence(self, what: str) -> None:
        """Raises `Incompatible` for an answer without words, unless a limit explains it."""
        end, host = end_of(self.reason), self._wire.host
        why = f" ({quoted((self.reason or '')[:MAX_SHOWN])})"
        if end == "tools":
            raise Incompatible(f"{host} {NO_TOOLS}")
        if end == "filter":
            raise Incompatible(f"{host} said nothing, because of its content filter{why}; rephrase the question")
        if end in ("broken", "unknown"):
            raise Incompatible(f"{host} {what}{why}; ask again, or check which model it serves")
        if end == "whole" and not self._continued:
            raise Incompatible(f"{host} {what}; check which model it serves")

    async def _heard(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the body.

        Before the first words a silent server may be thinking, so it gets the whole deadline.
        """
        chunks = self._response.chunks()
        while True:
            limit = self._deadline if not self.pieces else self._silence if self.reason is None else AFTER_END_SECONDS
            try:
                async with self._wire.clock.within(limit):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                host = self._wire.host
                raise TooSlow(f"{host} was silent for {limit:.3g} s; {to_check(host)}") from None
            if chunk is None:
                return
            yield chunk

    async def _whole(self, head: bytes, heard: AsyncGenerator[bytes, None]) -> AsyncGenerator[str, None]:
        """The answer of a server that does not stream."""
        body = bytearray(head)
        async for chunk in heard:
            body += chunk
            if len(body) > MAX_WHOLE_BYTES:
                told = f"{self._wire.host} answered with more than {MAX_WHOLE_BYTES} bytes; check the address"
                raise Incompatible(told)
        found = parse(bytes(body))
        piece = self._read(found)
        self._check_error(found, piece)
        self._done = True
        text = self._add(piece) + self._rest()
        if text or self._called:
            yield text
        else:
            self._check_silence("sent an answer without text")
