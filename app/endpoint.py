"""An answer in text, by a server that knows no tokens of ours: put into the drafter's own, so that it can go on.

What the server says is verified; what is shown is never changed by cutting it into tokens. After a cut the server is
asked to go on from what it has said, if it can, else anew: then what it says counts from where it has said again all
that was verified. Tokens that the drafter wrote alone meanwhile stay as far as the server says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.answer import INCOMPLETE, Answer, Shown
from app.connection import Endpoint
from drafter.text import ChatText
from remote import ChatStream
from remote.protocol import Sampling

WINDOW = 16
"""Tokens before new ones in whose company these are checked: some decoders treat a first word unlike others."""

LONGEST_TOKEN = 16
"""Characters; bounds an answer whose tokens cannot be counted."""


class Diverged(Exception):
    """Asked again, the server says something else than it has said; the two cannot be joined."""


class Telling:
    """The rest of one answer, asked of an endpoint. `messages`: (role, text) up to the question.

    The answer may have tokens: verified ones stay, others as far as the server agrees.
    """

    def __init__(
        self, endpoint: Endpoint, messages: Sequence[tuple[str, str]], answer: Answer, text: ChatText, most: int
    ) -> None:
        """`most`: tokens that the whole answer may have."""
        self.stream: ChatStream | None = None
        """There after `begin`."""
        self.full = False
        """More has come than the answer may have."""
        self._endpoint, self._messages = endpoint, list(messages)
        self._answer, self._text, self._most = answer, text, most
        known = answer.said(answer.verified)
        # Servers may cut white space off a message's end, and words begin with it: so that is to come again.
        sent = known.rstrip() if endpoint.model.continues else ""
        self._sent, self._again = sent, known[len(sent) :]
        self._heard = self._pending = ""

    async def begin(self, sampling: Sampling, deadline: float, silence: float) -> ChatStream:
        """`deadline`: seconds to the first words; `silence`: between later ones. Raises `RemoteError`."""
        answer = self._answer
        left = self._most - (answer.verified if self._sent else 0)
        self.stream = await self._endpoint.client.chat(
            [*self._messages, *([("assistant", self._sent)] if self._sent else [])],
            sampling,
            model=self._endpoint.model.id,
            most=max(1, left),
            deadline=deadline,
            silence=silence,
            patience=max(deadline, silence),
            continued=bool(self._sent),
        )
        return self.stream

    async def next(self) -> list[Shown] | None:
        """What the next piece changes; None at the end. Raises `RemoteError`, `Diverged`."""
        assert self.stream is not None
        piece = await anext(self.stream, None)
        return None if piece is None else self.take(piece)

    def take(self, piece: str) -> list[Shown]:
        """Put a piece of text into the answer. Raises `Diverged`."""
        if self._again:
            self._heard += piece
            if len(self._heard) < len(self._again) and self._again.startswith(self._heard):
                return []
            if not self._heard.startswith(self._again) and not self._sent:
                raise Diverged
            # Of a message that was gone on with, only white space was to come again.
            piece, self._again = self._heard[_common(self._heard, self._again) :], ""
        self._pending += piece
        return self._agreed() + ([] if self._awaits() else self._spelt())

    def finish(self) -> list[Shown]:
        """The server has ended its answer. Raises `Diverged`."""
        if self._again and not self._sent:
            raise Diverged
        return [*self._agreed(), *(self._spelt() if self._pending else []), *self._answer.end()]

    async def aclose(self) -> None:
        if self.stream is not None:
            await self.stream.aclose()

    def _agreed(self) -> list[Shown]:
        """Tokens written alone that say what the server says are verified."""
        answer, count, said = self._answer, 0, 0
        base = len(answer.said(answer.verified))
        for size in range(1, len(answer.suffix) + 1):
            text = answer.said(answer.verified + size)[base:]
            if text.endswith(INCOMPLETE):
                continue
            if not self._pending.startswith(text):
                break
            count, said = size, len(text)
        self._pending = self._pending[said:]
        return answer.verify(answer.suffix[:count], count) if count else []

    def _awaits(self) -> bool:
        """Whether what is pending may be the beginning of the next token written alone."""
        answer = self._answer
        return answer.said(len(answer.tokens)).startswith(answer.said(answer.verified) + self._pending)

    def _spelt(self) -> list[Shown]:
        """What is pending, in tokens; as text where there are none for it."""
        answer = self._answer
        piece, self._pending = self._pending, ""
        tokens = None if answer.beyond else spell(self._text, answer.tokens[: answer.verified], piece)
        if tokens is None:
            self.full = len(answer.said(answer.verified)) + len(piece) > LONGEST_TOKEN * self._most
            return answer.spill(piece)
        if (room := self._most - answer.verified) < len(tokens):
            tokens = tokens[:room]
            while tokens and self._text.decode(tokens).endswith(INCOMPLETE):  # Half a character.
                tokens.pop()
            self.full = True
        return answer.verify(tokens, 0)


def spell(text: ChatText, before: Sequence[int], piece: str) -> list[int] | None:
    """Tokens that say `piece` after `before`, to the letter; None where the vocabulary has none."""
    window = list(before[-WINDOW:])
    known = text.decode(window)
    together = text.encode(known + piece)
    ways = [text.encode(piece)] + ([together[len(window) :]] if together[: len(window)] == window else [])
    return next((tokens for tokens in ways if text.decode(window + tokens) == known + piece), None)


def _common(one: str, other: str) -> int:
    """How many first characters are the same."""
    return next((at for at, (left, right) in enumerate(zip(one, other)) if left != right), min(len(one), len(other)))
