"""The formats of an answer: chat or plain text, whole or as events of a stream."""

from __future__ import annotations

import codecs
import secrets
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from models.text.call_reader import Called
from models.text.chat_text import ChatText
from remote.openai.schema import (
    CalledFunction,
    ChatMessage,
    Choice,
    Chunk,
    ChunkChoice,
    Completion,
    Delta,
    FunctionDelta,
    Logprobs,
    PredictionTokens,
    TextChoice,
    TextCompletion,
    TextLogprobs,
    TokenLogprob,
    ToolCall,
    ToolCallDelta,
    TopLogprob,
    Usage,
)
from remote.openai.sse import event
from remote.verifier.completions.completion_requests import ChoiceState, CompletionCall
from remote.verifier.sessions.answer_options import Noted


class Piece(NamedTuple):
    """What one round adds to one answer."""

    choice: ChoiceState
    text: str
    noted: Sequence[Noted] = ()
    last: bool = False
    """The answer is complete."""
    calls: Sequence[Called] = ()
    """Tool calls that are complete."""


def usage(call: CompletionCall) -> Usage:
    written = sum(choice.tokens for choice in call.choices)
    predicted = [one for choice in call.choices if (one := choice.options.predicted) is not None and one.counted]
    details: PredictionTokens | msgspec.UnsetType = msgspec.UNSET
    if predicted:
        details = PredictionTokens(sum(one.accepted for one in predicted), sum(one.rejected for one in predicted))
    return Usage(call.prompt_tokens, written, call.prompt_tokens + written, details)


class ChatShape:
    """Chat completions. `text` spells out tokens."""

    def __init__(self, model: str, text: ChatText) -> None:
        self._model, self._text = model, text
        self._id, self._created = f"chatcmpl-{secrets.token_hex(12)}", int(time.time())

    def first(self, piece: Piece) -> bytes:
        """The first event of an answer."""
        return self._event(piece, Delta(role="assistant", content=piece.text, tool_calls=self._calls(piece)))

    def next(self, piece: Piece) -> bytes:
        content = None if piece.calls and not piece.text else piece.text
        return self._event(piece, Delta(content=content, tool_calls=self._calls(piece)))

    def end(self, choice: ChoiceState) -> bytes:
        """The event that says why an answer ended."""
        return self._chunk((ChunkChoice(choice.index, Delta(), choice.reason),), None)

    def _calls(self, piece: Piece) -> tuple[ToolCallDelta, ...]:
        """The calls of a piece, each as a whole."""
        sent = 0 if piece.choice.calls is None else len(piece.choice.calls.calls) - len(piece.calls)
        return tuple(
            ToolCallDelta(at, call.id, "function", FunctionDelta(call.name, call.arguments))
            for at, call in enumerate(piece.calls, sent)
        )

    def usage(self, call: CompletionCall) -> bytes:
        """The last event, if the client wants the token counts."""
        return self._chunk((), usage(call))

    def whole(self, call: CompletionCall, pieces: Sequence[Sequence[Piece]]) -> msgspec.Struct:
        """All answers in one response. `pieces`: those of each answer."""
        choices = tuple(
            Choice(
                choice.index,
                _message(written),
                choice.reason,
                self._logprobs([noted for piece in written for noted in piece.noted]),
            )
            for choice, written in zip(call.choices, pieces)
        )
        return Completion(id=self._id, created=self._created, model=self._model, choices=choices, usage=usage(call))

    def _event(self, piece: Piece, delta: Delta) -> bytes:
        return self._chunk((ChunkChoice(piece.choice.index, delta, None, self._logprobs(piece.noted)),), None)

    def _chunk(self, choices: tuple[ChunkChoice, ...], used: Usage | None) -> bytes:
        made = Chunk(id=self._id, created=self._created, model=self._model, choices=choices, usage=used)
        return event(msgspec.json.encode(made))

    def _logprobs(self, noted: Sequence[Noted]) -> Logprobs | msgspec.UnsetType:
        return Logprobs(tuple(self._spelt(one) for one in noted)) if noted else msgspec.UNSET

    def _spelt(self, noted: Noted) -> TokenLogprob:
        spelt, data = self._text.spelling(noted.token)
        likeliest = tuple(
            TopLogprob(*_named(self._text.spelling(token), log_prob)) for token, log_prob in noted.likeliest
        )
        return TokenLogprob(*_named((spelt, data), noted.log_prob), likeliest)


