"""One answer of an OpenAI-compatible server as it arrives: its text, its reasoning, and how it ended.

Bytes show that the line is alive; text and reasoning show that the server gets on. The two have limits of their own, so
neither a silent model that thinks nor a server that only keeps its line alive is mistaken for the other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from remote.errors import Broken, Incompatible, LinkDown
from remote.loose import UNREADABLE, parse
from remote.openai import DONE, EVENTS, Usage, read_error
from remote.pieces import Piece, read_piece
from remote.refusals import refused
from remote.sse import EventReader, EventTooLong
from remote.thinking import ThinkTags
from remote.wire import Answer, Traffic, Wire

MAX_TEXT = 1 << 20
"""Characters of an answer; what a server sends beyond is not read."""
MAX_REASONING = 1 << 22
"""Characters of reasoning before which the first word of an answer must have come."""
KEPT_REASONING = 1 << 18
"""Characters of it that are kept."""
MAX_WHOLE_BYTES = 8 << 20
"""Of an answer that is not streamed."""
AFTER_END_SECONDS = 2.0
"""How long the count of tokens is waited for, after the answer has ended."""
FAILED = ("error",)
"""Reasons of an end that are none."""
CUT = ("length", "max_tokens", "model_length")
"""Reasons that say that an answer was cut at a limit; Mistral has the last one."""


class ChatStream:
    """An answer's text, piece by piece: read it to the end or close it. Fails as the call for it does.

    A piece is empty where only reasoning has come. The answer is whole where the server says so, by a reason or by
    `[DONE]`; a line that ends before is `Broken`.

    `begun`: when it was asked for, by the clock of the wire. `deadline`: seconds from then to the first words;
    `silence`: without a byte after them; `patience`: without words after them.
    """

    def __init__(
        self,
        wire: Wire,
        answer: Answer,
        traffic: Traffic,
        *,
        begun: float,
        deadline: float,
        silence: float,
        patience: float,
    ) -> None:
        self.reason: str | None = None
        """Why the answer ended, as the server puts it: `stop`, `length` or another; None before, or unsaid."""
        self.usage: Usage | None = None
        """Tokens, where the server counts them; there at the end."""
        self.pieces = 0
        """Events that brought text or reasoning: about as many as tokens, on most servers."""
        self.reasoning = 0
        """Characters of reasoning."""
        self.overlong = False
        """The answer was left where it grew beyond all bounds."""
        self.first_byte_seconds = answer.arrived - answer.sent
        """The round trip, and what the server took to begin."""
        self._wire, self._answer, self._traffic = wire, answer, traffic
        self._begun, self._deadline, self._silence, self._patience = begun, deadline, silence, patience
        self._tags = ThinkTags()
        self._thoughts: list[str] = []
        self._told = 0
        self._characters = 0
        self._done = False
        """The server has said that the answer is whole."""
        self._source = self._events() if answer.content_type == EVENTS else self._whole()

    @property
    def bytes_up(self) -> int:
        return self._traffic.up

    @property
    def bytes_down(self) -> int:
        """Grows while it is read."""
        return self._traffic.down

    def new_thoughts(self) -> str:
        """The reasoning that has come since this was called last, as far as it is kept."""
        new, self._told = self._thoughts[self._told :], len(self._thoughts)
        return "".join(new)

    @property
    def spoken(self) -> bool:
        """Words of the answer itself have come."""
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
        await self._answer.aclose()

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
                    if text:  # What came before the trouble is kept.
                        yield text
                    raise
                if text or self.pieces > before:
                    yield text
                if self._done or self.overlong:
                    break
        except EventTooLong as error:
            raise Incompatible(f"{host} sent {error}; check that it serves chat completions") from None
        except LinkDown:
            if self.reason is None:  # Else only the count of tokens is missing.
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
        piece = read_piece(found)
        if self.reason is None:
            self._check_error(found, piece)
        return self._add(piece)

    def _check_error(self, found: Any, piece: Piece) -> None:
        failed = isinstance(found, dict) and (found.get("error") or "choices" not in found)
        if failed and (told := read_error(found)) is not None:
            raise refused(self._wire.host, 500, self._wire.hiding(told[0]), told[1])
        if piece.finish in FAILED:
            raise refused(self._wire.host, 500, "it ended the answer with an error and did not say which", "")

    def _add(self, piece: Piece) -> str:
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
        """What was held back of the text."""
        thought, text = self._tags.end()
        self._think(thought)
        return self._bounded(text)

    def _check_end(self) -> None:
        """Raises `Broken` where the answer is not whole, `Incompatible` where there is none."""
        host = self._wire.host
        if not (self._done or self.reason or self.overlong):
            raise Broken(f"the answer of {host} ended early; check the network")
        if not self.spoken and self.reason not in CUT:
            what = "reasoned, but said nothing" if self.reasoning else "ended its answer without a word"
            raise Incompatible(f"{host} {what}; check which model it serves")

    async def _heard(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the body. Before the first words a silent server may be thinking: there it has its deadline."""
        chunks = self._answer.chunks()
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
        """From a server that does not stream."""
        found = parse(await self._answer.read(MAX_WHOLE_BYTES))
        piece = read_piece(found)
        self._check_error(found, piece)
        self._done = True
        text = self._add(piece) + self._rest()
        if not text and self.reason not in CUT:
            raise Incompatible(f"{self._wire.host} sent an answer without text; check which model it serves")
        if text:
            yield text
