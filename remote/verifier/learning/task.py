"""What the server hands to the process that learns, and what comes back: over pipes, so nothing of it is on a disk.

The task goes to its stdin: the frame of a `Task`, then one frame for each answer. A frame is its length in eight bytes
and MessagePack. Stdin stays open, so the process knows when the server is gone. On stdout come lines of JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, TypeVar

import msgspec

from drafter.learning.samples import Round
from models.config import DrafterConfig
from remote.verifier.learning.answers import Answer, Piece

T = TypeVar("T", bound=msgspec.Struct)


class Task(msgspec.Struct, frozen=True):
    """Learn from so many answers, and write what is better to `out`."""

    graph: str
    """The graph that drafts now."""
    config: DrafterConfig
    out: str
    answers: int
    seed: int = 0


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    """An answer on its way. `known`: it was learnt from before."""

    known: bool
    tokens: tuple[int, ...]
    rounds: tuple[tuple[int, int], ...]
    memory: tuple[tuple[int, int, int, bytes], ...]
    target: bytes


class Told(msgspec.Struct, frozen=True, tag=True):
    """How many steps of how many are done."""

    done: int
    of: int


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """How a try ended. Tokens a round and their gain are as in `drafter.learning.comparison.Judged`."""

    better: bool
    """There is a graph, and it may go live."""
    answers: int
    """Answers that it learnt from or was judged on."""
    before: float
    after: float
    low: float
    high: float
    fixed: float
    """The gain on the fixed set, as a share."""
    failed: str = ""
    """Why nothing could be learnt, as a sentence; empty: it could."""


def send_task(file: BinaryIO, task: msgspec.Struct) -> None:
    """Write a task alone. Raises `OSError`."""
    _put(file, task)
    file.flush()


def receive_task(file: BinaryIO, kind: type[T]) -> T:
    """Read what `send_task` wrote. Raises `EOFError` if it breaks off."""
    return _take(file, kind)


def send(file: BinaryIO, task: Task, answers: Iterable[tuple[bool, Answer]]) -> None:
    """Write a task and its answers. Raises `OSError`."""
    _put(file, task)
    for known, one in answers:
        rounds = tuple((each.length, each.memory) for each in one.rounds)
        memory = tuple((piece.start, piece.valid, piece.count, piece.data) for piece in one.memory)
        _put(file, _Sent(known, one.tokens, rounds, memory, one.target))
    file.flush()


def receive(file: BinaryIO) -> tuple[Task, list[tuple[bool, Answer]]]:
    """Read what `send` wrote. Raises `EOFError` if it breaks off."""
    task = _take(file, Task)
    answers = []
    for _ in range(task.answers):
        sent = _take(file, _Sent)
        answer = Answer(
            sent.tokens,
            tuple(Round(*one) for one in sent.rounds),
            tuple(Piece(*one) for one in sent.memory),
            sent.target,
        )
        answers.append((sent.known, answer))
    return task, answers


def _put(file: BinaryIO, message: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(message)
    file.write(len(data).to_bytes(8, "big") + data)


def _take(file: BinaryIO, kind: type[T]) -> T:
    size = int.from_bytes(_exactly(file, 8), "big")
    return msgspec.msgpack.decode(_exactly(file, size), type=kind)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data
