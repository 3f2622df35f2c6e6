"""Measures how fast one server and its line are: round trips, costs, and the gains of modes and drafts.

What is learnt about the modes is stored, so that the next run begins in the mode that won, with the drafter that won. A
server is identified by its address, its target and this device's drafter: if one of them changes, the modes are
measured again.
"""

from __future__ import annotations

import asyncio
import hashlib
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.remotes.drafter_meter import DrafterMeter
from app.remotes.mode_meter import MODES, Learnt, ModeMeter, Verifying
from app.remotes.notes import Notes, newest
from drafter.adoption import Adoption
from drafter.cost import Cost, CostMeter
from drafter.payoff import Payoff
from models.config import GRAPH, GRAPH_WEIGHTS, DrafterConfig
from remote import ChatStream, HostedStream, Link, RoundReply, TransportOptions
from remote.protocol import Card

FILE = "modes.json"
MOST = 100
"""Most servers that are kept."""
FIRST_COST = Cost(round=0.1, level=0.003, node=0.0003)
"""Assumed cost of a round on an unknown line, in seconds, before one was measured."""
FIRST_ROUND_SECONDS = 0.03
"""Assumed cost of a round in addition to the round trip, once that is known."""


@dataclass
class DrafterSpeed:
    """Measurements from the answers with one drafter."""

    costs: CostMeter
    modes: ModeMeter
    payoff: Payoff = field(default_factory=Payoff)
    adoption: Adoption = field(default_factory=Adoption)


class Speed:
    """Measurements from the answers of one server. `modes`: those that may be chosen. `record`: file for the results.

    Without a record, nothing is kept.
    """

    def __init__(
        self, options: TransportOptions, modes: tuple[Verifying, ...] = MODES, record: Path | None = None
    ) -> None:
        self.link = Link(read_seconds=options.read_seconds, connect_seconds=options.connect_seconds)
        self._modes = modes
        self.begin_anew()
        self.server_seconds: float | None = None
        """Smoothed time of a round at the verifier, or None before the first round."""
        self._record = Notes(record, dict[str, Learnt])
        self._keeping: asyncio.Task[None] | None = None

    def begin_anew(self) -> None:
        """Measure no drafter: there was no verifier yet, or none drafts for it."""
        self._compare({"": DrafterSpeed(CostMeter(FIRST_COST), ModeMeter(self._modes))})

    def _compare(self, drafters: dict[str, DrafterSpeed]) -> None:
        self._of = drafters
        """Measurements of each drafter, by the key for what its `modes` has learnt."""
        self._measure(next(iter(drafters.values())))
        self.drafters = DrafterMeter([of_one.modes for of_one in drafters.values()])
        """Chooses between them."""

    def use(self, drafter: int) -> None:
        """Start measuring this drafter, by its place among the keys of `recall`."""
        of_one = list(self._of.values())[drafter]
        if of_one.modes is not self.modes:
            self._measure(of_one)

    def _measure(self, of_one: DrafterSpeed) -> None:
        self.costs = of_one.costs
        self.payoff = of_one.payoff
        self.adoption = of_one.adoption
        self.modes = of_one.modes

    def greeted(self, rtt_seconds: float | None) -> None:
        """Record the time of the first small exchange, if it was measured."""
        if rtt_seconds is not None:
            self.link.greeted(rtt_seconds)
            for of_one in self._of.values():
                of_one.costs.first = replace(FIRST_COST, round=rtt_seconds + FIRST_ROUND_SECONDS)

    async def recall(self, *keys: str) -> None:
        """Continue from what was learnt about the modes under these keys of `key_of`, one for each drafter."""
        if keys != tuple(self._of):
            known, before = await asyncio.to_thread(self._record.read), dict(self._of)
            if (begun := before.pop("", None)) is not None and keys[0] not in before:
                begun.modes.recall(known.get(keys[0]) or Learnt())
                before[keys[0]] = begun  # What was measured before counts for the first drafter.
            first = self.costs.first
            drafters = {
                key: before.get(key) or DrafterSpeed(CostMeter(first), ModeMeter(self._modes, known.get(key)))
                for key in keys
            }
            self._compare(drafters)

    def served(self, reply: RoundReply) -> None:
        self._served(reply.rtt_seconds, reply.verdict.server_seconds, reply)

    def streams(self, stream: HostedStream, server_seconds: float) -> None:
        """Record the beginning of a stream. `server_seconds`: the verifier's time for its first tokens."""
        assert stream.rtt_seconds is not None
        self._served(stream.rtt_seconds, server_seconds, stream)

    def speaks(self, stream: ChatStream) -> None:
        """Record the first byte of an OpenAI-compatible server, which took its own time plus a round trip."""
        rtt = min(stream.first_byte_seconds, self.link.rtt_seconds or stream.first_byte_seconds)
        self._served(rtt, stream.first_byte_seconds - rtt, stream)

    def _served(self, rtt_seconds: float, server: float, reply: RoundReply | HostedStream | ChatStream) -> None:
        self.link.observe(rtt_seconds + server, server, reply.traffic.up, reply.traffic.down)
        self.waited(server)

    def waited(self, server: float) -> None:
        """Record one measured time of a round at the verifier."""
        before = self.server_seconds
        self.server_seconds = server if before is None else before + (server - before) / 4

    def answered(self) -> None:
        """Save, in the background, what an answer has taught about the modes."""
        if "" not in self._of and (self._keeping is None or self._keeping.done()):
            learnt = {key: deepcopy(of_one.modes.learnt) for key, of_one in self._of.items()}
            keep = asyncio.to_thread(self._record.change, lambda known: newest(known, learnt, MOST))
            self._keeping = asyncio.create_task(keep)

    async def close(self) -> None:
        """Wait until everything learnt is saved."""
        if self._keeping is not None:
            await self._keeping


def key_of(address: str | None, card: Card, drafter: DrafterConfig) -> str:
    """The key of a server with this target, and a drafter. Without `address`: this program's own server."""
    memory = "" if card.memory is None else card.memory.digest.hex()
    graph = [drafter.files.get(GRAPH, drafter.memory), drafter.files.get(GRAPH_WEIGHTS, "")]
    parts = [(address or "").strip().rstrip("/"), card.target, memory, *graph]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
