"""Edge mode: rounds that are drafted here and verified there, until the answer is complete or another way is better.

While a round is in flight the drafter drafts on for what it may bring. Every round teaches the connection what rounds
cost, and by that the next tree is as large as pays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from app.events import Paced
from app.remotes.connection import Connection
from app.remotes.peer import Verifier
from app.reply.answer import Shown
from app.reply.generation import MEMORY_LIMIT_SECONDS, Step, Writing, sure_path
from drafter.cost import Cost
from drafter.search import Pace
from drafter.tree import DraftTree
from remote import Incompatible, RoundReply

SAMPLED_DEPTH, SAMPLED_NODES = 8, 60
"""Of a sampled tree whose size nobody chose: what pays on lines of some 100 ms."""
LONGEST_READ = 256
"""Tokens of a prompt up to which the time of its round tells of others: longer ones are run in pieces."""
MEMORY_SECONDS = 0.25
"""Longest wait for the last round's memory before the next draft."""


class Edge:
    """Rounds of one answer with one verifier."""

    def __init__(self, writing: Writing, connection: Connection, verifier: Verifier) -> None:
        self._writing, self._connection, self._verifier = writing, connection, verifier
        self._levels = 0
        """Drafter calls for the round that goes on, where they are known."""
        self._cost: Cost | None = None
        """By which its tree was made."""
        self._cost_ahead: Cost | None = None
        """By which trees are made ahead of its verdict."""
        self._last: Paced | None = None
        """What became of the last round."""

    async def steps(self) -> AsyncGenerator[Step, None]:
        """Raises `RemoteError`."""
        writing, connection, drafting = self._writing, self._connection, self._writing.drafting
        session, clock = writing.line.with_verifier(self._verifier), writing.clock
        asked: float | None = None
        """When the last round went up, if it was one like the others: no prompt to run, nothing to send again."""
        since, opening = clock.now(), not writing.answer.tokens
        while writing.reason is None:
            adopts = writing.ahead.choose(connection.adoption)
            if not adopts:
                # The newest memory is worth more to a draft than the milliseconds it takes to arrive.
                await drafting.hear(MEMORY_SECONDS)
            begun = clock.now()
            if asked is not None:
                self._learn(begun, asked, adopts)
                if writing.mode(connection) != "edge":
                    return
            tree = await self.draft(adopts)
            drafted = clock.now()
            for step in writing.answer.guess(self.guesses(tree)):
                yield step
            committed = writing.committed
            unseen = max(0, len(committed) - writing.line.sent)
            warm = connection.server_seconds is not None  # A verifier's very first forward takes longer than others.
            deadline = writing.deadline(connection, committed)
            if not adopts:
                await drafting.hear_out(MEMORY_LIMIT_SECONDS)
            # What is heard out here belongs to the round before, so to none that counts where that one did not.
            asked = clock.now() if asked is None else drafted
            memory_from = writing.memory_from(self._verifier)
            asking = session.round(committed, tree, writing.sampling, memory_from=memory_from, deadline=deadline)
            self._look_ahead()
            reply = await writing.unless_stopped(asking)
            if reply is None:
                writing.reason = "stopped"
                return
            if not reply.verdict.accepted and reply.verdict.bonus is None and not self._full(reply):
                raise Incompatible(f"{self._verifier.client.host} ends the answer without a token; update the verifier")
            usual = not unseen and reply.exchanges == 1
            writing.ahead.returned(connection.adoption, reply.verdict.server_seconds, usual=usual)
            connection.served(reply)
            if reply.exchanges == 1 and warm and unseen <= LONGEST_READ:
                connection.costs.judged(max(0, unseen - 1) + len(tree), reply.verdict.server_seconds)
            if not usual:
                asked = None
            alone = bool(writing.answer.suffix)
            steps = self._take(tree, reply)
            await drafting.follow(writing.tokens)
            new = len(writing.tokens) - len(committed)
            writing.ahead.followed(connection.adoption, new, ended=writing.reason is not None)
            drafting.listen(reply.memory)
            for step in steps:
                yield step
            paced = self._paced(tree, reply, drafted - begun, adopts)
            self._last = paced
            now = clock.now()
            if reply.exchanges == 1 and warm and not alone:
                seconds = now - since - paced.rtt_seconds
                connection.modes.edge(paced.gained, seconds, paced.server_seconds, opening=opening)
            since, opening = now, False
            yield paced
            yield writing.stats(connection)
            if alone and writing.mode(connection) != "edge":
                return  # What was written alone is judged.

    async def draft(self, adopts: bool = False) -> DraftTree:
        """What goes up next: tokens written alone if there are any, else what the drafter thinks.

        `adopts`: what it thought of before.
        """
        writing, limits, costs = self._writing, self._verifier.card.limits, self._connection.costs
        self._levels, self._cost = 0, None
        if suffix := writing.answer.suffix:
            return DraftTree.chain(suffix[: min(limits.max_depth, limits.max_nodes)])
        if not writing.draft:
            return DraftTree.empty()
        await writing.drafting.follow(writing.tokens)
        if adopts:
            self._cost, tree = self._cost_ahead, await writing.drafting.adopt()
        else:
            pace = self._pace(writing.left, costs.cost)
            self._cost = pace.cost
            tree = await writing.drafting.draft(pace, writing.draft_sampling)
        if (taken := writing.drafting.taken) is not None:
            self._levels = taken[0]
            if not adopts:
                costs.drafted(*taken)
        return tree

    def guesses(self, tree: DraftTree) -> list[int]:
        """What is shown of a draft, as far as an answer may go. Tokens written alone are shown already."""
        return [] if self._writing.answer.suffix else self._writing.cut(sure_path(tree))

    def _pace(self, left: int, cost: Cost | None) -> Pace:
        """Of a draft where the answer may have so many more tokens."""
        settings, limits = self._writing.settings, self._verifier.card.limits
        deepest = min(limits.max_depth, left - 1)  # The bonus token comes on top.
        depth, nodes = min(settings.depth, deepest), min(settings.nodes, limits.max_nodes)
        measured, sampled = settings.pace == "measured", self._writing.draft_sampling is not None
        if measured and sampled:  # A sampled tree's size must not depend on what is drawn in it.
            depth, nodes = min(depth, SAMPLED_DEPTH), min(nodes, SAMPLED_NODES)
        return Pace(depth, settings.breadth, nodes, deepest, cost if measured and not sampled else None)

    def _look_ahead(self) -> None:
        """A round goes up: draft for what it may bring."""
        writing, cost = self._writing, self._connection.costs.cost
        left = writing.most - writing.answer.verified

        def pace(new: int) -> Pace:
            return self._pace(left - new, cost)

        self._cost_ahead = pace(0).cost
        level, shared = 0.0 if cost is None else cost.level, self._verifier.client.local
        writing.ahead.sent(self._connection.adoption, pace, writing.stop_tokens, level, shared=shared)

    def _learn(self, begun: float, asked: float, adopts: bool) -> None:
        """The next round begins: the last one is over, its memory included."""
        if self._last is None:
            return
        connection, paced = self._connection, self._last
        if isinstance(judged := self._writing.traffic[-1], RoundReply) and not adopts:
            connection.link.received(*judged.streamed)
        connection.costs.waited(begun - asked - paced.server_seconds)

    def _take(self, tree: DraftTree, reply: RoundReply) -> list[Shown]:
        """Put a verdict into the answer."""
        writing, verdict = self._writing, reply.verdict
        accepted = [int(tree.tokens[node]) for node in verdict.accepted]
        shown = writing.verify(accepted + ([] if verdict.bonus is None else [verdict.bonus]), len(accepted))
        writing.drafting.learn(tree, verdict.accepted, verdict.bonus)
        writing.line.sent = verdict.length
        writing.traffic.append(reply)
        writing.drafted_nodes += len(tree)
        if writing.reason is None and self._full(reply):
            writing.reason = "length"
        return shown

    def _full(self, reply: RoundReply) -> bool:
        """The session can take no more tokens."""
        return reply.verdict.length >= self._verifier.card.limits.max_tokens

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
