"""Which mode is the faster one on this line: by what rounds have taken in each, and by the round trip.

`edge`: drafted here, verified there; each round waits for the line. `hosted`: the verifier drafts by itself, and only
the first round of an answer waits for the line. How many tokens a round brings depends on what is said far more than
on who drafts, so modes are compared by what a round takes; what one brings counts for a mode of its own only slowly. A
mode that has not been tried is judged by the other: an edge round is a hosted one and a round trip, or the other way
round. Pure arithmetic over numbers that the caller measured: no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verifying = Literal["edge", "hosted"]
MODES: tuple[Verifying, ...] = ("edge", "hosted")

KEPT = 0.95
"""Share of its weight that a round keeps at the next one of its mode: some 20 rounds count."""
LONG = 0.99
"""Likewise where tokens are counted: some 100 do."""
PRIOR = 50.0
"""Rounds for which a mode is taken to bring as many tokens a round as all."""
TRIED = 8.0
"""Rounds after which a mode is known. Until then those it lacks are taken to be as the other mode's would be there."""
PAUSE = 3.0
"""A round that took this many times the mean counts as no more: the machine or the line was elsewhere."""
BETTER = 1.05
"""So many times as fast is worth another mode at the next answer."""
FIRST_BETTER = 1.1
SWITCH = {"edge": 1.15, "hosted": 1.3}
"""And in the middle of one, out of this mode: what a stream has on its way is lost where it is left."""
UNTRIED = 2.0
"""Likewise for a mode of which nothing is known."""
WORTH_TRYING = 0.85
"""A mode that may be so many times as fast as the other is tried,"""
WORTH_ANOTHER = 0.93
"""and tried again now and then where it was found to be."""
RETRIED = 8
"""Answers between two trials of the slower one."""
FIRST_TAU = 4.0
FIRST_SECONDS = 0.05
"""Of a round, drafting included, before any was measured; of which a forward of the target takes half."""


@dataclass
class _Rounds:
    """Rounds of one mode, the newest ones counting most."""

    count: float = 0.0
    seconds: float = 0.0
    server: float = 0.0
    long_count: float = 0.0
    long_tokens: float = 0.0
    long_openings: float = 0.0
    """Those that opened an answer."""

    def add(self, tokens: int, seconds: float, server: float, opening: bool) -> None:
        if self.count:
            seconds = min(seconds, PAUSE * self.seconds / self.count)
        self.count = KEPT * self.count + 1
        self.seconds = KEPT * self.seconds + seconds
        self.server = KEPT * self.server + server
        self.long_count = LONG * self.long_count + 1
        self.long_tokens = LONG * self.long_tokens + tokens
        self.long_openings = LONG * self.long_openings + opening


class ModeMeter:
    """Learns how fast each mode is, and chooses one; with hysteresis, so that noise does not switch it back and forth.

    `allowed`: what may be chosen.
    """

    def __init__(self, allowed: tuple[Verifying, ...] = MODES) -> None:
        self.allowed = allowed
        self.mode: Verifying = allowed[0]
        """What was chosen last."""
        self.drafts = False
        """The verifier has a drafter of its own."""
        self._rounds: dict[Verifying, _Rounds] = {mode: _Rounds() for mode in MODES}
        self._answers = dict.fromkeys(MODES, 0)
        """Answers since the mode was chosen last."""
        self._begun = False

    def edge(self, tokens: int, seconds: float, server_seconds: float, *, opening: bool = False) -> None:
        """A round that was drafted here took so long without the round trip, and at the verifier.

        `opening`: it was the first of its answer.
        """
        self._rounds["edge"].add(tokens, max(seconds, server_seconds), server_seconds, opening)

    def hosted(self, tokens: int, seconds: float, *, opening: bool = False) -> None:
        """A round of a stream took so long without the round trip."""
        self._rounds["hosted"].add(tokens, seconds, seconds, opening)

    def known(self, mode: Verifying) -> bool:
        """Whether the mode has been tried enough."""
        return self._rounds[mode].count >= TRIED

    def rates(self, rtt_seconds: float) -> dict[Verifying, float]:
        """Tokens a second that each mode gives, or may give where it has not been tried."""
        both = self._rounds.values()
        count = sum(each.long_count for each in both)
        tau = sum(each.long_tokens for each in both) / count if count else FIRST_TAU
        opening = sum(each.long_openings for each in both) / count if count else 0.0
        rates: dict[Verifying, float] = {}
        for mode in MODES:
            other: Verifying = "hosted" if mode == "edge" else "edge"
            gained, trips = tau, 1.0 if mode == "edge" else opening
            expected, server = self._expected(other)
            if mode == "hosted" and not self.drafts:
                expected, gained, trips = server, 1.0, opening / tau
            own = self._rounds[mode]
            if own.count:
                gained = (PRIOR * gained + own.long_tokens) / (PRIOR + own.long_count)
            lacking = max(0.0, TRIED - own.count) if self._rounds[other].count or not own.count else 0.0
            seconds = (lacking * expected + own.seconds) / (lacking + own.count)
            rates[mode] = gained / max(seconds + trips * rtt_seconds, 1e-6)
        return rates

    def _expected(self, mode: Verifying) -> tuple[float, float]:
        """Seconds of a round beside the line, and at the verifier, as far as this mode tells."""
        rounds = self._rounds[mode]
        if not rounds.count:
            return FIRST_SECONDS, FIRST_SECONDS / 2
        return rounds.seconds / rounds.count, rounds.server / rounds.count

    def choose(self, rtt_seconds: float) -> Verifying:
        """The mode of the next answer."""
        rates = self.rates(rtt_seconds)
        best, other = self._order(rates, BETTER if self._begun else FIRST_BETTER)
        if other is not None:
            self._answers[other] += 1
            worth = WORTH_ANOTHER if self.known(other) else WORTH_TRYING
            due = not self.known(other) or self._answers[other] > RETRIED
            if self._begun and due and rates[other] >= worth * rates[best]:
                best = other
        self._answers[best] = 0
        self.mode, self._begun = best, True
        return best

    def review(self, rtt_seconds: float) -> Verifying:
        """The mode that the answer on its way had better go on in."""
        both = all(self.known(mode) for mode in MODES)
        self.mode, _ = self._order(self.rates(rtt_seconds), SWITCH[self.mode] if both else UNTRIED)
        return self.mode

    def why(self, rtt_seconds: float) -> str:
        """What the choice is made by, in a few words."""
        if len(self.allowed) == 1:
            return ""
        rates = self.rates(rtt_seconds)
        said = {mode: f"{'' if self.known(mode) else 'about '}{rates[mode]:.0f} tokens/s" for mode in MODES}
        line = f"round trip {1000 * rtt_seconds:.0f} ms"
        if self.mode == "hosted":
            return f"drafted there: {said['hosted']}, {said['edge']} from here, {line}"
        return f"drafted here: {said['edge']}, {said['hosted']} there, {line}"

    def _order(self, rates: dict[Verifying, float], factor: float) -> tuple[Verifying, Verifying | None]:
        """The better mode, which the present one is unless the other is so many times as fast; and the other one."""
        if len(self.allowed) == 1:
            return self.allowed[0], None
        now: Verifying = self.mode
        other: Verifying = "hosted" if now == "edge" else "edge"
        return (other, now) if rates[other] > factor * rates[now] else (now, other)
