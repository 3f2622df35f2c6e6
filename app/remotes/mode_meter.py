"""Chooses the faster mode for this line, from the measured times of rounds and the round trip.

`hosted`: the server writes on its own, with its own drafts if they pay off, and only the first round of an answer waits
for the line. `edge`: this device drafts, and each round waits for the line.

The rule is that of `drafter/pacer.py`: use the faster mode, try the other one again now and then, and save up before a
trial. Its `Pacer` counts rounds of one answer. Here the modes are compared over answers and runs of the program, and
estimating edge mode costs nearly nothing: while an answer arrives in hosted mode, some drafts of this device are
compared with the text (`watched`), and edge mode is tried only if they suggest that it wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from drafter.pacer import PAUSE, Allowance

Verifying = Literal["edge", "hosted"]
MODES: tuple[Verifying, ...] = ("edge", "hosted")
Amount = Annotated[float, Meta(ge=0, le=1e9)]

KEPT = 0.95
"""Weight that a round keeps after each further round of its mode: about 20 rounds count."""
LONG = 0.99
"""Weight that a round keeps when tokens are counted: about 100 rounds count."""
PRIOR = 50.0
"""Rounds at both modes' average that are added to a mode's own tokens per round, if both draft."""
DRAFTED = 1.2
"""Tokens per round from which on the server's rounds are assumed to have drafts."""
TRIED = 8.0
"""Rounds after which a mode counts as known."""
BETTER = 1.05
"""The next answer switches the mode if the other one is this many times as fast."""
SWITCH: dict[Verifying, float] = {"edge": 1.15, "hosted": 1.3}
"""A running answer leaves its mode if the other one is this many times as fast; a stream's tokens in transit are
lost."""
WORTH_TRYING = 0.85
"""Edge mode is worth a trial if it may be this many times as fast as hosted mode."""
RETRIED = 8
"""Answers after which the slower mode is measured again."""
WATCHED = 4
"""Number of drafts that are compared with a stream."""
MOST_TAU = 8.0
"""Most tokens per round that are expected of a draft before any was compared."""
NODE = 0.05
"""Share of a forward by which each node of a draft lengthens it, before this was measured."""
MOST_LOSSES = 10
STAKE = 2.0
"""Tokens in the allowance that a trial requires."""


class Rounds(Struct):
    """Sums over the rounds of one mode; newer rounds weigh more."""

    count: Amount = 0.0
    seconds: Amount = 0.0
    long_count: Amount = 0.0
    long_tokens: Amount = 0.0
    long_openings: Amount = 0.0
    """Rounds that were the first of their answer."""

    def add(self, tokens: int, seconds: float, opening: bool) -> None:
        if self.count:
            seconds = min(seconds, PAUSE * self.seconds / self.count)
        self.count = KEPT * self.count + 1
        self.seconds = KEPT * self.seconds + seconds
        self.long_count = LONG * self.long_count + 1
        self.long_tokens = LONG * self.long_tokens + tokens
        self.long_openings = LONG * self.long_openings + opening

    @property
    def known(self) -> bool:
        return self.count >= TRIED

    @property
    def tau(self) -> float:
        """Tokens per round. Requires at least one round."""
        return self.long_tokens / max(self.long_count, 1e-9)


class Learnt(Struct):
    """Everything learnt about both modes with one server."""

    mode: Verifying = "hosted"
    """The mode that was chosen last."""
    edge: Rounds = field(default_factory=Rounds)
    hosted: Rounds = field(default_factory=Rounds)
    drafts: Amount = 0.0
    """Drafts of this device that were compared with a stream."""
    draft_tokens: Amount = 0.0
    """Tokens that their rounds would have gained, the target's own included."""
    draft_seconds: Amount = 0.0
    draft_nodes: Amount = 0.0
    answers: Annotated[int, Meta(ge=0)] = 0
    """Answers since the slower mode was measured."""
    lost: bool = False
    """Whether the last trial of edge mode was given up."""
    allowance: Annotated[float, Meta(ge=-1e9, le=1e9)] = 0.0
    uses: Annotated[int, Meta(ge=0)] = 0
    """Answers with this drafter since it was last begun to be measured; see `DrafterMeter`."""
    rested: Annotated[int, Meta(ge=0)] = 0
    """Answers with the other drafter since then."""
    losses: Annotated[int, Meta(ge=0, le=MOST_LOSSES)] = 0
    """How often in a row the other drafter was taken instead, up to `MOST_LOSSES`."""