class TextShape:
    """Completions of plain text. `text` spells out tokens."""

    def __init__(self, model: str, text: ChatText) -> None:
        self._model, self._text = model, text
        self._id, self._created = f"cmpl-{secrets.token_hex(12)}", int(time.time())
        self._places: dict[int, _Place] = {}
        """How far each answer's log-probabilities have come, by its index."""

    def first(self, piece: Piece) -> bytes:
        """The first event of an answer, with the prompt if requested."""
        return self._event(piece, piece.choice.echo + piece.text)

    def next(self, piece: Piece) -> bytes:
        return self._event(piece, piece.text)

    def end(self, choice: ChoiceState) -> bytes:
        """The event that says why an answer ended."""
        return self._encoded((TextChoice(choice.index, "", choice.reason),), None)

    def usage(self, call: CompletionCall) -> bytes:
        """The last event, if the client wants the token counts."""
        return self._encoded((), usage(call))

    def whole(self, call: CompletionCall, pieces: Sequence[Sequence[Piece]]) -> msgspec.Struct:
        """All answers in one response. `pieces`: those of each answer."""
        choices = tuple(
            TextChoice(
                choice.index,
                choice.echo + "".join(piece.text for piece in written),
                choice.reason,
                self._logprobs(choice, [noted for piece in written for noted in piece.noted]),
            )
            for choice, written in zip(call.choices, pieces)
        )
        return self._made(choices, usage(call))

    def _event(self, piece: Piece, text: str) -> bytes:
        logprobs = self._logprobs(piece.choice, piece.noted)
        return self._encoded((TextChoice(piece.choice.index, text, None, logprobs),), None)

    def _encoded(self, choices: tuple[TextChoice, ...], used: Usage | None) -> bytes:
        return event(msgspec.json.encode(self._made(choices, used)))

    def _made(self, choices: tuple[TextChoice, ...], used: Usage | None) -> TextCompletion:
        return TextCompletion(id=self._id, created=self._created, model=self._model, choices=choices, usage=used)

    def _logprobs(self, choice: ChoiceState, noted: Sequence[Noted]) -> TextLogprobs | None:
        if not noted:
            return None
        place = self._places.setdefault(choice.index, _Place())
        spelt = [self._text.spelling(one.token) for one in noted]
        return TextLogprobs(
            tokens=tuple(text for text, _ in spelt),
            token_logprobs=tuple(one.log_prob for one in noted),
            top_logprobs=tuple(
                {self._text.spelling(token)[0]: log_prob for token, log_prob in reversed(one.likeliest)}
                for one in noted
            ),
            text_offset=tuple(place.passed(data) for _, data in spelt),
        )


class _Place:
    """A place in a text that comes token by token."""

    def __init__(self) -> None:
        self._decoder, self._characters = codecs.getincrementaldecoder("utf-8")("replace"), 0

    def passed(self, data: bytes) -> int:
        """Pass the bytes of a token. Returns how many characters were whole before it."""
        before = self._characters
        self._characters += len(self._decoder.decode(data))
        return before


Shape = ChatShape | TextShape


def _message(pieces: Sequence[Piece]) -> ChatMessage:
    text = "".join(piece.text for piece in pieces)
    calls = tuple(
        ToolCall(call.id, function=CalledFunction(call.name, call.arguments))
        for piece in pieces
        for call in piece.calls
    )
    return ChatMessage("assistant", text or None, calls) if calls else ChatMessage("assistant", text)


def _named(spelling: tuple[str, bytes], log_prob: float) -> tuple[str, float, tuple[int, ...]]:
    text, data = spelling
    return text, log_prob, tuple(data)
