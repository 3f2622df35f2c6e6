"""Edge mode: rounds that are drafted on the device and verified by the verifier.

One round is: draft, send, take the verdict, emit. While it is in flight, the drafter drafts ahead for the possible
verdicts. From each round the connection learns what rounds cost, and the next tree is sized accordingly.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple

from app.events import RoundEnded, RoundReport
from app.remotes.connection import Connection
from app.remotes.peer import Verifier
from app.reply.answer import Shown
from app.reply.generation import MEMORY_LIMIT_SECONDS, Generation, Step, sure_path
from app.reply.round_meter import RoundMeter
from drafter.cost import Cost
from drafter.search import Pace
from models.tree import DraftTree
from remote import Incompatible, RemoteSession, RoundReply

SAMPLED_DEPTH, SAMPLED_NODES = 8, 60
"""Default size of a sampled tree: the best on lines of some 100 ms."""
MEMORY_SECONDS = 0.25
"""Longest wait for the last round's memory before the next draft."""
UNHEARD = 16
"""Tokens whose memory is requested at once while no draft needs it."""


class Draft(NamedTuple):
    tree: DraftTree
    levels: int = 0
    """Drafter calls that it took, if known."""
    cost: Cost | None = None
    """Measured costs from which its size was chosen, or None if only the settings decided."""
    made: bool = False
    """Whether the drafter was called for it, or wrote it offline."""


