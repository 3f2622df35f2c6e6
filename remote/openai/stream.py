"""One answer of an OpenAI-compatible server as it arrives: its text, its reasoning, and how it ended.

Bytes show that the line is alive. Text and reasoning show that the server makes progress. The two have separate limits,
so a silent model that thinks is not mistaken for a server that only keeps its line alive.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from remote.errors import Broken, Incompatible, LinkDown
from remote.openai.delta import AnswerDelta, read_delta
from remote.openai.error_bodies import read_error
from remote.openai.lenient_json import UNREADABLE, parse
from remote.openai.reasoning_tags import ThinkTags
from remote.openai.schema import DONE, EVENTS, PredictionTokens, Usage
from remote.openai.server_errors import refused
from remote.openai.sse import EventReader, EventTooLong
from remote.wire import Metered, Response, Traffic, Wire

MAX_TEXT = 1 << 20
"""Most characters of an answer. What a server sends beyond is not read."""
MAX_REASONING = 1 << 22
"""Most characters of reasoning before the first word of the answer."""
KEPT_REASONING = 1 << 18
"""Characters of reasoning that are kept."""
MAX_WHOLE_BYTES = 8 << 20
"""Most bytes of an answer that is not streamed."""
AFTER_END_SECONDS = 2.0
"""How long to wait for the count of tokens after the answer has ended."""
FAILED = ("error",)
"""Reasons of an end that mean a failure."""
TOOL_CALLS = ("tool_calls", "function_call")
"""Reasons of an end that mean that the model wants to use a tool instead of going on."""
NO_TOOLS = "asked for a tool and said nothing else; Outrider has no tools to offer"
CUT = ("length", "max_tokens", "model_length")
"""Reasons of an end that mean that the answer was cut at a limit. Mistral uses the last one."""


class ChatStream(Metered):
    """An answer's text, piece by piece. Read it to the end or close it. It fails as the call for it does.

    A piece is empty if only reasoning has come. The answer is whole if the server says so, by a reason or by `[DONE]`;
    a line that ends before is `Broken`.

    `begun`: when the question was sent, by the wire's clock. `deadline`: seconds from then to the first words.
    `silence`: seconds without a byte after them. `patience`: seconds without words after them.
    """

    def __init__(
        self,
        wire: Wire,
        answer: Response,
        traffic: Traffic,
        *,
        begun: float,
        deadline: float,
        silence: float,
        patience: float,
        predicted: bool = False,
        left_out: tuple[str, ...] = (),
    ) -> None:
        super().__init__(traffic)
        self.predicted = predicted
        """A prediction went up with the question, and the server did not refuse it."""
        self.left_out = left_out
        """Fields that the server refuses to know for this model, so the question was asked without them."""
        self.reason: str | None = None
        """Why the answer ended, in the server's word: `stop`, `length` or another. None before the end, or if it did
        not say."""
        self.usage: Usage | None = None
        """Counts of tokens, at the end, if the server gives them."""
        self.pieces = 0
        """Events that brought text or reasoning. With most servers about as many as tokens."""
        self.reasoning = 0
        """Characters of reasoning."""
        self.overlong = False
        """The answer was too long, so reading stopped."""
        self.first_byte_seconds = answer.arrived - answer.sent
        """The round trip, plus the time until the server began."""
        self._wire, self._response = wire, answer
        self._begun, self._deadline, self._silence, self._patience = begun, deadline, silence, patience
        self._tags = ThinkTags()
        self._thoughts: list[str] = []
        self._told = 0
        self._characters = 0
        self._done = False
        """The server has said that the answer is whole."""
        self._source = self._events() if answer.content_type == EVENTS else self._whole()

    def new_thoughts(self) -> str:
        """The reasoning that is new since the last call, as far as it is kept."""
        new, self._told = self._thoughts[self._told :], len(self._thoughts)
        return "".join(new)

    @property
    def kept_of_prediction(self) -> tuple[int, int] | None:
        """Tokens of the prediction that the server kept, and those that it did not. None: it does not say."""
        details = None if self.usage is None else self.usage.completion_tokens_details
        if not isinstance(details, PredictionTokens):
            return None
        return details.accepted_prediction_tokens, details.rejected_prediction_tokens

    @property
    def spoken(self) -> bool:
        """True if words of the answer itself have come."""
        return self._characters > 0

    def __aiter__(self) -> ChatStream:
        return self

    async def __anext__(self) -> str:
        try:
            if self.pieces:
                limit, said = self._patience, "said nothing more for"
            else:
                limit, said = max(0.0, self._begun + self._deadline - self._wire.clock.now()), "said nothing for"
            try:
                async with self._wire.clock.within(limit):
                    return await anext(self._source)
            except TimeoutError:
                seconds = self._patience if self.pieces else self._deadline
                raise LinkDown(f"{self._wire.host} {said} {seconds:.3g} s") from None
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        await self._source.aclose()
        await self._response.aclose()

    # ---- events ------------------------------------------------------------------------------------------------------

    async def _events(self) -> AsyncGenerator[str, None]:
        host, reader = self._wire.host, EventReader()
        try:
            async for chunk in self._heard():
                before, text = self.pieces, ""
                try:
                    for data in reader.feed(chunk):
                        text += self._take(data)
                        if self._done or self.overlong:
                            break
                except Exception:
                    if text:  # What came before the failure is kept.
                        yield text
                    raise
                if text or self.pieces > before:
                    yield text
                if self._done or self.overlong:
                    break
        except EventTooLong as error:
            raise Incompatible(f"{host} sent {error}; check that it serves chat completions") from None
        except LinkDown:
            if self.reason is None:  # Otherwise only the count of tokens is missing.
                raise
        if rest := self._rest():
            yield rest
        self._check_end()

    def _take(self, data: str) -> str:
        """The text that an event adds to the answer."""
        if data.strip() == DONE:
            self._done = True
            return ""
        if not data.strip():
            return ""
        found = parse(data)
        if found is UNREADABLE:
            raise Incompatible(
                f"{self._wire.host} sent no readable piece of an answer; check that it serves chat completions"
            )
        piece = read_delta(found)
        if self.reason is None:
            self._check_error(found, piece)
        return self._add(piece)

    def _check_error(self, found: Any, piece: AnswerDelta) -> None:
        failed = isinstance(found, dict) and (found.get("error") or "choices" not in found)
        if failed and (told := read_error(found)) is not None:
            raise refused(self._wire.host, 500, self._wire.hiding(told.message), told.code)
        if piece.finish in FAILED:
            raise refused(self._wire.host, 500, "it ended the answer with an error and did not say which", "")

    def _add(self, piece: AnswerDelta) -> str:
        self.usage = piece.usage or self.usage
        self.reason = piece.finish or self.reason
        self.pieces += bool(piece.text or piece.reasoning)
        thought, text = self._tags.feed(piece.text) if piece.text else ("", "")
        self._think(piece.reasoning + thought)
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
        thought, text = self._tags.end()
        self._think(thought)
        return self._bounded(text)

    def _check_end(self) -> None:
        """Raises `Broken` if the answer is not whole, and `Incompatible` if there is none."""
        host = self._wire.host
        if not (self._done or self.reason or self.overlong):
            raise Broken(f"the answer of {host} ended early; check the network")
        if not self.spoken and self.reason not in CUT:
            what = "reasoned, but said nothing" if self.reasoning else "ended its answer without a word"
            if self.reason in TOOL_CALLS:
                raise Incompatible(f"{host} {NO_TOOLS}")
            raise Incompatible(f"{host} {what}; check which model it serves")

    async def _heard(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the body.

        Before the first words a silent server may be thinking, so it has the whole deadline.
        """
        chunks = self._response.chunks()
        while True:
            limit = self._deadline if not self.pieces else self._silence if self.reason is None else AFTER_END_SECONDS
            try:
                async with self._wire.clock.within(limit):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise LinkDown(f"{self._wire.host} was silent for {limit:.3g} s; check the network") from None
            if chunk is None:
                return
            yield chunk

    async def _whole(self) -> AsyncGenerator[str, None]:
        """The answer of a server that does not stream."""
        found = parse(await self._response.read(MAX_WHOLE_BYTES))
        piece = read_delta(found)
        self._check_error(found, piece)
        self._done = True
        text = self._add(piece) + self._rest()
        if not text and self.reason in TOOL_CALLS:
            raise Incompatible(f"{self._wire.host} {NO_TOOLS}")
        if not text and self.reason not in CUT:
            raise Incompatible(f"{self._wire.host} sent an answer without text; check which model it serves")
        if text:
            yield text
