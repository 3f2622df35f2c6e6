"""One reply: draft, verify, fall back, resume.

Rounds with the verifier while it answers, the drafter alone while it does not, and back: tokens written alone go up as
a draft, and the target goes on from what it agrees with. Yields events; knows no screen and no database.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from app.answer import Answer, Shown
from app.config import Settings
from app.connection import Connection, Verifier
from app.drafting import Drafting
from app.events import Failed, ModeChanged, Paced, Stats
from drafter.cost import Cost, CostMeter
from drafter.multicandidate import DraftSampling
from drafter.search import Pace
from drafter.text import ChatText
from drafter.tree import DraftTree
from remote import Incompatible, Refused, RemoteError, RemoteSession, RoundReply, VerifierClient
from remote.protocol import Limits, Sampling

T = TypeVar("T")
Step = Shown | ModeChanged | Stats | Paced
Reason = Literal["end", "length", "stopped"]
Code = Literal["unavailable", "incompatible", "too_long", "internal"]

SAMPLED_DEPTH = 8
"""Most levels of a sampled tree whose size nobody chose: what pays on lines of some 100 ms."""
RETURN_SECONDS = 10.0
"""In edge mode, how long a reply waits for a verifier that was there and went."""
PREFILL_SECONDS = 0.01
"""A guess at what the target takes for each token it has not seen; a deadline may be too late, not too early."""
FIRST_SERVER_SECONDS = 0.5
MEMORY_SECONDS = 0.25
"""Longest wait for the last round's memory before the next draft."""
MEMORY_LIMIT_SECONDS = 1.0
"""And before the next round, which needs the line for itself."""
STATS_TOKENS = 16
"""Between two statistics and checkpoints while the drafter writes alone."""


class NoAnswer(Exception):
    """Neither side can go on."""

    def __init__(self, message: str, code: Code) -> None:
        super().__init__(message)
        self.event = Failed(message, code)


@dataclass
class Line:
    """What one conversation shares with its verifier, from reply to reply."""

    client: VerifierClient | None = None
    session: RemoteSession | None = None
    sent: int = 0
    """Tokens that the verifier has seen."""

    def with_verifier(self, verifier: Verifier) -> RemoteSession:
        if self.session is None or self.client is not verifier.client:
            self.client, self.session, self.sent = verifier.client, verifier.client.session(), 0
        return self.session


