"""Which mode is the faster one on this line: by what rounds have brought in each, and by the round trip.

`edge`: drafted here, verified there; each round waits for the line. `hosted`: the verifier drafts by itself, and the
line carries what it gives. A mode that has not been tried yet is judged by the other: an edge round is a hosted one
and a round trip, or the other way round. Pure arithmetic over numbers that the caller measured: no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verifying = Literal["edge", "hosted"]
MODES: tuple[Verifying, ...] = ("edge", "hosted")

KEPT = 0.95
"""Share of its weight that a round keeps at the next one: some 20 rounds count."""
BETTER = 1.05
"""So many times as fast is worth another mode at the next answer."""
SWITCH = {"edge": 1.15, "hosted": 1.3}
"""And in the middle of one, out of this mode: what a stream has on its way is lost where it is left."""
WORTH_TRYING = 0.85
"""A mode that may be so many times as fast as the best one is tried, and now and then tried again."""
RETRIED = 6
"""Answers between two trials of the slower one."""
FIRST_TAU = 4.0
FIRST_SECONDS = 0.05
"""Of a round, drafting included, before any was measured; of which a forward of the target takes half."""


@dataclass
class _Rounds:
    """Rounds of one mode, the newest ones counting most."""

    count: float = 0.0
    tokens: float = 0.0
    seconds: float = 0.0
    server: float = 0.0

    def add(self, tokens: int, seconds: float, server: float) -> None:
        self.count = KEPT * self.count + 1
        self.tokens = KEPT * self.tokens + tokens
        self.seconds = KEPT * self.seconds + seconds
        self.server = KEPT * self.server + server

    @property
    def mean(self) -> tuple[float, float, float]:
        """Tokens, seconds and the verifier's own seconds of a round."""
        return self.tokens / self.count, self.seconds / self.count, self.server / self.count


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

    def edge(self, tokens: int, seconds: float, server_seconds: float) -> None:
        """A round with a draft from here took so long without the round trip, and at the verifier."""
        self._rounds["edge"].add(tokens, max(seconds, server_seconds), server_seconds)

    def hosted(self, tokens: int, seconds: float) -> None:
        """In a stream the next so many tokens came so long after those before."""
        self._rounds["hosted"].add(tokens, seconds, seconds)

    def known(self, mode: Verifying) -> bool:
        """Whether the mode has been tried."""
        return self._rounds[mode].count > 0

    def rates(self, rtt_seconds: float) -> dict[Verifying, float]:
        """Tokens a second that each mode gives, or may give where it has not been tried."""
        if self.known("edge"):
            tau, seconds, server = self._rounds["edge"].mean
        elif self.known("hosted"):
            tau, seconds, server = self._rounds["hosted"].mean
        else:
            tau, seconds, server = FIRST_TAU, FIRST_SECONDS, FIRST_SECONDS / 2
        rates: dict[Verifying, float] = {"edge": tau / (seconds + rtt_seconds)}
        if self.known("hosted"):
            tau, seconds, _ = self._rounds["hosted"].mean
            rates["hosted"] = tau / max(seconds, 1e-6)
        else:
            rates["hosted"] = tau / seconds if self.drafts else 1 / server
        return rates

    def choose(self, rtt_seconds: float) -> Verifying:
        """The mode of the next answer."""
        rates = self.rates(rtt_seconds)
        best, other = self._order(rates, BETTER if self._begun else 1 + 2 * (BETTER - 1))
        if other is not None:
            self._answers[other] += 1
            due = not self.known(other) or self._answers[other] > RETRIED
            if self._begun and due and rates[other] >= WORTH_TRYING * rates[best]:
                best = other
        self._answers[best] = 0
        self.mode, self._begun = best, True
        return best

    def review(self, rtt_seconds: float) -> Verifying:
        """The mode that the answer on its way had better go on in."""
        self.mode, _ = self._order(self.rates(rtt_seconds), SWITCH[self.mode])
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