class ModeMeter:
    """Learns how fast each mode is, and chooses one. Hysteresis prevents switching back and forth because of noise.

    `allowed`: the modes that may be chosen. `learnt`: what was learnt before.
    """

    def __init__(self, allowed: tuple[Verifying, ...] = MODES, learnt: Learnt | None = None) -> None:
        self.allowed = allowed
        self.drafts = False
        """Whether the verifier has its own drafter."""
        self.drafter = "this device"
        """Who drafts on this device, for people."""
        self.rivals: Sequence[ModeMeter] = ()
        """Those of the other drafters of this device."""
        self._rtt = 0.0
        self.recall(learnt or Learnt())

    def recall(self, learnt: Learnt) -> None:
        self._learnt = learnt
        self._rounds: dict[Verifying, Rounds] = {"edge": learnt.edge, "hosted": learnt.hosted}
        self._allowance = Allowance(learnt.allowance)
        if learnt.mode not in self.allowed:
            learnt.mode = self.allowed[0]

    @property
    def learnt(self) -> Learnt:
        self._learnt.allowance = self._allowance.left
        return self._learnt

    @property
    def mode(self) -> Verifying:
        return self._learnt.mode

    def edge(self, tokens: int, seconds: float, server_seconds: float, *, opening: bool = False) -> None:
        """Record the times of an edge round: without the round trip, and at the verifier.

        `opening`: the round was the first of its answer.
        """
        seconds = max(seconds, server_seconds)
        if not opening:
            self._passed("edge", tokens, seconds + self._rtt)
        self._rounds["edge"].add(tokens, seconds, opening)

    def hosted(self, tokens: int, seconds: float, *, opening: bool = False) -> None:
        """Record the time of a hosted round, without the round trip.

        `opening`: whether it was the first of its answer.
        """
        if not opening:
            self._passed("hosted", tokens, seconds)
        self._rounds["hosted"].add(tokens, seconds, opening)

    def _passed(self, mode: Verifying, tokens: int, seconds: float) -> None:
        """Charge a round to the allowance, as part of a trial if the other mode is known and this one is not."""
        other = self._rounds[_other(mode)]
        if len(self.allowed) == 1 or self._rounds[mode].known or not other.known:
            self._allowance.earned(tokens)
        else:
            self._allowance.spent(seconds * self.rates(self._rtt)[_other(mode)] - tokens)

    # ---- drafts during a stream --------------------------------------------------------------------------------------

    def may_watch(self, rtt_seconds: float, *, shared: bool) -> bool:
        """Whether drafts of this device may be compared with a stream that begins.

        `shared`: they would take time of cores that the verifier uses, which must be saved up first. If the verifier
        can draft, it does the same on the same cores, and edge mode would only add the line.
        """
        learnt, hosted = self._learnt, self._rounds["hosted"]
        if len(self.allowed) == 1 or learnt.lost or learnt.edge.known or learnt.drafts >= WATCHED:
            return False
        if shared and (self.drafts or self._allowance.left < STAKE):
            return False
        if not hosted.known:
            return True
        best = MOST_TAU / max(rtt_seconds + hosted.seconds / hosted.count, 1e-6)
        return best >= WORTH_TRYING * self.rates(rtt_seconds)["hosted"]

    def watches(self, rtt_seconds: float, *, shared: bool) -> bool:
        """Whether to make such a draft now."""
        return self._rounds["hosted"].known and self.may_watch(rtt_seconds, shared=shared)

    def watched(self, tokens: int, seconds: float, nodes: int) -> None:
        """Record a compared draft: the tokens of its round, its seconds, and its nodes."""
        self._learnt.drafts += 1
        self._learnt.draft_tokens += tokens
        self._learnt.draft_seconds += seconds
        self._learnt.draft_nodes += nodes

    def disturbed(self, seconds: float) -> None:
        """Count this many seconds of the verifier's cores as lost."""
        self._allowance.spent(seconds * self.rates(self._rtt)["hosted"])

    # ---- the choice --------------------------------------------------------------------------------------------------

    def rates(self, rtt_seconds: float) -> dict[Verifying, float]:
        """Tokens per second of each mode; 0 for a mode without measurements."""
        edge, hosted = self._rounds["edge"], self._rounds["hosted"]
        taus: dict[Verifying, float] = {mode: rounds.tau for mode, rounds in self._rounds.items()}
        if edge.count and hosted.count and hosted.tau >= DRAFTED:
            # The text matters more than who drafts.
            tokens, count = edge.long_tokens + hosted.long_tokens, edge.long_count + hosted.long_count
            for mode, rounds in self._rounds.items():
                taus[mode] = (PRIOR * tokens / count + rounds.long_tokens) / (PRIOR + rounds.long_count)
        rates: dict[Verifying, float] = {"edge": 0.0, "hosted": 0.0}
        if hosted.count:
            waited = rtt_seconds * hosted.long_openings / hosted.long_count
            rates["hosted"] = taus["hosted"] / max(hosted.seconds / hosted.count + waited, 1e-6)
        tokens, seconds = self._expected()
        if edge.known or (edge.count and (self._learnt.lost or not tokens)):
            rates["edge"] = taus["edge"] / max(edge.seconds / edge.count + rtt_seconds, 1e-6)
        elif tokens:
            lacking = TRIED - edge.count
            gained = (lacking * tokens + edge.count * taus["edge"]) / TRIED
            rates["edge"] = gained / max((lacking * seconds + edge.seconds) / TRIED + rtt_seconds, 1e-6)
        return rates

    def _expected(self) -> tuple[float, float]:
        """Tokens and seconds of an edge round, without the round trip, from the compared drafts; 0 if unknown."""
        learnt, hosted = self._learnt, self._rounds["hosted"]
        if learnt.drafts < WATCHED or not hosted.count:
            return 0.0, 0.0
        draft, forward = learnt.draft_seconds / learnt.drafts, hosted.seconds / hosted.count
        if hosted.tau >= DRAFTED:  # The draft takes about half of a round with a draft.
            seconds = max(forward, draft + forward / 2)
        else:
            seconds = draft + forward * (1 + NODE * learnt.draft_nodes / learnt.drafts)
        return learnt.draft_tokens / learnt.drafts, seconds

    def choose(self, rtt_seconds: float) -> Verifying:
        """The mode of the next answer."""
        self._rtt, learnt = rtt_seconds, self._learnt
        rates = self.rates(rtt_seconds)
        learnt.mode = self._better(rates, BETTER)
        learnt.answers += 1
        slower = _other(self.mode)
        if len(self.allowed) > 1 and learnt.answers > RETRIED and self._allowance.left >= STAKE:
            learnt.answers = 0
            self._look_again(slower)
        elif len(self.allowed) > 1 and self._tries_edge(rates):
            learnt.mode = "edge"
        return self.mode

    def _look_again(self, slower: Verifying) -> None:
        """Forget the slower mode, so that it is measured once more."""
        learnt = self._learnt
        if slower == "edge":  # By drafts, which cost little.
            learnt.edge = self._rounds["edge"] = Rounds()
            learnt.drafts = learnt.draft_tokens = learnt.draft_seconds = learnt.draft_nodes = 0.0
            learnt.lost = False
        else:
            learnt.hosted = self._rounds["hosted"] = Rounds()
            learnt.mode = "hosted"

    def _tries_edge(self, rates: dict[Verifying, float]) -> bool:
        """Whether an answer starts in edge mode because that may be about as fast."""
        learnt = self._learnt
        fresh = learnt.drafts >= WATCHED and not (learnt.edge.known or learnt.lost)
        right = learnt.draft_tokens >= DRAFTED * learnt.drafts
        return fresh and right and self._allowance.left >= STAKE and rates["edge"] >= WORTH_TRYING * rates["hosted"]

    def review(self, rtt_seconds: float) -> Verifying:
        """The mode in which the running answer should continue."""
        self._rtt, learnt = rtt_seconds, self._learnt
        other = _other(self.mode)
        if len(self.allowed) == 1:
            return self.mode
        if self._rounds[other].known and not self._rounds[self.mode].known:  # A trial.
            if self._allowance.left <= 0:
                learnt.lost = learnt.lost or self.mode == "edge"
                learnt.mode = other
            return self.mode
        learnt.mode = self._better(self.rates(rtt_seconds), SWITCH[self.mode])
        return self.mode

    def why(self, rtt_seconds: float) -> str:
        """The measured figures behind the choice, in a few words; empty if there was none."""
        if len(self.allowed) == 1 and not self.rivals:
            return ""
        rates, line = self.rates(rtt_seconds), f"round trip {1000 * rtt_seconds:.0f} ms"
        said = {mode: f"{rates[mode]:.0f}" for mode in MODES if self._rounds[mode].known}
        who = {"hosted": "the server drafts" if self.drafts else "the server writes", "edge": f"{self.drafter} drafts"}
        rate = f": {said.pop(self.mode)} tokens/s" if self.mode in said else ""
        names = {"hosted": "the server", "edge": self.drafter}
        others = [f"{names[mode]}: {figure}" for mode, figure in said.items()]
        for rival in self.rivals:
            if rival.learnt.edge.known:
                others.append(f"{rival.drafter}: {rival.rates(rtt_seconds)['edge']:.0f}")
        beside = f" ({', '.join(others)})" if rate and others else ""
        return f"{who[self.mode]}{rate}{beside}, {line}"

    def _better(self, rates: dict[Verifying, float], factor: float) -> Verifying:
        """The better mode: the current one unless the other is `factor` times as fast.

        Edge mode is tried only if the allowance suffices.
        """
        now, other = self.mode, _other(self.mode)
        if len(self.allowed) == 1 or not self._rounds[now].count or rates[other] <= factor * rates[now]:
            return now
        if not self._rounds[other].known and (self._allowance.left < STAKE or self._learnt.lost):
            return now
        return other


def _other(mode: Verifying) -> Verifying:
    return "hosted" if mode == "edge" else "edge"
