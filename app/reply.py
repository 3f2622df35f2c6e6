"""One reply: draft, verify, fall back, resume.

Rounds or a stream with the verifier while it answers, the drafter alone while it does not, and back: tokens written
alone go up as a draft, and the target goes on from what it agrees with. Yields events; knows no screen, no database.
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
from app.connection import Connection, Endpoint, Peer, Verifier
from app.drafting import Drafting
from app.endpoint import Diverged, Telling
from app.events import Failed, ModeChanged, Paced, Stats
from app.lookahead import Lookahead
from app.pace import Verifying
from drafter.cost import Cost, CostMeter
from drafter.multicandidate import DraftSampling
from drafter.search import Pace
from drafter.text import ChatText
from drafter.tree import DraftTree
from remote import (
    Broken,
    ChatStream,
    HostedStream,
    Incompatible,
    Refused,
    RemoteError,
    RemoteSession,
    RoundReply,
    VerifierClient,
)
from remote.protocol import Limits, Memory, Progress, Sampling, unpack_tokens

T = TypeVar("T")
Step = Shown | ModeChanged | Stats | Paced
Reason = Literal["end", "length", "stopped"]
Code = Literal["unavailable", "incompatible", "too_long", "internal"]

SAMPLED_DEPTH, SAMPLED_NODES = 8, 60
"""Of a sampled tree whose size nobody chose: what pays on lines of some 100 ms."""
RETURN_SECONDS = 10.0
"""In edge mode, how long a reply waits for a verifier that was there and went."""
PREFILL_SECONDS = 0.01
"""A guess at what the target takes for each token it has not seen; a deadline may be too late, not too early."""
FIRST_SERVER_SECONDS = 0.5
FIRST_WORDS_SECONDS = 5.0
"""What a server that is not ours may take to begin, and"""
GAP_SECONDS = 2.0
"""between two pieces of text: other people's requests stand before this one."""
TOKEN_BYTES = 4
"""Of a token on its way up."""
MEMORY_BYTES = 64 * 1024
"""More than a frame of memory has, which may stand before the next words of a stream."""
GHOST_SECONDS = 0.03
"""Round trip from which on there is time to read guesses before the first words of a stream."""
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
    """The answer to `prompt`, the tokens of a conversation up to where its answer begins.

    `messages`: the same conversation as (role, text), for a server that reads no tokens.
    `begun`: an answer to go on with, whose tokens that are not verified the target keeps or replaces; then the drafter
    never goes on alone.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        messages: Sequence[tuple[str, str]],
        text: ChatText,
        settings: Settings,
        sampling: Sampling,
        drafting: Drafting,
        memory_digest: bytes,
        line: Line,
        connection: Connection | None,
        draft: bool,
        begun: Answer | None = None,
    ) -> None:
        self.answer = begun or Answer(text)
        self.reason: Reason | None = None
        """Why it ended; None before."""
        self._prompt = list(prompt)
        self._messages = messages
        self._text = text
        self._settings = settings
        self._sampling = sampling
        self._drafting = drafting
        self._memory_digest = memory_digest
        self._line = line
        self._connection = connection
        self._draft = draft
        self._alone_allowed = draft and begun is None and settings.mode in ("auto", "offline")
        self._stop_tokens = set(text.stop_tokens)
        self._stop = asyncio.Event()
        self._rounds = 0
        self._traffic: list[RoundReply | HostedStream | ChatStream] = []
        self._choosing = draft and settings.mode == "auto"
        """The faster mode is taken."""
        self._chosen = False
        self._asked_again = False
        """The last stream broke, and nothing has come since."""
        self._drafted_nodes = 0
        self._levels = 0
        """Drafter calls for the round that goes on, where they are known."""
        self._cost: Cost | None = None
        """By which its tree was made."""
        self._strayed: Endpoint | None = None
        """What it says now cannot be joined to this answer."""
        self._guessed_before = drafting.guessed
        self._ahead = Lookahead(drafting, enabled=draft and settings.ahead and self._draft_sampling() is None)
        self._given = self.answer.verified
        """Tokens that were verified before it began."""
        self._begun = time.monotonic()
        self._first_token: float | None = None

    def stop(self) -> None:
        """End as soon as possible, with the tokens that are there."""
        self._stop.set()

    @property
    def stats(self) -> Stats:
        rtt = self._connection.link.rtt_seconds if self._connection is not None else None
        return Stats(
            rounds=self._rounds,
            verified=self.answer.verified - self._given,
            drafted=len(self.answer.suffix),
            drafted_nodes=self._drafted_nodes,
            second_stage=self._drafting.guessed - self._guessed_before,
            ahead_tries=self._ahead.tries,
            ahead_hits=self._ahead.hits,
            ahead_adopted=self._ahead.adopted,
            seconds=time.monotonic() - self._begun,
            first_token_seconds=self._first_token,
            rtt_ms=None if rtt is None else 1000 * rtt,
            bytes_up=sum(exchange.bytes_up for exchange in self._traffic),
            bytes_down=sum(exchange.bytes_down for exchange in self._traffic),
        )

    async def steps(self) -> AsyncGenerator[Step, None]:
        """All that happens until `reason` is known. Raises `NoAnswer`."""
        trouble: NoAnswer | None = None
        for shown in self.answer.begin():
            yield shown
        try:
            with contextlib.nullcontext() if self._connection is None else self._connection.wanted():
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
        if self._connection is not None and (peer := self._peer) is not None:
            ask = self._told if isinstance(peer, Endpoint) else self._with_verifier
            return ask(self._connection, peer)  # type: ignore[arg-type]
        return self._alone() if self._can_go_alone else None

    @property
    def _peer(self) -> Peer | None:
        """Who can be asked to go on with this answer."""
        peer = None if self._connection is None else self._connection.verifier
        return None if peer == self._strayed else peer

    @property
    def _can_go_alone(self) -> bool:
        return self._alone_allowed and not self.answer.beyond

    # ---- with the verifier -------------------------------------------------------------------------------------------

    async def _with_verifier(self, connection: Connection, verifier: Verifier) -> AsyncGenerator[Step, None]:
        """Until the answer is complete, another mode is faster, or the verifier is lost."""
        limits = verifier.card.limits
        if len(self._prompt) >= limits.max_tokens:
            raise NoAnswer(
                f"The conversation is {len(self._prompt)} tokens long and {verifier.card.target} reads "
                f"{limits.max_tokens}. Ask less at once, or start a new conversation.",
                "too_long",
            )
        self._stop_tokens |= set(verifier.card.stop_tokens)
        mode = self._mode(connection)
        yield ModeChanged(mode, connection.why_mode if self._choosing else connection.why)
        ways = {"edge": self._edge, "hosted": self._hosted}
        try:
            async with contextlib.aclosing(ways[mode](connection, verifier)) as steps:
                async for step in steps:
                    yield step
        except RemoteError as error:
            if mode == "hosted" and isinstance(error, Broken) and not self._asked_again:
                self._asked_again = True  # As a round does by itself. Where the line is down, that says why.
                return
            self._failed(connection, verifier, error)
        finally:
            self._drafting.halt()

    def _failed(self, connection: Connection, peer: Peer, error: RemoteError) -> None:
        """Raises `NoAnswer` where nobody can go on."""
        if isinstance(error, Refused) and error.code == "too_long":
            raise NoAnswer(f"{error} Start a new conversation.", "too_long") from error
        if isinstance(error, Refused) and error.code == "out_of_order":
            self._line.client = None
        elif isinstance(error, Refused) and not error.retry and not self._can_go_alone:
            raise NoAnswer(str(error), "unavailable") from error
        connection.lost(peer, error)

    def _mode(self, connection: Connection) -> Verifying:
        """Who drafts now."""
        if self.answer.suffix:
            return "edge"  # What was written alone goes up as a draft.
        if not self._choosing:
            return "hosted" if self._settings.mode == "hosted" else "edge"
        begun, self._chosen = self._chosen, True
        rtt = connection.link.rtt_seconds or 0.0
        return connection.modes.review(rtt) if begun else connection.modes.choose(rtt)

    def _remembers(self, verifier: Verifier) -> bool:
        """Whether the verifier's memory means something to the drafter."""
        memory = verifier.card.memory
        return self._draft and memory is not None and memory.digest == self._memory_digest

    def _deadline(self, connection: Connection, committed: Sequence[int]) -> float:
        """Seconds for the verifier to answer to these tokens, of which it may not have seen some."""
        unseen = max(0, len(committed) - self._line.sent)
        estimate = (connection.server_seconds or FIRST_SERVER_SECONDS) + PREFILL_SECONDS * unseen
        return connection.link.deadline(estimate, TOKEN_BYTES * unseen)

    async def _edge(self, connection: Connection, verifier: Verifier) -> AsyncGenerator[Step, None]:
        """Rounds: drafted here, verified there."""
        limits, remembers = verifier.card.limits, self._remembers(verifier)
        session = self._line.with_verifier(verifier)
        asked: float | None = None
        """When the last round began, if it was one like the others: no prompt to run, nothing to send again."""
        last: tuple[float, Paced] | None = None
        while self.reason is None:
            adopts = self._ahead.choose(connection.adoption)
            if not adopts:
                # The newest memory is worth more to a draft than the milliseconds it takes to arrive.
                await self._drafting.hear(MEMORY_SECONDS)
            begun = time.monotonic()
            if asked is not None and last is not None:
                started, paced = last
                if isinstance(judged := self._traffic[-1], RoundReply) and not adopts:
                    connection.link.received(*judged.streamed)
                connection.costs.waited(begun - asked - paced.server_seconds)
                connection.modes.edge(paced.gained, begun - started - paced.rtt_seconds, paced.server_seconds)
                if self._mode(connection) != "edge":
                    return
            tree = await self._tree(limits, connection.costs, adopts)
            drafted = time.monotonic()
            for step in self.answer.guess(self._guesses(tree)):
                yield step
            committed = self._prompt + self.answer.tokens[: self.answer.verified]
            unseen = len(committed) > self._line.sent
            deadline = self._deadline(connection, committed)
            if not adopts:
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
            self._look_ahead(connection, verifier)
            reply = await self._unless_stopped(asking)
            if reply is None:
                self.reason = "stopped"
                return
            usual = not unseen and reply.exchanges == 1
            self._ahead.returned(connection.adoption, reply.verdict.server_seconds, usual=usual)
            connection.served(reply)
            if unseen or reply.exchanges > 1:
                asked = None
            else:
                connection.costs.judged(len(tree), reply.verdict.server_seconds)
            self._line.sent = reply.verdict.length
            alone = bool(self.answer.suffix)
            steps = self._take(tree, reply, limits)
            await self._drafting.follow(self._prompt + self.answer.tokens)
            new = len(self._prompt) + len(self.answer.tokens) - len(committed)
            self._ahead.followed(connection.adoption, new, ended=self.reason is not None)
            self._drafting.listen(reply.memory)
            for step in steps:
                yield step
            paced = self._paced(tree, reply, drafted - begun, adopts)
            last = begun, paced
            yield paced
            yield self.stats
            if alone and self._mode(connection) != "edge":
                return  # What was written alone is judged.

    def _look_ahead(self, connection: Connection, verifier: Verifier) -> None:
        """A round goes up: draft for what it may bring."""
        left, cost = self._settings.max_tokens - self.answer.verified, connection.costs.cost

        def pace(new: int) -> Pace:
            return self._pace(verifier.card.limits, left - new, cost)

        level = 0.0 if cost is None else cost.level
        self._ahead.sent(connection.adoption, pace, self._stop_tokens, level, shared=verifier.client.local)

    async def _hosted(self, connection: Connection, verifier: Verifier) -> AsyncGenerator[Step, None]:
        """A stream: drafted and verified there. The drafter here remembers what it would have to go on from."""
        limits, remembers = verifier.card.limits, self._remembers(verifier)
        session = self._line.with_verifier(verifier)
        await self._drafting.hear_out(MEMORY_LIMIT_SECONDS)
        committed = self._prompt + self.answer.tokens
        await self._drafting.follow(committed)
        opening = session.stream(
            committed,
            self._sampling,
            most=self._settings.max_tokens - len(self.answer.tokens),
            memory_from=self._drafting.memory_from if remembers else None,
            deadline=self._deadline(connection, committed),
            silence=connection.link.deadline(FIRST_SERVER_SECONDS),
            draft=self._draft,
        )
        asking = asyncio.create_task(opening)
        try:
            for step in await self._meanwhile(asking, limits, connection):
                yield step
            stream = await self._unless_stopped(asking)
        finally:
            asking.cancel()
        if stream is None:
            self.reason = "stopped"
            return
        self._traffic.append(stream)
        before: float | None = None
        try:
            while self.reason is None:
                frame = await self._unless_stopped(_next(stream))
                if frame is None:
                    self.reason = "stopped" if self._stop.is_set() else "length"
                elif isinstance(frame, Memory):
                    self._drafting.receive(self._prompt + self.answer.tokens, frame)
                else:
                    now = time.monotonic()
                    if before is None:
                        connection.streams(stream, frame.server_seconds)
                    else:
                        connection.modes.hosted(len(frame.tokens) // 4, now - before)
                        connection.waited(now - before)
                    steps = self._progress(frame)
                    if frame.finished and self.reason is None:
                        self.reason = "length"
                    for step in steps:
                        yield step
                    yield self._streamed(frame, 0.0 if before is None else now - before)
                    yield self.stats
                    before = now
                    pause = connection.link.deadline(connection.server_seconds or 0.0, MEMORY_BYTES)
                    stream.silence = pause
                    if self.reason is None and self._mode(connection) != "hosted":
                        return
        finally:
            if self.reason in ("end", "length"):
                await self._drafting.follow(self._prompt + self.answer.tokens)
                self._drafting.listen(stream)
            else:
                await stream.aclose()

    async def _told(self, connection: Connection, endpoint: Endpoint) -> AsyncGenerator[Step, None]:
        """Text by a server that is no verifier, until the answer is complete or the server is lost."""
        host, settings = endpoint.client.host, self._settings
        if settings.mode == "edge":
            advice = "which verifies no drafts. Choose --mode auto or hosted"
            raise NoAnswer(f"{host} is an OpenAI-compatible server, {advice}.", "incompatible")
        yield ModeChanged("hosted", connection.why)
        await self._drafting.quiet()
        telling = Telling(endpoint, self._messages, self.answer, self._text, settings.max_tokens)
        first = connection.link.deadline(max(FIRST_WORDS_SECONDS, connection.server_seconds or 0.0))
        try:
            stream = await self._unless_stopped(
                telling.begin(self._sampling, first, connection.link.deadline(GAP_SECONDS))
            )
            if stream is not None:
                self._traffic.append(stream)
                connection.speaks(stream)
            while self.reason is None:
                shown = None if stream is None else await self._unless_stopped(telling.next())
                if self._stop.is_set():
                    self.reason = "stopped"
                elif shown is None:
                    shown = telling.finish()
                    self.reason = "length" if stream is not None and stream.reason == "length" else "end"
                elif telling.full:
                    self.reason = "length"
                else:
                    self._end_at(self.answer.tokens[: self.answer.verified])
                for step in shown or []:
                    yield step
                self._rounds += 1
                self._count_first()
                yield self.stats
        except Diverged:
            self._strayed = endpoint
            if not self._can_go_alone:
                message = f"The answer was cut off, and {host} gives another one now. Ask again to have that."
                raise NoAnswer(message, "unavailable") from None
        except RemoteError as error:
            self._failed(connection, endpoint, error)
        finally:
            await telling.aclose()

    async def _meanwhile(self, asking: asyncio.Task[Any], limits: Limits, connection: Connection) -> list[Shown]:
        """Guesses to show while the first words of a stream are on their way; none where these come sooner."""
        if not self._draft or self.answer.tokens or (connection.link.rtt_seconds or 0.0) < GHOST_SECONDS:
            return []
        drafting = asyncio.create_task(self._tree(limits, connection.costs))
        try:
            await asyncio.wait([asking, drafting], return_when=asyncio.FIRST_COMPLETED)
            return self.answer.guess(self._guesses(drafting.result())) if drafting.done() else []
        finally:
            drafting.cancel()

    def _progress(self, progress: Progress) -> list[Shown]:
        """Put what a stream's round gave into the answer."""
        tokens = self._cut(unpack_tokens(progress.tokens), after=self.answer.verified)
        shown = self.answer.verify(tokens, min(progress.drafted, len(tokens)))
        self._line.sent, self._rounds = progress.length, self._rounds + 1
        self._asked_again = False
        self._count_first()
        self._end_at(self.answer.tokens[: self.answer.verified])
        return shown

    async def _tree(self, limits: Limits, costs: CostMeter, adopts: bool = False) -> DraftTree:
        """What goes up next: tokens written alone if there are any, else what the drafter thinks.

        `adopts`: what it thought of before.
        """
        self._levels, self._cost = 0, None
        if suffix := self.answer.suffix:
            return DraftTree.chain(suffix[: min(limits.max_depth, limits.max_nodes)])
        if not self._draft:
            return DraftTree.empty()
        await self._drafting.follow(self._prompt + self.answer.tokens)
        if adopts:
            tree = await self._drafting.adopt()
        else:
            pace = self._pace(limits, self._settings.max_tokens - len(self.answer.tokens), costs.cost)
            self._cost = pace.cost
            tree = await self._drafting.draft(pace, self._draft_sampling())
        if (taken := self._drafting.taken) is not None:
            self._levels = taken[0]
            if not adopts:
                costs.drafted(*taken)
        return tree

    def _pace(self, limits: Limits, left: int, cost: Cost | None) -> Pace:
        """Of a draft where the answer may have so many more tokens."""
        deepest = min(limits.max_depth, left - 1)  # The bonus token comes on top.
        depth, nodes = min(self._settings.depth, deepest), min(self._settings.nodes, limits.max_nodes)
        measured, sampled = self._settings.pace == "measured", self._draft_sampling() is not None
        if measured and sampled:  # A sampled tree's size must not depend on what is drawn in it.
            depth, nodes = min(depth, SAMPLED_DEPTH), min(nodes, SAMPLED_NODES)
        return Pace(depth, self._settings.breadth, nodes, deepest, cost if measured and not sampled else None)

    def _streamed(self, progress: Progress, seconds: float) -> Paced:
        return Paced(
            levels=0,
            nodes=0,
            expected=None,
            gained=len(progress.tokens) // 4,
            cost=None,
            draft_seconds=0.0,
            server_seconds=progress.server_seconds,
            rtt_seconds=max(0.0, seconds - progress.server_seconds),
            mode="hosted",
        )

    def _paced(self, tree: DraftTree, reply: RoundReply, draft_seconds: float, ahead: bool) -> Paced:
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
            ahead=ahead,
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
        self._rounds += 1
        self._traffic.append(reply)
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
        why = "offline by choice" if connection is None else connection.why
        if self._strayed is not None:
            why = f"{self._strayed.client.host} gives another answer now; the drafter ends the one that was cut off"
        yield ModeChanged("offline", why)
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
                if self._peer is not None:
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

    async def _unless_stopped(self, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T | None:
        """The work's result; None where `stop` came first, and then the work is cancelled."""
        working, stopping = asyncio.ensure_future(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)


async def _next(stream: HostedStream) -> Memory | Progress | None:
    """None at its end."""
    return await anext(stream, None)
