"""Decides when to draft ahead, and when to use such a draft. It learns from rounds, so that neither costs time.

A prepared draft saves the time between a verdict and the next round, in which memory arrives and the next draft is
made. As it was made without that memory, it may gain fewer tokens. Both ways are compared by tokens gained per second.
The caller measures all seconds. No clock, no trees, no network.
"""

from __future__ import annotations

from drafter.pacer import Pacer, Recent, Trial

KEPT = 0.997
"""Share of its weight that an observation keeps at the next round. About 300 rounds count, so a way that did not pay
off is tried again after about as many."""
FIRST_SHARE = 0.85
"""First guess at the share of a prepared draft's expected tokens that a round gains, with that draft or with a fresh
one. With the bundled pair the two differ by less than 3 %."""
PRIOR = 200.0
"""Weight of the first guess, in tokens. Gains vary so much that 25 hits say little."""
FIRST_HITS, TRIES = 0.3, 5.0
"""First guess at the share of verdicts that a prepared draft fits, and its weight in verdicts."""
SMOOTHING = 0.1
"""Weight of the newest draft in the mean number of tokens that a prepared draft expects."""
TRIAL = 16
"""One in this many decisions is reversed, to learn from the other way."""
CALLS = 4
"""A round must last at least this many drafter calls before drafting ahead is tried."""


class FadingShare:
    """A running share of a whole. A first guess weighs as much as `prior` of the whole."""

    def __init__(self, first: float, prior: float) -> None:
        self._first, self._prior = first, prior
        self._part = self._whole = 0.0

    def add(self, part: float, whole: float) -> None:
        self._part += part
        self._whole += whole

    def fade(self) -> None:
        """Reduce the weight of older observations; call it once a round."""
        self._part *= KEPT
        self._whole *= KEPT

    def __call__(self) -> float:
        return (self._first * self._prior + self._part) / (self._prior + self._whole)


class Adoption:
    """Measures what drafting ahead gains over one line, with one verifier."""

    def __init__(self) -> None:
        self._flight = Recent()
        self._gaps = {False: Recent(), True: Recent()}
        """Seconds from a verdict to the next round, by whether its draft was prepared."""
        self._server = {False: Recent(), True: Recent()}
        """The verifier's own seconds, by whether the device drafted ahead at the same time."""
        self._prepared, self._fresh = FadingShare(FIRST_SHARE, PRIOR), FadingShare(FIRST_SHARE, PRIOR)
        self._hits = FadingShare(FIRST_HITS, TRIES)
        self._typical = 3.0
        """Tokens that a prepared draft expects, without the bonus token."""
        trials = dict.fromkeys((True, False), Trial(rounds=1, rest=TRIAL - 1))
        self._using = Pacer(True, trials, longest=TRIAL - 1, guessed=True)
        self._ahead = Pacer(True, trials, longest=TRIAL - 1, guessed=True)

    # ---- what rounds show --------------------------------------------------------------------------------------------

    def sent(self, seconds: float, *, adopted: bool) -> None:
        """Record the seconds from a verdict to the next round.

        `adopted`: it was sent with a prepared draft.
        """
        self._gaps[adopted].add(seconds)

    def returned(self, seconds: float, server: float, *, ahead: bool) -> None:
        """Record the seconds from a round to its verdict, of which the verifier reports `server` seconds as its own.

        `ahead`: the device drafted ahead meanwhile.
        """
        self._flight.add(seconds)
        self._server[ahead].add(server)

    def tried(self, hit: bool) -> None:
        """Record whether the committed tokens were among those that a draft was prepared for."""
        self._hits.add(hit, 1.0)

    def gained(self, expected: float, tokens: int, *, adopted: bool) -> None:
        """Record the tokens that a round gained if the prepared draft `expected` this many.

        `adopted`: the round was sent with that draft, not with a fresh one.
        """
        self._typical += SMOOTHING * (expected - 1.0 - self._typical)
        (self._prepared if adopted else self._fresh).add(tokens - 1.0, expected - 1.0)

    # ---- what follows from it ----------------------------------------------------------------------------------------

    def pays(self, expected: float) -> bool:
        """True if using a prepared draft that expects this many tokens beats waiting and drafting afresh."""
        return self._using.decide(self._saved(expected - 1.0) > 0.0)

    def worth(self, level: float, *, shared: bool) -> bool:
        """True if the device should draft ahead during the round that is being sent.

        `level`: seconds of a drafter call. `shared`: the verifier may run on this machine and compete for its cores.
        """
        for share in (self._prepared, self._fresh, self._hits):
            share.fade()
        alone, beside = self._server[False], self._server[True]
        if not alone.count or self._flight.seconds < CALLS * level:
            return False
        lost = level / 2  # The verdict waits for the call in progress.
        if shared and beside.count:
            lost += max(0.0, beside.seconds - alone.seconds)
        return self._ahead.decide(self._saved(self._typical) * self._hits() > lost)

    def _saved(self, expected: float) -> float:
        """Seconds that using such a draft saves, minus the time value of the tokens that it loses."""
        flight, fresh, adopted = self._flight, self._gaps[False], self._gaps[True]
        if not flight.count or not fresh.count:
            return 0.0
        as_long = flight.seconds + fresh.seconds
        as_long *= (1.0 + self._prepared() * expected) / (1.0 + self._fresh() * expected)
        return as_long - flight.seconds - adopted.seconds
