"""Turns: one engine, many sessions, and a short time for each of them.

A turn is a chunk of a prompt, a round, one round of a stream, or a frame of memory: what an answer does until it yields
a frame or None. An answer that needs the target asks for a forward, and waits. In one cycle, the engine's thread
advances all waiting turns to that point and runs their forwards as one. Sessions take turns in a circle, however many
calls each of them has; a session has one turn at a time. A turn that does not fit into a full batch comes first in the
next cycle. Sessions whose device is away get turns only when no other wants one.

The engine does not wait for its clients: the next turns of an answer are queued while its frames go to the client
(`AHEAD`).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence, Set
from contextlib import closing, nullcontext, suppress
from typing import TypeVar, cast

import anyio
import msgspec
from starlette.requests import ClientDisconnect

from models.engines.engine import Engine, Forward
from remote.protocol import Frame, Progress, Verdict
from remote.verifier.idle import Quiet
from remote.verifier.refusals import Overloaded
from remote.verifier.sessions.verification import Answer, Computed

T = TypeVar("T")
END = object()
AHEAD = 2
"""Turns of an answer that are queued while it is sent to the client: one runs, and the next follows at once."""
LINGERS = 2.0
"""Seconds for which the engine's thread waits for another turn. Then it ends; the next turn starts a new one."""


class Turn:
    """One turn of a session: a call, or an answer up to its next frame."""

    def __init__(self, name: str, work: Callable[[], object] | Answer) -> None:
        self.name, self._work = name, work
        self.request: Forward | None = None
        """The forward that it waits for."""
        self.done = False
        self.left = False
        """Whether nobody waits for it any more."""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Completed once the turn is finished and the event loop was notified."""
        self._result: object = None
        self._error: BaseException | None = None

    def go_on(self, computed: Computed | Exception | None) -> None:
        """Work until a forward is needed, or until the turn is done. `computed`: the result of the forward."""
        self.request = None
        try:
            found = self._work() if callable(self._work) else advanced(self._work, computed)
        except BaseException as error:  # It belongs to whoever waits for the turn.
            self.fail(error)
            return
        if isinstance(found, Forward):
            self.request = found
        else:
            self._result, self.done = found, True

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def result(self) -> object:
        if self._error is not None:
            raise self._error
        return self._result


class Turns:
    """Schedules turns.

    At most `max_waiting` answers wait for their first frame; others are refused. Belongs to the event loop.
    """

    def __init__(self, max_waiting: int, engine: Engine, quiet: Quiet | None = None) -> None:
        """`quiet`: is notified when the engine is wanted."""
        self.max_waiting = max_waiting
        self._quiet = quiet
        self.waiting = 0
        """Answers without a first frame."""
        self.seconds = 0.0
        """Seconds that the engine's thread has worked."""
        self.batches = 0
        """Forwards, each for one or more sessions."""
        self._engine = engine
        self._queues: OrderedDict[str, deque[Turn]] = OrderedDict()
        """The turns of each session, in the order in which the sessions get theirs. Both threads change it, each with
        `_wanted` held."""
        self._wanted = threading.Condition()
        self._at_work = False
        """Whether the engine's thread is running."""
        self._put_off = False
        self.behind: Set[str] = frozenset()
        """Sessions that get turns only when no other wants one."""
        self._moved = time.monotonic()
        """When a turn was done, or was added to an empty queue."""

    @property
    def stuck_seconds(self) -> float:
        """Seconds for which turns have waited since the last one was done; 0 if none waits."""
        with self._wanted:
            return time.monotonic() - self._moved if any(self._queues.values()) else 0.0

    async def take(self, name: str, call: Callable[[], T]) -> T:
        """Run `call` on the engine's thread, in a turn of the session `name`, and return its result.

        A call that has begun runs to its end, even if nobody waits for it.
        """
        return cast(T, await self._done(self._in_line(Turn(name, call))))

    async def first(self, name: str, frames: Answer, gone: Callable[[], Awaitable[bool]]) -> Frame | None:
        """The first frame, after as many turns as it takes, with the time that it took. None if there is none.

        Raises `Overloaded` if too many wait already, `ClientDisconnect` if the client is `gone` after a turn, and
        whatever `frames` raises.
        """
        if self.waiting >= self.max_waiting:
            raise Overloaded(f"{self.waiting} rounds are waiting already. Try again in a moment.")
        self.waiting += 1
        begun = time.monotonic()
        try:
            while (frame := await self._done(self._in_line(Turn(name, frames)))) is None:
                if await gone():
                    raise ClientDisconnect
            if isinstance(frame, Verdict | Progress):
                return msgspec.structs.replace(frame, server_seconds=time.monotonic() - begun)
            return None if frame is END else cast(Frame, frame)
        except (ClientDisconnect, anyio.get_cancelled_exc_class()):
            await self.close(name, frames)
            raise
        finally:
            self.waiting -= 1

    async def rest(self, name: str, first: Frame | None, frames: Answer) -> AsyncGenerator[Frame, None]:
        """The first frame, then the others, with a turn for each. The caller closes `frames` at the end."""
        frame: object = first
        ahead = deque[Turn]()
        try:
            while frame is not END:
                while len(ahead) < AHEAD:
                    ahead.append(self._in_line(Turn(name, frames)))
                if frame is not None:
                    yield cast(Frame, frame)
                frame = await self._done(ahead.popleft())
        finally:
            for turn in ahead:
                turn.left = True

    async def close(self, name: str, frames: Answer) -> None:
        """Close the source of the frames, even if the caller was cancelled."""
        if inspect.getgeneratorstate(frames) != inspect.GEN_CLOSED:
            await self.last(name, frames.close)

    async def last(self, name: str, call: Callable[[], object]) -> None:
        """Take a turn even if the caller was cancelled."""
        with anyio.CancelScope(shield=True):
            await self.take(name, call)

    def _in_line(self, turn: Turn) -> Turn:
        """Queue a turn. Raises `RuntimeError` if the engine's thread is needed and cannot be started."""
        with self._wanted:
            if not self._at_work:  # First, because it may fail.
                threading.Thread(target=self._work, name="engine", daemon=True).start()
                self._at_work = True
            if not self._queues:
                self._moved = time.monotonic()
            self._queues.setdefault(turn.name, deque()).append(turn)
            self._wanted.notify()
        return turn

    async def _done(self, turn: Turn) -> object:
        """Wait for a turn. Returns its result, or raises its error."""
        try:
            await turn.over
        finally:
            turn.left = True
        return turn.result()

    # ---- on the engine's thread --------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Run one cycle after another, while there are turns."""
        while turns := self._next():
            try:
                with nullcontext() if self._quiet is None else self._quiet.kept_waiting():
                    self._cycle(turns)
            except BaseException as error:  # Any error, because somebody waits for the turn and must be notified.
                for turn in turns:
                    turn.fail(error)
            self._tell([turn for turn in turns if turn.done])

    def _next(self) -> list[Turn]:
        """The first turn of each session; waits for at least one. Empty when the thread is to end."""
        with self._wanted:
            while True:
                for name, queue in list(self._queues.items()):
                    while queue and queue[0].left:
                        queue.popleft()
                    if not queue:
                        del self._queues[name]
                if self._queues:
                    first = [queue[0] for queue in self._queues.values()]
                    return [turn for turn in first if turn.name not in self.behind] or first
                if not self._wanted.wait(LINGERS) and not self._queues:
                    self._at_work = False
                    return []

    def _tell(self, done: Sequence[Turn]) -> None:
        """Remove the finished turns, and wake those who wait for them."""
        with self._wanted:
            self._moved = time.monotonic()
            for turn in done:
                self._queues[turn.name].remove(turn)
                self._queues.move_to_end(turn.name)
        for loop in {turn.over.get_loop() for turn in done}:
            with suppress(RuntimeError):  # The loop has ended, so nobody waits.
                loop.call_soon_threadsafe(_wake, [turn for turn in done if turn.over.get_loop() is loop])

    def _cycle(self, turns: Sequence[Turn]) -> None:
        start, rows, asking = time.monotonic(), 0, list[Turn]()
        for turn in turns:
            if rows >= self._engine.row_budget:
                break
            if turn.request is None:
                turn.go_on(None)
            if turn.request is not None:
                asking.append(turn)
                rows += turn.request.rows
        # Answers that finished a turn without a forward may soon ask for one and join the batch. But nobody waits for
        # that twice.
        self._put_off = not self._put_off and any(turn.done for turn in turns) and len(asking) > 0
        if asking and not self._put_off:
            self.batches += 1
            requests = [turn.request for turn in asking if turn.request is not None]
            for turn, computed in zip(asking, computed_together(self._engine, requests)):
                turn.go_on(computed)
        self.seconds += time.monotonic() - start


