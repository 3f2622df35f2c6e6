"""Whether to draft ahead, and whether to use what was: learnt from rounds, so that neither is slower than to wait.

A prepared draft saves the time from the verdict to the next round, in which memory arrives and the next draft is made.
It was made without that memory, so it may gain less. A round is worth the tokens it gains over the seconds it takes;
both ways are compared by that. Seconds that the caller measured come in; knows no clock, no trees and no network.
"""

from __future__ import annotations

SMOOTHING = 0.1
"""Weight of the newest seconds."""
PAUSE = 3.0
"""Seconds count as at most so many times what was expected: the machine or the line was elsewhere."""
KEPT = 0.997
"""Share of its weight that an observation keeps at the next round: some 300 rounds count, and what was found not to
pay is tried again after as many."""
FIRST_SHARE = 0.85
"""Of the tokens that a prepared draft expects, what comes of it at first, and of a fresh one in its place. With the
bundled pair the two are within 3 % of each other."""
PRIOR = 200.0
"""Tokens that the first share weighs as much as: gains vary so much that some 25 hits say little."""
FIRST_HITS, TRIES = 0.3, 5.0
"""Share of verdicts that drafting ahead is ready for at first, which weighs as much as so many verdicts."""
TRIAL = 16
"""One in so many times the other way is taken, to learn of it."""
CALLS = 4
"""Drafter calls that a round must leave room for."""


class Smooth:
    """Seconds as they have been lately; None before any."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    def add(self, seconds: float) -> None:
        if self.seconds is None:
            self.seconds = seconds
        else:
            self.seconds += SMOOTHING * (min(seconds, PAUSE * self.seconds) - self.seconds)


class Share:
    """A part of a whole, as it has been lately, with a first guess that weighs as much as `prior` of the whole."""

    def __init__(self, first: float, prior: float) -> None:
        self._first, self._prior = first, prior
        self._part = self._whole = 0.0

    def add(self, part: float, whole: float) -> None:
        self._part += part
        self._whole += whole

    def fade(self) -> None:
        """A round has passed."""
        self._part *= KEPT
        self._whole *= KEPT

    def __call__(self) -> float:
        return (self._first * self._prior + self._part) / (self._prior + self._whole)


class Adoption:
    """What drafting ahead has been worth over one line, to one verifier."""

    def __init__(self) -> None:
        self._flight = Smooth()
        self._gaps = {False: Smooth(), True: Smooth()}
        """From a verdict to the next round, on a fresh draft and on a prepared one."""
        self._server = {False: Smooth(), True: Smooth()}
        """The verifier's own time, without and with drafting ahead beside it."""
        self._prepared, self._fresh = Share(FIRST_SHARE, PRIOR), Share(FIRST_SHARE, PRIOR)
        self._hits = Share(FIRST_HITS, TRIES)
        self._typical = 3.0
        """Tokens beyond the bonus that a prepared draft expects."""
        self._asked = self._rounds = 0

    # ---- what rounds show --------------------------------------------------------------------------------------------

    def sent(self, seconds: float, *, adopted: bool) -> None:
        """A round went up so long after the verdict before."""
        self._gaps[adopted].add(seconds)

    def returned(self, seconds: float, server: float, *, ahead: bool) -> None:
        """Its verdict came so long after that; the verifier says it took so much of it. `ahead`: beside drafting."""
        self._flight.add(seconds)
        self._server[ahead].add(server)

    def tried(self, hit: bool) -> None:
        """Something was prepared, and what came was among it, or not."""
        self._hits.add(hit, 1.0)

    def gained(self, expected: float, tokens: int, *, adopted: bool) -> None:
        """Where a prepared draft expected so many tokens, a round gained these with it, or with a fresh one."""
        self._typical += SMOOTHING * (expected - 1.0 - self._typical)
        (self._prepared if adopted else self._fresh).add(tokens - 1.0, expected - 1.0)

    # ---- what follows from it ----------------------------------------------------------------------------------------

    def pays(self, expected: float) -> bool:
        """Whether to use a prepared draft that expects so many tokens, rather than to wait and draft afresh."""
        self._asked += 1
        return (self._saved(expected - 1.0) > 0.0) != (self._asked % TRIAL == 0)

    def worth(self, level: float, *, shared: bool) -> bool:
        """Whether to draft ahead in the round that goes up now.

        `level`: seconds of a drafter call. `shared`: the verifier may be on this machine, and wants the same cores.
        """
        self._rounds += 1
        for share in (self._prepared, self._fresh, self._hits):
            share.fade()
        flight, trial = self._flight.seconds, self._rounds % TRIAL == 0
        if flight is None or flight < CALLS * level:
            return False
        alone, beside = self._server[False].seconds, self._server[True].seconds
        if alone is None:
            return False
        lost = level / 2  # The verdict waits for the call in progress.
        if shared and beside is not None:
            lost += max(0.0, beside - alone)
        return (self._saved(self._typical) * self._hits() > lost) != trial

    def _saved(self, expected: float) -> float:
        """Seconds that adopting such a draft saves, its loss in tokens counted in."""
        flight, fresh, adopted = self._flight.seconds, self._gaps[False].seconds, self._gaps[True].seconds
        if flight is None or fresh is None:
            return 0.0
        as_long = (flight + fresh) * (1.0 + self._prepared() * expected) / (1.0 + self._fresh() * expected)
        return as_long - flight - (adopted or 0.0)
