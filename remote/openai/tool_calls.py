"""Collects the tool calls of an answer from a server's pieces.

A server sends each call's id and name once and its arguments in pieces, by the call's index. Some leave the index out,
some count every call as 0, some leave out ids, some send a call again when it is complete. Whatever they do, a call
gets one place, one id and one name, and no argument is kept twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from remote.openai.lenient_json import UNREADABLE, Halves, parse
from remote.openai.schema import CalledFunction, FunctionDelta, ToolCall, ToolCallDelta

MAX_CALLS = 128
MAX_CHARACTERS = 4 << 20
"""Most characters of all arguments of an answer. A call may write a whole file."""


class CallPiece(msgspec.Struct, frozen=True):
    """What one event adds to a call, as the server sent it."""

    index: int | None
    id: str
    name: str
    arguments: str


class TooManyCalls(ValueError):
    """More calls, or longer ones, than are read."""


@dataclass
class _Call:
    id: str
    named: bool
    """Whether the server gave it its id."""
    name: str
    arguments: str = ""
    halves: Halves = field(default_factory=Halves)


class ToolCalls:
    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._places: dict[int, int] = {}
        """The server's index of a call -> its place here."""
        self._new: list[ToolCallDelta] = []
        self._characters = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def whole(self) -> tuple[ToolCall, ...]:
        """The calls so far. Complete only if the answer is."""
        return tuple(ToolCall(call.id, function=CalledFunction(call.name, call.arguments)) for call in self._calls)

    def new(self) -> tuple[ToolCallDelta, ...]:
        """What was added since this was last asked, in the order of its arrival."""
        new, self._new = tuple(self._new), []
        return new

    def _note(self, place: int, arguments: str, call: _Call | None = None) -> None:
        """Note what is new: a call, or more arguments. One delta for each call that grew."""
        if call is not None:
            self._new.append(ToolCallDelta(place, call.id, "function", FunctionDelta(call.name, arguments)))
        elif self._new and self._new[-1].index == place:
            last = self._new[-1]
            function = FunctionDelta(last.function.name, (last.function.arguments or "") + arguments)
            self._new[-1] = msgspec.structs.replace(last, function=function)
        else:
            self._new.append(ToolCallDelta(place, function=FunctionDelta(arguments=arguments)))

    def take(self, pieces: Iterable[CallPiece]) -> None:
        """Add what an event brings. Raises `TooManyCalls`."""
        for piece in pieces:
            place = self._place(piece)
            if place is None:
                self._begin(piece)
            elif not self._again(self._calls[place], piece):
                self._add(place, piece.arguments)

    def _place(self, piece: CallPiece) -> int | None:
        """The place of the call that a piece belongs to, or None if it begins another one."""
        place = len(self._calls) - 1 if piece.index is None else self._places.get(piece.index)
        if place is None or place < 0:
            return None
        call = self._calls[place]
        other = piece.id and call.named and piece.id != call.id
        if piece.name and (other or (piece.index is None and not piece.id)):
            return None
        return place

    def _again(self, call: _Call, piece: CallPiece) -> bool:
        """Whether a piece only repeats a call that is complete."""
        return bool(piece.name and piece.arguments == call.arguments and parse(call.arguments) is not UNREADABLE)

    def _begin(self, piece: CallPiece) -> None:
        if len(self._calls) == MAX_CALLS:
            raise TooManyCalls(f"more than {MAX_CALLS} tool calls in one answer")
        place = len(self._calls)
        if piece.index is not None:
            self._places[piece.index] = place
        call = _Call(piece.id or f"call_{secrets.token_hex(12)}", bool(piece.id), piece.name)
        self._calls.append(call)
        self._note(place, "", call)
        self._add(place, piece.arguments)

    def _add(self, place: int, arguments: str) -> None:
        if not (arguments := self._calls[place].halves.join(arguments)):
            return
        self._characters += len(arguments)
        if self._characters > MAX_CHARACTERS:
            raise TooManyCalls(f"tool calls of more than {MAX_CHARACTERS:,} characters")
        self._calls[place].arguments += arguments
        self._note(place, arguments)