def _wake(done: Sequence[Turn]) -> None:
    for turn in done:
        if not turn.over.done():  # Whoever waited may have been cancelled.
            turn.over.set_result(None)


def computed_together(engine: Engine, requests: Sequence[Forward]) -> list[Computed | Exception]:
    """Run requests as one forward. If it fails, each is tried alone, so that only the failing one gets the error."""
    begun = time.monotonic()
    try:
        answers: Sequence[object] = engine.forward(requests)
    except Exception as error:  # Any error belongs to the answer that made the request.
        if len(requests) == 1:
            return [error]
        return [computed for request in requests for computed in computed_together(engine, [request])]
    rows, seconds = sum(request.rows for request in requests), time.monotonic() - begun
    return [
        answer if isinstance(answer, Exception) else Computed(answer, rows, seconds, len(requests))  # type: ignore[arg-type]
        for answer in answers
    ]


def advanced(frames: Answer, computed: Computed | Exception | None) -> object:
    """What an answer yields next: a forward that it needs, a frame, None, or `END`."""
    try:
        return frames.throw(computed) if isinstance(computed, Exception) else frames.send(computed)
    except StopIteration:
        return END


def alone(engine: Engine, frames: Answer) -> Iterator[Frame | None]:
    """The frames of an answer that has the engine to itself, and None for each turn without one."""
    computed: Computed | Exception | None = None
    with closing(frames):
        while (found := advanced(frames, computed)) is not END:
            computed = None
            if isinstance(found, Forward):
                (computed,) = computed_together(engine, [found])
            else:
                yield cast("Frame | None", found)
