"""One rule for choosing the faster of two ways to work, for every such choice on the device and on the server.

Whether drafts pay off, which kind does, and on which side depends on machines, line and text. So it is measured:

- Use the way that has recently gained more tokens per second (`Recent`). One long pause of the machine decides nothing.
- Try the other way now and then, for a few rounds in a row (`Pacer`). Its earlier measurements are dropped first,
  because they say little about the present.
- Wait twice as long after each losing trial, up to a limit.
- If a trial is expensive, save up for it first (`Allowance`): trials cost at most a twentieth of the time.

The caller measures all times, in seconds. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

PAUSE = 3.0
"""A time counts as at most this many times the recent mean. Anything longer means that the machine was busy with
something else."""
SHARE = 0.05
"""Share of the time that trials may cost."""
SAVED = 5.0
"""Most tokens that an allowance holds, by default: that share of a short answer."""

Way = TypeVar("Way")


class Recent:
    """Means over recent work: seconds, and other amounts that are measured with them. Newer work weighs more."""

    def __init__(self, kept: float = 0.9) -> None:
        """`kept`: factor by which each addition reduces the weight of all earlier work.

        About `1 / (1 - kept)` pieces count.
        """
        self.kept = kept
        self.count = 0
        """Pieces of work so far."""
        self.weight = 0.0
        self._sums: tuple[float, ...] = ()

    def add(self, seconds: float, *amounts: float) -> None:
        """Add a piece of work. The number of amounts must be the same each time."""
        if self.seconds:
            seconds = min(seconds, PAUSE * self.seconds)
        self.count += 1
        self.weight = self.kept * self.weight + 1.0
        self._add(self.kept, seconds, *amounts)

    def carry(self, seconds: float, *amounts: float) -> None:
        """Add seconds and amounts that belong to the work but are not a piece of it, such as preparations."""
        self._add(1.0, seconds, *amounts)

    def _add(self, kept: float, *values: float) -> None:
        sums = self._sums or (0.0,) * len(values)
        self._sums = tuple(kept * total + value for total, value in zip(sums, values, strict=True))

    @property
    def seconds(self) -> float:
        """Mean seconds of a piece; 0 before the first."""
        return self._sums[0] / self.weight if self.weight else 0.0

    @property
    def amounts(self) -> tuple[float, ...]:
        """Means of the other amounts; empty before the first piece."""
        return tuple(total / self.weight for total in self._sums[1:]) if self.weight else ()

    @property
    def rate(self) -> float:
        """The first amount per second, usually tokens; 0 before anything is known."""
        return self._sums[1] / max(self._sums[0], 1e-9) if self._sums else 0.0


class Trial(NamedTuple):
    """How trials of a way are run."""

    rounds: int
    """Length of a trial, in rounds. A way with 0 is never tried, because its rate is known without trials."""
    rest: int
    """Rounds between trials. Doubles with each further losing trial."""


class Pacer(Generic[Way]):
    """Decides which of two ways the next round uses, and when to try the slower one again.

    A round that could not use `way`, because something else ruled it out, is not part of a trial. The caller keeps the
    measurements, so it may compare the ways by any suitable rule (the current round trip, a model of costs).
    """

    def __init__(self, first: Way, trials: Mapping[Way, Trial], *, longest: int, guessed: bool = False) -> None:
        """`first`: the way to begin with.

        `longest`: limit of the rest, in rounds. `guessed`: the caller has a first guess at both ways; otherwise each is
        tried once before they are compared.
        """
        self.way = first
        """The way of the next round."""
        self.trying = not guessed
        """Whether the next round is part of a trial, so `way` may be the slower one."""
        self._trials, self._longest = trials, longest
        self._left, self._rested = trials[first].rounds, 0
        self._lost = dict.fromkeys(trials, 0)
        """Trials in a row that each way has lost."""
        self._untried = set() if guessed else set(trials) - {first}

    def went(self, way: Way, better: Way, *, worth: bool = True) -> bool:
        """Count a round that used `way`, and decide about the next one.

        `better`: the way that has gained more per second, as far as is known. `worth`: whether a trial is worthwhile at
        present, because the other way might win and the time can be afforded. If not, none begins, and one in progress
        ends.

        Returns True if a trial of `self.way` begins with the next round: drop what was measured of it.
        """
        self._left -= way == self.way
        if self.trying and worth and self._left > 0:
            return False
        if self.trying:
            self._lost[self.way] = 0 if better == self.way else self._lost[self.way] + 1
        self.way = better
        self._rested += 1
        other = next(other for other in self._trials if other != better)
        due = other in self._untried or self._rested > self._rest(other)
        self.trying = worth and due and self._trials[other].rounds > 0
        if self.trying:
            self.way, self._left, self._rested = other, self._trials[other].rounds, 0
            self._untried.discard(other)
        return self.trying

    def decide(self, better: Way) -> Way:
        """Count a round that followed the decision, and return the way of the next.

        For choices that differ from round to round, with single-round trials: mostly `better`, and now and then the
        other way.
        """
        self.went(self.way, better)
        return self.way

    def _rest(self, way: Way) -> int:
        """Rounds between trials of this way."""
        return min(self._trials[way].rest << max(0, self._lost[way] - 1), self._longest)


class Allowance:
    """Remaining allowance for trials, in tokens that the same time would have yielded without them."""

    def __init__(self, left: float = 0.0, most: float = SAVED) -> None:
        self.left, self.most = left, most

    def earned(self, tokens: float) -> None:
        """Add the share of a round, given the tokens that its time would have yielded without any trial."""
        self.left = min(self.most, self.left + SHARE * tokens)

    def spent(self, tokens: float) -> None:
        """Subtract the tokens that a trial has lost; negative if it gained some."""
        self.left = min(self.most, self.left - tokens)
