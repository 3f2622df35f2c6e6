"""Chooses the faster mode for this line, from the measured times of rounds and the round trip.

`edge`: drafted here, verified there; each round waits for the line. `hosted`: the verifier drafts by itself, and only
the first round of an answer waits for the line. The tokens of a round depend on the text far more than on who drafts.
So modes are compared by the time of a round, and the tokens of a mode's own rounds count only slowly. An untried mode
is judged by the other: an edge round is a hosted round plus a round trip. This is arithmetic on the caller's numbers;
it reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verifying = Literal["edge", "hosted"]
MODES: tuple[Verifying, ...] = ("edge", "hosted")

KEPT = 0.95
"""Weight that a round keeps after each further round of its mode: about 20 rounds count."""
LONG = 0.99
"""Weight that a round keeps where tokens are counted: about 100 rounds count."""
PRIOR = 50.0
"""Rounds of both modes' average that are added to a mode's own count of tokens a round."""
TRIED = 8.0
"""Rounds after which a mode is known. Until then the missing ones are estimated from the other mode."""
PAUSE = 3.0
"""Longest time of a round that counts, in means: a longer one says that the machine or the line was busy."""
BETTER = 1.05
"""The next answer switches the mode if the other is so many times as fast."""
FIRST_BETTER = 1.1
"""The first answer begins in the other mode if that is so many times as fast."""
SWITCH = {"edge": 1.15, "hosted": 1.3}
"""A running answer leaves this mode if the other is so many times as fast; what a stream has on its way is lost."""
UNTRIED = 2.0
"""While a mode is unknown, a running answer leaves the other only if it may be so many times as fast."""
WORTH_TRYING = 0.85
"""An unknown mode is tried if it may be so many times as fast as the other."""
WORTH_ANOTHER = 0.93
"""A known, slower mode is tried again now and then if it is so many times as fast as the other."""
RETRIED = 8
"""Answers between two trials of the slower mode."""
FIRST_TAU = 4.0
"""Assumed tokens of a round before any was measured."""
FIRST_SECONDS = 0.05
"""Assumed time of a round before any was measured, drafting included; the target takes half of it."""


@dataclass
class _Rounds:
    """Sums over the rounds of one mode; newer rounds weigh more."""

    count: float = 0.0
    seconds: float = 0.0
    server: float = 0.0
    long_count: float = 0.0
    long_tokens: float = 0.0
    long_openings: float = 0.0
    """Rounds that were the first of their answer."""

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
    """Learns how fast each mode is, and chooses one. Hysteresis keeps noise from switching it back and forth.

    `allowed`: the modes that may be chosen.
    """

    def __init__(self, allowed: tuple[Verifying, ...] = MODES) -> None:
        self.allowed = allowed
        self.mode: Verifying = allowed[0]
        """The mode that was chosen last."""
        self.drafts = False
        """Whether the verifier has a drafter of its own."""
        self._rounds: dict[Verifying, _Rounds] = {mode: _Rounds() for mode in MODES}
        self._answers = dict.fromkeys(MODES, 0)
        """Answers since the mode was chosen last."""
        self._begun = False

    def edge(self, tokens: int, seconds: float, server_seconds: float, *, opening: bool = False) -> None:
        """Take the times of an edge round: without the round trip, and at the verifier.

        `opening`: the round was the first of its answer.
        """
        self._rounds["edge"].add(tokens, max(seconds, server_seconds), server_seconds, opening)

    def hosted(self, tokens: int, seconds: float, *, opening: bool = False) -> None:
        """Take the time of a hosted round, without the round trip. `opening`: the round was the first of its answer."""
        self._rounds["hosted"].add(tokens, seconds, seconds, opening)

    def known(self, mode: Verifying) -> bool:
        """Whether the mode has been tried enough."""
        return self._rounds[mode].count >= TRIED

    def rates(self, rtt_seconds: float) -> dict[Verifying, float]:
        """Tokens per second of each mode; an estimate for a mode that was not tried."""
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
        """Mean seconds of this mode's rounds: without the line, and at the verifier."""
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
        """The mode in which the running answer should continue."""
        both = all(self.known(mode) for mode in MODES)
        self.mode, _ = self._order(self.rates(rtt_seconds), SWITCH[self.mode] if both else UNTRIED)
        return self.mode

    def why(self, rtt_seconds: float) -> str:
        """The figures behind the choice, in a few words."""
        if len(self.allowed) == 1:
            return ""
        rates = self.rates(rtt_seconds)
        said = {mode: f"{'' if self.known(mode) else 'about '}{rates[mode]:.0f}" for mode in MODES}
        line = f"round trip {1000 * rtt_seconds:.0f} ms"
        if self.mode == "hosted":
            return f"the server drafts: {said['hosted']} tokens/s (this device: {said['edge']}), {line}"
        return f"this device drafts: {said['edge']} tokens/s (the server: {said['hosted']}), {line}"

    def _order(self, rates: dict[Verifying, float], factor: float) -> tuple[Verifying, Verifying | None]:
        """The better mode and the other one. The present mode is better unless the other is `factor` times as fast."""
        if len(self.allowed) == 1:
            return self.allowed[0], None
        now: Verifying = self.mode
        other: Verifying = "hosted" if now == "edge" else "edge"
        return (other, now) if rates[other] > factor * rates[now] else (now, other)
