"""The messages between the server and the learning process: a `Task`, then a frame for each answer; and the replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO

import msgspec

from models.config import DrafterConfig
from remote.verifier.idle import StandingBack, put, take
from remote.verifier.learning.answers import Answer
from remote.verifier.learning.artefacts import Gain


class Task(msgspec.Struct, frozen=True):
    """Learn from this many answers, and write the graph to `out` if it is better."""

    graph: str
    """The graph that drafts now."""
    config: DrafterConfig
    out: str
    answers: int
    seed: int = 0


class _Sent(msgspec.Struct, frozen=True, array_like=True):
    """An answer in transit. `known`: it was learnt from before."""

    known: bool
    answer: Answer


class Told(msgspec.Struct, frozen=True, tag=True):
    """Progress: how many steps of how many are done."""

    done: int
    of: int


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """How a try ended."""

    gain: Gain | None = None
    """What was learnt gains, or None if nothing could be learnt."""
    better: bool = False
    """There is a graph that may go live."""
    failed: str = ""
    """Why nothing could be learnt, as a sentence."""


def send(file: BinaryIO, task: Task, answers: Iterable[tuple[bool, Answer]]) -> None:
    """Write a task and its answers. Raises `OSError`."""
    put(file, task)
    for known, answer in answers:
        put(file, _Sent(known, answer))


def receive(file: BinaryIO) -> tuple[Task, list[tuple[bool, Answer]]]:
    """Read what `send` wrote. Raises `EOFError` if it is incomplete."""
    task = take(file, Task)
    sent = [take(file, _Sent) for _ in range(task.answers)]
    return task, [(one.known, one.answer) for one in sent]


class LearningProcess(StandingBack):
    """One try to learn. `told` is called with the steps that are done, on another thread."""

    def __init__(self, task: Task, answers: Sequence[tuple[bool, Answer]], told: Callable[[int, int], None]) -> None:
        self.outcome: Outcome | None = None
        """How it ended, or None if it is running or was killed."""
        self._told = told
        super().__init__("remote.verifier.learning.worker", lambda stdin: send(stdin, task, answers), self._take)

    def _take(self, line: bytes) -> None:
        message = msgspec.json.decode(line, type=Told | Outcome)
        if isinstance(message, Outcome):
            self.outcome = message
        else:
            self._told(message.done, message.of)