class Edge:
    def __init__(self, generation: Generation, connection: Connection, verifier: Verifier) -> None:
        self._generation, self.connection, self.verifier = generation, connection, verifier
        self._cost_ahead: Cost | None = None
        """Costs used for trees that are drafted ahead of the verdict in flight."""

    async def steps(self) -> AsyncGenerator[Step, None]:
        """Rounds until the answer is complete or another mode is better. Raises `RemoteError`."""
        generation, connection = self._generation, self.connection
        chosen = generation.chooses_mode or connection.speed.modes.rivals
        yield connection.mode("edge", connection.why_mode if chosen else None)
        session = generation.session.with_verifier(self.verifier)
        meter = RoundMeter(connection, generation.clock, opening=not generation.answer.tokens)
        while generation.reason is None:
            adopts = await self._choose_draft()
            meter.begin(adopts=adopts)
            if meter.after_usual and generation.mode(connection) != "edge":
                return
            # 1. Draft what the target may say next, and show what it will most likely keep.
            draft = await self.draft(adopts=adopts)
            meter.drafted(made=draft.made)
            for step in self.guess(draft.tree):
                yield step
            # 2. Send the draft. While it is verified, draft ahead.
            reply = await self._send(session, draft, meter, adopts=adopts)
            if reply is None:
                generation.end("stopped")
                return
            # 3. Take the verdict: the target keeps the beginning of the draft and adds its own token.
            was_offline = bool(generation.answer.suffix)
            shown = await self._take(draft.tree, reply)
            # 4. Emit what has changed.
            for step in shown:
                yield step
            report = _report(draft, reply, meter.draft_seconds, adopts=adopts)
            meter.ended(report, drafted_here=not was_offline and generation.can_draft)
            yield RoundEnded(generation.stats, report)
            if was_offline and generation.mode(connection) != "edge":
                return  # Text written offline is judged.

    # ---- 1. draft ----------------------------------------------------------------------------------------------------

    async def _choose_draft(self) -> bool:
        """Whether to adopt the draft that was made ahead. Otherwise first waits for the last round's memory.

        The newest memory is worth more to a draft than the milliseconds it takes to arrive.
        """
        adopts = self._generation.ahead.choose(self.connection.speed.adoption)
        if not adopts and self._pays:
            await self._generation.drafting.arrivals.hear(MEMORY_SECONDS)
        return adopts

    async def draft(self, *, adopts: bool = False) -> Draft:
        """Tokens that were written offline, if any, or else a new draft.

        `adopts`: use the draft that was made ahead.
        """
        generation, drafting, costs = self._generation, self._generation.drafting, self.connection.speed.costs
        limits = self.verifier.card.limits
        if suffix := generation.answer.suffix:
            return Draft(DraftTree.chain(suffix[: min(limits.max_depth, limits.max_nodes)]), made=True)
        if not generation.given.draft or not (adopts or self._pays):
            return Draft(DraftTree.empty())
        await drafting.follow(generation.tokens)
        if drafting.is_behind:
            drafting.read_along()
            return Draft(DraftTree.empty())
        if adopts:
            cost, tree = self._cost_ahead, await drafting.adopt()
        else:
            pace = self.pace(generation.left, costs.cost)
            cost, tree = pace.cost, await drafting.draft(pace, generation.given.draft_sampling)
        if (taken := drafting.taken) is None:
            return Draft(tree, cost=cost, made=len(tree) > 0)
        if not adopts:
            costs.drafted(*taken)
        return Draft(tree, taken[0], cost, made=True)

    @property
    def _pays(self) -> bool:
        """Whether a new draft is worth its time. With a fixed pace, or if the text depends on drafts, always."""
        given = self._generation.given
        return given.settings.pace == "fixed" or given.draft_sampling is not None or self.connection.speed.payoff.pays

    def guess(self, tree: DraftTree) -> list[Shown]:
        """Show what the target will most likely keep of a draft. Tokens written offline are shown already."""
        generation = self._generation
        return generation.answer.guess([] if generation.answer.suffix else generation.cut(sure_path(tree)))

    def pace(self, left: int, cost: Cost | None) -> Pace:
        """The size of a tree, if the answer may get `left` more tokens."""
        given, limits = self._generation.given, self.verifier.card.limits
        deepest = min(limits.max_depth, max(0, left - 1))  # The bonus token is one more.
        depth, nodes = min(given.settings.depth, deepest), min(given.settings.nodes, limits.max_nodes)
        measured, sampled = given.settings.pace == "measured", given.draft_sampling is not None
        if measured and sampled:  # A sampled tree's size must not depend on what is drawn in it.
            depth, nodes = min(depth, SAMPLED_DEPTH), min(nodes, SAMPLED_NODES)
        return Pace(depth, given.settings.breadth, nodes, deepest, cost if measured and not sampled else None)

    # ---- 2. send -----------------------------------------------------------------------------------------------------

    async def _send(
        self, session: RemoteSession, draft: Draft, meter: RoundMeter, *, adopts: bool
    ) -> RoundReply | None:
        """Send a draft and return its verdict, or None if the person stopped the answer. Raises `RemoteError`."""
        generation, connection, tree = self._generation, self.connection, draft.tree
        committed = generation.committed
        unread = generation.session.unread(committed)
        deadline = generation.deadline(connection, committed)
        if not adopts:
            await generation.drafting.hear_out(MEMORY_LIMIT_SECONDS)
        meter.sent(unread)
        memory_from = generation.memory_from(self.verifier)
        if not draft.made and memory_from is not None and len(committed) - memory_from < UNHEARD:
            memory_from = None  # No draft needs it yet, and each request takes a while.
        sampling, likeliest = generation.given.sampling, generation.likeliest(self.verifier)
        asking = session.round(
            committed, tree, sampling, memory_from=memory_from, deadline=deadline, likeliest=likeliest
        )
        self._draft_ahead()
        reply = await generation.unless_stopped(asking)
        if reply is None:
            return None
        if not _gained(reply) and not self._is_full(reply):
            raise Incompatible(f"{self.verifier.client.host} ends the answer without a token; update the server")
        usual = meter.is_usual(reply)
        generation.ahead.returned(connection.speed.adoption, reply.verdict.server_seconds, usual=usual)
        meter.returned(reply, len(tree))
        return reply

    def _draft_ahead(self) -> None:
        generation, cost = self._generation, self.connection.speed.costs.cost
        left = generation.most - generation.answer.verified

        def pace(new: int) -> Pace:
            return self.pace(left - new, cost)

        self._cost_ahead = pace(0).cost
        level, shared = 0.0 if cost is None else cost.level, self.verifier.client.local
        generation.ahead.sent(self.connection.speed.adoption, pace, generation.stop_tokens, level, shared=shared)

    # ---- 3. take -----------------------------------------------------------------------------------------------------

    async def _take(self, tree: DraftTree, reply: RoundReply) -> list[Shown]:
        """Add a verdict to the answer, and have the drafter follow."""
        generation, drafting, verdict = self._generation, self._generation.drafting, reply.verdict
        before = len(generation.committed)
        shown = generation.take_verdict(tree, reply, full=self._is_full(reply))
        drafting.learn(tree, verdict.accepted, verdict.bonus)
        await drafting.follow(generation.tokens)
        new, over = len(generation.tokens) - before, generation.reason is not None
        generation.ahead.followed(self.connection.speed.adoption, new, ended=over)
        drafting.listen(reply.memory)
        return shown

    def _is_full(self, reply: RoundReply) -> bool:
        return reply.verdict.length >= self.verifier.card.limits.max_tokens


# ---- 4. emit ---------------------------------------------------------------------------------------------------------


def _report(draft: Draft, reply: RoundReply, draft_seconds: float, *, adopts: bool) -> RoundReport:
    return RoundReport(
        levels=draft.levels,
        nodes=len(draft.tree),
        expected=draft.tree.expected_tau,
        gained=_gained(reply),
        cost=draft.cost,
        draft_seconds=draft_seconds,
        server_seconds=reply.verdict.server_seconds,
        rtt_seconds=reply.rtt_seconds,
        ahead=adopts,
    )


def _gained(reply: RoundReply) -> int:
    """Tokens that a verdict brings, bonus included."""
    return len(reply.verdict.accepted) + (reply.verdict.bonus is not None)