class Reply:
    """The answer to `prompt`, the tokens of a conversation up to where its answer begins."""

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        text: ChatText,
        settings: Settings,
        sampling: Sampling,
        drafting: Drafting,
        memory_digest: bytes,
        line: Line,
        connection: Connection | None,
        draft: bool,
    ) -> None:
        self.answer = Answer(text)
        self.reason: Reason | None = None
        """Why it ended; None before."""
        self._prompt = list(prompt)
        self._settings = settings
        self._sampling = sampling
        self._drafting = drafting
        self._memory_digest = memory_digest
        self._line = line
        self._connection = connection
        self._draft = draft
        self._alone_allowed = draft and settings.mode != "edge"
        self._stop_tokens = set(text.stop_tokens)
        self._stop = asyncio.Event()
        self._rounds: list[RoundReply] = []
        self._drafted_nodes = 0
        self._levels = 0
        """Drafter calls for the round that goes on, where they are known."""
        self._cost: Cost | None = None
        """By which its tree was made."""
        self._guessed_before = drafting.guessed
        self._verified = 0
        self._begun = time.monotonic()
        self._first_token: float | None = None

    def stop(self) -> None:
        """End as soon as possible, with the tokens that are there."""
        self._stop.set()

    @property
    def stats(self) -> Stats:
        rtt = self._connection.link.rtt_seconds if self._connection is not None else None
        return Stats(
            rounds=len(self._rounds),
            verified=self.answer.verified,
            drafted=len(self.answer.suffix),
            drafted_nodes=self._drafted_nodes,
            second_stage=self._drafting.guessed - self._guessed_before,
            seconds=time.monotonic() - self._begun,
            first_token_seconds=self._first_token,
            rtt_ms=None if rtt is None else 1000 * rtt,
            bytes_up=sum(reply.bytes_up for reply in self._rounds),
            bytes_down=sum(reply.bytes_down for reply in self._rounds),
        )

    async def steps(self) -> AsyncGenerator[Step, None]:
        """All that happens until `reason` is known. Raises `NoAnswer`."""
        trouble: NoAnswer | None = None
        try:
            if self._connection is not None and self._connection.warming:
                yield ModeChanged("warming", self._connection.why)
                while self._connection.warming and not self._stop.is_set():
                    await self._unless_stopped(self._connection.changed())
            while self.reason is None:
                if self._stop.is_set():
                    self.reason = "stopped"
                elif (steps := self._next_steps()) is None:
                    await self._until_return()
                else:
                    async with contextlib.aclosing(steps):
                        async for step in steps:
                            yield step
        except NoAnswer as error:
            trouble = error
        for shown in self.answer.finish():
            yield shown
        if trouble is not None:
            raise trouble

    def _next_steps(self) -> AsyncGenerator[Step, None] | None:
        """Whoever can go on; None where nobody can."""
        if self._connection is not None and (verifier := self._connection.verifier) is not None:
            return self._with_verifier(self._connection, verifier)
        return self._alone() if self._alone_allowed else None

    # ---- with the verifier -------------------------------------------------------------------------------------------

    async def _with_verifier(self, connection: Connection, verifier: Verifier) -> AsyncGenerator[Step, None]:
        """Rounds, until the answer is complete or the verifier is lost."""
        yield ModeChanged("edge", connection.why)
        limits = verifier.card.limits
        if len(self._prompt) >= limits.max_tokens:
            raise NoAnswer(
                f"The conversation is {len(self._prompt)} tokens long and {verifier.card.target} reads "
                f"{limits.max_tokens}. Ask less at once, or start a new conversation.",
                "too_long",
            )
        self._stop_tokens |= set(verifier.card.stop_tokens)
        memory = verifier.card.memory
        remembers = self._draft and memory is not None and memory.digest == self._memory_digest
        session = self._line.with_verifier(verifier)
        asked: float | None = None
        """When the last round began, if it was one like the others: no prompt to run, nothing to send again."""
        try:
            while self.reason is None:
                # The newest memory is worth more to a draft than the milliseconds it takes to arrive.
                await self._drafting.hear(MEMORY_SECONDS)
                begun = time.monotonic()
                if asked is not None:
                    connection.costs.waited(begun - asked - self._rounds[-1].verdict.server_seconds)
                tree = await self._tree(limits, connection.costs)
                drafted = time.monotonic()
                for step in self.answer.guess(self._guesses(tree)):
                    yield step
                committed = self._prompt + self.answer.tokens[: self.answer.verified]
                unseen = max(0, len(committed) - self._line.sent)
                estimate = (connection.server_seconds or FIRST_SERVER_SECONDS) + PREFILL_SECONDS * unseen
                deadline = connection.link.deadline(estimate)
                await self._drafting.hear_out(MEMORY_LIMIT_SECONDS)
                # What is heard out here belongs to the round before, so to none that counts where that one did not.
                asked = time.monotonic() if asked is None else drafted
                asking = session.round(
                    committed,
                    tree,
                    self._sampling,
                    memory_from=self._drafting.memory_from if remembers else None,
                    deadline=deadline,
                )
                reply = await self._unless_stopped(asking)
                if reply is None:
                    self.reason = "stopped"
                    return
                connection.served(reply)
                if unseen or reply.exchanges > 1:
                    asked = None
                else:
                    connection.costs.judged(len(tree), reply.verdict.server_seconds)
                self._line.sent = reply.verdict.length
                steps = self._take(tree, reply, limits)
                await self._drafting.follow(self._prompt + self.answer.tokens)
                self._drafting.listen(reply.memory)
                for step in steps:
                    yield step
                yield self._paced(tree, reply, drafted - begun)
                yield self.stats
        except RemoteError as error:
            if isinstance(error, Refused) and error.code == "too_long":
                raise NoAnswer(f"{error} Start a new conversation.", "too_long") from error
            if isinstance(error, Refused) and error.code == "out_of_order":
                self._line.client = None
            elif isinstance(error, Refused) and not error.retry and not self._alone_allowed:
                raise NoAnswer(str(error), "unavailable") from error
            connection.lost(verifier, error)

    async def _tree(self, limits: Limits, costs: CostMeter) -> DraftTree:
        """What goes up next: tokens written alone if there are any, else what the drafter thinks."""
        self._levels, self._cost = 0, None
        if suffix := self.answer.suffix:
            return DraftTree.chain(suffix[: min(limits.max_depth, limits.max_nodes)])
        if not self._draft:
            return DraftTree.empty()
        left = self._settings.max_tokens - len(self.answer.tokens)
        deepest = min(limits.max_depth, left - 1)  # The bonus token comes on top.
        sampling = self._draft_sampling()
        measured, depth = self._settings.pace == "measured", min(self._settings.depth, deepest)
        if measured and sampling is None:
            self._cost = costs.cost
        elif measured:  # A sampled tree's size must not depend on what is drawn in it.
            depth = min(depth, SAMPLED_DEPTH)
        nodes = min(self._settings.nodes, limits.max_nodes)
        await self._drafting.follow(self._prompt + self.answer.tokens)
        tree = await self._drafting.draft(Pace(depth, self._settings.breadth, nodes, deepest, self._cost), sampling)
        if (taken := self._drafting.taken) is not None:
            self._levels = taken[0]
            costs.drafted(*taken)
        return tree

    def _paced(self, tree: DraftTree, reply: RoundReply, draft_seconds: float) -> Paced:
        verdict = reply.verdict
        return Paced(
            levels=self._levels,
            nodes=len(tree),
            expected=tree.expected_tau,
            gained=len(verdict.accepted) + (verdict.bonus is not None),
            cost=self._cost,
            draft_seconds=draft_seconds,
            server_seconds=verdict.server_seconds,
            rtt_seconds=reply.rtt_seconds,
        )

    def _draft_sampling(self) -> DraftSampling | None:
        """None: the likeliest candidates, as always where the target is greedy."""
        sampling = self._sampling
        if self._settings.tree == "deterministic" or sampling.temperature == 0:
            return None
        return DraftSampling(sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed)

    def _guesses(self, tree: DraftTree) -> list[int]:
        """The likeliest path, as far as an answer may go. Tokens written alone are shown already."""
        if self.answer.suffix:
            return []
        return self._cut([int(tree.tokens[node]) for node in tree.likeliest_path()])

    def _take(self, tree: DraftTree, reply: RoundReply, limits: Limits) -> list[Shown]:
        """Put a verdict into the answer."""
        verdict = reply.verdict
        accepted = [int(tree.tokens[node]) for node in verdict.accepted]
        tokens = self._cut(accepted + ([] if verdict.bonus is None else [verdict.bonus]), after=self.answer.verified)
        shown = self.answer.verify(tokens, min(len(accepted), len(tokens)))
        self._drafting.learn(tree, verdict.accepted, verdict.bonus)
        self._rounds.append(reply)
        self._drafted_nodes += len(tree)
        self._count_first()
        self._end_at(self.answer.tokens[: self.answer.verified])
        if self.reason is None and verdict.length >= limits.max_tokens:
            self.reason = "length"
        return shown

    async def _until_return(self) -> None:
        """Wait for a verifier that was there. Raises `NoAnswer`."""
        connection = self._connection
        if connection is None:
            raise NoAnswer("There is no verifier to ask. Choose another --mode, or give --remote.", "unavailable")
        if connection.met:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETURN_SECONDS):
                    while connection.verifier is None and not self._stop.is_set():
                        await self._unless_stopped(connection.changed())
        if connection.verifier is None and not self._stop.is_set():
            code: Code = "incompatible" if isinstance(connection.error, Incompatible) else "unavailable"
            raise NoAnswer(f"No verifier: {connection.why}.", code)

    # ---- alone -------------------------------------------------------------------------------------------------------

    async def _alone(self) -> AsyncGenerator[Step, None]:
        """The drafter, until the answer is complete or a verifier is there."""
        connection = self._connection
        yield ModeChanged("offline", "offline by choice" if connection is None else connection.why)
        await self._drafting.quiet()
        await self._drafting.follow(self._prompt + self.answer.tokens)
        sampling = self._sampling
        async with contextlib.aclosing(self._drafting.generate(sampling.temperature, sampling.seed)) as tokens:
            async for token in tokens:
                for step in self.answer.draft(token):
                    yield step
                self._count_first()
                self._end_at(self.answer.tokens)
                if len(self.answer.tokens) % STATS_TOKENS == 0:
                    yield self.stats
                if self.reason is not None or self._stop.is_set():
                    break
                if connection is not None and connection.verifier is not None:
                    break
        yield self.stats

    # ---- both --------------------------------------------------------------------------------------------------------

    def _cut(self, tokens: Sequence[int], after: int | None = None) -> list[int]:
        """Tokens up to the first that ends an answer, and no more than it may have after `after` others."""
        left = self._settings.max_tokens - (len(self.answer.tokens) if after is None else after)
        kept: list[int] = []
        for token in tokens[: max(0, left)]:
            kept.append(token)
            if token in self._stop_tokens:
                break
        return kept

    def _end_at(self, tokens: Sequence[int]) -> None:
        if tokens and tokens[-1] in self._stop_tokens:
            self.reason = "end"
        elif len(tokens) >= self._settings.max_tokens:
            self.reason = "length"

    def _count_first(self) -> None:
        if self._first_token is None and self.answer.tokens:
            self._first_token = time.monotonic() - self._begun

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The work's result; None where `stop` came first, and then the work is cancelled."""
        working, stopping = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)
