"""One conversation's drafting, off the event loop: the draft context, and the memory that feeds it.

A context is not thread-safe, so every call runs on one thread. Memory arrives in the background after a verdict, goes
into the context, and is stored: the next reply starts from it, with a line or without. Stored answers feed the second
stage. While a verdict is awaited, drafts for its possible outcomes are made in the background, in single calls, so that
memory that arrives meanwhile can be handled between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from app.drafting.arrivals import Arrivals
from app.drafting.calls import Calls
from app.drafting.prompt import shared_prefix
from app.drafting.retrieval import Retrieval
from drafter.ahead import Outcome
from drafter.calibration import Calibration
from drafter.coin import Coins
from drafter.multicandidate import DraftSampling
from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.second_stage import SecondStage
from drafter.whole_model import ModelAway
from models.config import DIGEST_BYTES, DrafterConfig
from models.memory import MalformedMemory, memory_bits, pack_memory, unpack_memory
from models.tree import DraftTree
from remote import HostedStream, MemoryStream
from remote.protocol import Memory, MemoryFormat, RunningDigest
from storage import StorageError, Store

START_SECONDS = 0.003
"""Wait before drafting ahead, because the same interpreter still has to send the round just requested."""
READ_TOKENS = 16
"""Tokens that are read in one call while a server writes. Other work on the thread waits for at most one call."""
BEHIND = 48
"""Tokens that a whole model reads before a draft without keeping the server waiting, in about a quarter of a second."""


@dataclass(frozen=True)
class Alone:
    """Text by the drafter alone that was begun before it was known to be needed."""

    after: list[int]
    """All tokens before it."""
    temperature: float
    seed: int
    steps: Iterator[list[int]]
    first: asyncio.Future[list[int]]
    """The tokens of its first step."""


class Drafting:
    """Drafts one conversation's next tokens, and keeps the memory that it drafts from.

    `thread` runs one call at a time. Without `retrieval` there is no second stage. `calibration` is shared by all
    conversations that are drafted with the same settings.
    """

    def __init__(
        self,
        drafter: Drafter,
        store: Store,
        conversation_id: str,
        thread: Executor,
        retrieval: Retrieval | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self._drafter = drafter
        self._store = store
        self._conversation_id = conversation_id
        self._calls = Calls(thread)
        self._retrieval = retrieval
        self._second_stage = None if retrieval is None else SecondStage(experience=retrieval.experience)
        self._calibration = calibration or Calibration()
        self._coins: Coins | None = None
        self._context = drafter.context(self._second_stage)
        self._digests = RunningDigest()
        """Digests of the context's tokens."""
        self._shared = shared_prefix(drafter.text, drafter.prompt)
        self.arrivals = Arrivals(self._take)
        """Data in transit."""
        self._ahead: asyncio.Task[None] | None = None
        self._halted = asyncio.Event()
        self._restored = False
        self._given_up = 0
        """Memory before this position is given up."""
        self.prepared = 0
        """Drafts that were made ahead of the last verdict."""
        self.rounds: list[tuple[int, int]] = []
        """For each draft since `begin`: tokens of the conversation, and how many had memory here.

        Where the server drafts, it is what this device would have drafted from.
        """
        self.version = 0
        """Number of the version with which the drafter began the answer, or 0."""
        self.learns = False
        """Whether its drafter learns from the answer, so that what the target might have said is requested."""
        self._along: asyncio.Task[None] | None = None
        """Reads, piece by piece, the tokens that the server was asked to continue."""
        self._reads_along = False
        """Whether a server's text is read as it arrives, so that the drafter can continue at once if the line
        breaks."""
        self._alone: Alone | None = None
        """Text that was begun by `begin_alone`; the context is some tokens ahead then."""
        self._memory_ahead = 0
        """How many tokens had memory here when drafting ahead began."""

    @property
    def memory_digest(self) -> bytes:
        return self._drafter.memory_digest

    @property
    def config(self) -> DrafterConfig:
        return self._drafter.config

    @property
    def drafts(self) -> bool:
        """Whether its drafter ever drafts."""
        return self._drafter.drafts

    @property
    def is_model(self) -> bool:
        """Whether its drafter is a whole model, whose own text `app/reply/endpoint.py` brings."""
        return self._drafter.is_model

    def can_draft(self, length: int) -> bool:
        """Whether the drafter runs, and reads this many tokens."""
        return self._drafter.runs and self._drafter.reads(length)

    @property
    def length(self) -> int:
        """Tokens followed last, and those that the drafter wrote after them."""
        return len(self._context.tokens)

    def calibrate(self, calibration: Calibration) -> None:
        """Replace the calibration, because the drafter has changed."""
        self._calibration = calibration

    def begin(self, coins: Coins | None = None, *, learns: bool = False) -> None:
        """Start a new answer, whose rounds are counted from zero.

        `coins`: those with which the target samples, or None if it is greedy. `learns`: whether the drafter is to learn
        from it.
        """
        self._coins = coins
        self.rounds, self.version, self.learns = [], self._drafter.version, learns
        self.arrivals.begin()

    @property
    def memory_from(self) -> int:
        """Position of the first token whose memory is still to be requested."""
        given_up = min(self._given_up, len(self._context.tokens))
        return max(self._context.memory_length, given_up, *self.arrivals.ends)

    def reads(self, memory: MemoryFormat | None) -> bool:
        """Whether the drafter can read memory of this format."""
        own = self._drafter.memory_digest, self._drafter.memory_layers
        return memory is not None and (memory.digest, memory.layers) == own

    @property
    def guessed(self) -> int:
        """Number of tokens of this conversation that the second stage guessed correctly."""
        return 0 if self._second_stage is None else self._second_stage.accepted

    async def follow(self, tokens: Sequence[int]) -> None:
        """Make these the conversation's tokens. State that no longer matches them is dropped."""
        self._alone = None
        await self._settle()
        known = self._context.tokens
        if list(tokens[: len(known)]) != known:
            await self.quiet()  # Memory in transit may belong to tokens that are about to be dropped.
        await self._calls.run(lambda: self._follow(tokens))

    async def draft(self, pace: Pace, sampling: DraftSampling | None = None) -> DraftTree:
        """A tree of continuations of the tokens followed last: the likeliest ones, or with `sampling`, sampled ones.

        If it is cancelled, the thread stops after the drafter call in progress.
        """
        unwanted = threading.Event()
        try:
            return await self._calls.run(lambda: self._draft(pace, sampling, unwanted.is_set))
        finally:
            unwanted.set()

    # ---- along -------------------------------------------------------------------------------------------------------

    def read_along(self) -> None:
        """Begin to read, in the background, the tokens followed last, and those that `receive` brings later.

        A drafter that has read them can continue at once, with the same text. Other calls wait for at most one piece.
        Reading ends with `read_no_more`.
        """
        self.read_no_more()
        self._reads_along = True
        self._along = asyncio.create_task(self._read_along())

    def read_no_more(self) -> None:
        """End what `read_along` began."""
        self._reads_along = False
        if self._along is not None:
            self._along.cancel()

    async def _read_along(self) -> None:
        # All of them, because their memory may take a while and the line may break before it arrives.
        while await self._calls.run(lambda: self._read_ahead(known=False)):
            pass

    def _read_ahead(self, *, known: bool) -> bool:
        with contextlib.suppress(ModelAway):
            return self._context.read_ahead(READ_TOKENS, known=known)
        return False

    @property
    def is_behind(self) -> bool:
        """Whether the drafter has so much to read that a draft would keep the server waiting."""
        return self.is_model and self._context.waiting > BEHIND

    # ---- ahead -------------------------------------------------------------------------------------------------------

    def look_ahead(self, pace: Callable[[int], Pace], final: Collection[int]) -> None:
        """Begin to draft, in the background, for the possible outcomes of the verdict on the last draft.

        `pace`: the shape of a draft after a number of new tokens. Nothing follows `final` tokens. Following other
        tokens ends it.
        """
        self.prepared, self._memory_ahead = 0, self._context.memory_length
        self._halted.clear()
        self._ahead = asyncio.create_task(self._look_ahead(pace, frozenset(final)))

    def halt(self) -> None:
        """Stop drafting ahead, after the call in progress."""
        self._halted.set()

    @property
    def ready(self) -> DraftTree | None:
        """The draft that was prepared for the tokens followed last, if any."""
        return self._context.ready

    async def adopt(self) -> DraftTree:
        """Use the `ready` draft instead of a new one. Memory may still arrive while its round is in flight."""
        self._note(self._memory_ahead)
        return await self._calls.run(self._context.adopt)

    async def _look_ahead(self, pace: Callable[[int], Pace], final: frozenset[int]) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halted.wait(), START_SECONDS)
            return
        halted, calibration = self._halted.is_set, self._calibration
        for outcome in await self._calls.run(lambda: self._outcomes(calibration, final)):
            if halted():
                break
            with_pace = pace(len(outcome.tokens))
            self.prepared += await self._calls.run(
                lambda outcome=outcome, pace=with_pace: self._context.prepare(outcome, pace, calibration, halted)  # type: ignore[misc]
            )

    async def _settle(self) -> None:
        """Wait until drafting ahead has stopped."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self.halt()
            await ahead

    @property
    def taken(self) -> tuple[int, float, int] | None:
        """Number of drafter calls for the last draft, their total seconds, and the rows whose time counts after the
        first of each call; or None if it took none.
        """
        return None if self._context.taken is None else (*self._context.taken, self._context.rows)

    def learn(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> None:
        self._calibration.learn(tree, accepted, bonus)

    # ---- alone -------------------------------------------------------------------------------------------------------

    def begin_alone(self, temperature: float, seed: int) -> None:
        """Begin to write what `generate` would yield after the tokens followed last, because the line may be down.

        Following other tokens ends it.
        """
        after, steps = list(self._context.tokens), self._context.generate(temperature, seed)
        first = self._calls.run(lambda: self._next(steps))
        first.add_done_callback(lambda first: first.cancelled() or first.exception())  # It may not be needed.
        self._alone = Alone(after, temperature, seed, steps, first)

    async def generate(self, after: Sequence[int], temperature: float, seed: int) -> AsyncGenerator[int, None]:
        """Yields the drafter's own tokens after these, one by one.

        The context may be some tokens ahead; `follow` corrects that.
        """
        alone, self._alone = self._alone, None
        if alone is not None and (alone.after, alone.temperature, alone.seed) == (list(after), temperature, seed):
            steps, tokens = alone.steps, await alone.first
        else:
            await self.follow(after)
            steps, tokens = self._context.generate(temperature, seed), []
        while True:
            for token in tokens:
                yield token
            tokens = await self._calls.run(lambda: self._next(steps))

    # ---- memory ------------------------------------------------------------------------------------------------------

    def receive(self, tokens: Sequence[int], frame: Memory) -> None:
        """Follow these tokens and take memory of some of them, in the background. Calls are served in their order."""
        self._alone = None
        self._calls.run(lambda tokens=list(tokens): self._receive(tokens, frame))  # type: ignore[misc]

    def listen(self, stream: MemoryStream | HostedStream) -> None:
        """Take the memory of a round in the background. Its tokens are already followed."""
        # The last token is the root of the next round, which has no memory yet.
        self.arrivals.listen(stream, len(self._context.tokens) - 1)

    async def hear_out(self, seconds: float) -> None:
        """Wait for everything in transit, at most this long, then stop listening and do without the rest.

        The newest memory counts most and arrives first. A line that is too slow for the rest must not carry it
        repeatedly.
        """
        if not await self.arrivals.hear_out(seconds):
            self._given_up = len(self._context.tokens)
        await self.quiet()

    async def quiet(self) -> None:
        """Stop listening and drafting ahead. Memory that has not arrived is requested again."""
        await self._settle()
        await self.arrivals.stop()

    async def _take(self, frame: Memory) -> int:
        """Take memory. Returns how many tokens have theirs. Raises `MalformedMemory`."""
        if frame.digest == self._drafter.memory_digest:
            await self._calls.run(lambda: self._remember(frame.start, frame.count, frame.data))
        return self._context.memory_length

    # ---- on the drafting thread --------------------------------------------------------------------------------------

    def _draft(self, pace: Pace, sampling: DraftSampling | None, halted: Callable[[], bool]) -> DraftTree:
        self._retrieve()
        self._note(self._context.memory_length)
        try:
            return self._context.draft(pace, sampling, self._calibration, self._coins, halted)
        except ModelAway:
            self._context.taken = None
            return DraftTree.empty()

    def _outcomes(self, calibration: Calibration, final: frozenset[int]) -> list[Outcome]:
        with contextlib.suppress(ModelAway):
            return self._context.outcomes(calibration, final)
        return []

    def _note(self, memory: int) -> None:
        """Record what a draft is made from. A draft that is made again counts once."""
        length = len(self._context.tokens)
        self.rounds = [*self.rounds[: -1 if self.rounds and self.rounds[-1][0] == length else None], (length, memory)]

    def _next(self, steps: Iterator[list[int]]) -> list[int]:
        self._retrieve()
        tokens = next(steps)
        self._digests.extend(tokens)
        return tokens

    def _retrieve(self) -> None:
        if self._second_stage is not None and self._retrieval is not None:
            self._second_stage.stored = self._retrieval.indices

    def _follow(self, tokens: Sequence[int]) -> None:
        same = self._context.follow(tokens)
        self._digests.truncate(same)
        self._digests.extend(tokens[same:])
        if not self._restored:
            self._restored = True
            with contextlib.suppress(StorageError):  # The verifier can compute all of it again.
                self._restore()

    def _receive(self, tokens: Sequence[int], frame: Memory) -> None:
        self._follow(tokens)
        self._note(self._context.memory_length)
        if frame.digest == self._drafter.memory_digest:
            with contextlib.suppress(MalformedMemory):  # As in `_take`.
                self._remember(frame.start, frame.count, frame.data)
        while self._reads_along and not self._calls.others_wait and self._context.waiting > READ_TOKENS:
            if not self._read_ahead(known=True):
                break

    def _remember(self, start: int, count: int, data: bytes) -> None:
        layers = self._drafter.memory_layers
        rows, bits = unpack_memory(data, count, layers), memory_bits(data, count, layers)
        self._context.remember(start, rows)
        # Cut where conversations diverge, so that a new one can start from the memory of their common beginning.
        cuts = [start, *([self._shared] if start < self._shared < start + count else []), start + count]
        for first, end in zip(cuts, cuts[1:]):
            part = pack_memory([tuple(array[first - start : end - start] for array in row) for row in rows], bits)  # type: ignore[misc]
            with contextlib.suppress(StorageError):  # The verifier can compute it again.
                self._store.memory.save(
                    self._conversation_id, self._drafter.memory_digest, first, end - first, self._digests.at(end) + part
                )

    def _restore(self) -> None:
        """Load stored memory of these tokens. Each stored chunk names its prefix by a digest."""
        others = [other.id for other in self._store.conversations.recent(2) if other.id != self._conversation_id]
        for conversation_id in (self._conversation_id, *others):
            for start, count, data in self._store.memory.load(conversation_id, self._drafter.memory_digest):
                known = start + count <= len(self._digests) and self._digests.at(start + count) == data[:DIGEST_BYTES]
                if known and start + count > self._context.memory_length:
                    try:
                        rows = unpack_memory(data[DIGEST_BYTES:], count, self._drafter.memory_layers)
                    except MalformedMemory:
                        continue  # Damaged on disk; the verifier sends it again.
                    self._context.remember(start, rows)
