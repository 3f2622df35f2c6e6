"""Chooses between two drafters of this device that fit one server: its own small model, and a whole model.

The rule is that of `drafter/pacer.py`: use the one with which answers are faster, try the other one again now and then,
and wait longer after each losing trial. It changes between answers, because a drafter has to read the conversation
first. What is compared is each one's `ModeMeter`, so a drafter counts as fast as the mode in which it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.remotes.mode_meter import MOST_LOSSES, WATCHED, Learnt, ModeMeter, Verifying

BETTER = 1.1
"""The next answer changes the drafter if the other one is this many times as fast. Texts differ by more than modes."""
TRIED = 12.0
"""Rounds after which a drafter counts as known: some of the first are without a draft while it reads."""
LONGEST_TRIAL = 3
"""Answers after which it counts as known anyway."""
RETRIED, MOST_RETRIED = 16, 128
"""Answers after which the slower drafter is tried again, and the limit to which each losing trial doubles them."""


class DrafterMeter:
    """Chooses one of these drafters for each answer. `modes`: a meter for each; the first is used at first."""

    def __init__(self, modes: Sequence[ModeMeter]) -> None:
        self.modes = modes
        for meter in modes:
            meter.rivals = [other for other in modes if other is not meter]
        self._now = min(range(len(modes)), key=lambda at: modes[at].learnt.rested)

    def choose(self, rtt_seconds: float, allowed: Sequence[Verifying]) -> int:
        """The drafter of the next answer. `allowed`: the modes in which it may be used."""
        if len(self.modes) == 1 or not _is_known(self.modes[self._now], allowed):
            return self._now
        now, other = self.modes[self._now].learnt, self.modes[1 - self._now].learnt
        rates = [max(meter.rates(rtt_seconds)[mode] for mode in allowed) for meter in self.modes]
        if not other.uses or other.rested >= min(RETRIED << max(0, other.losses - 1), MOST_RETRIED):
            self._change(Learnt(losses=other.losses))
        elif rates[1 - self._now] > BETTER * rates[self._now]:
            now.losses = min(now.losses + 1, MOST_LOSSES)
            self._change(other)
        else:
            now.losses = 0
            other.rested += 1
        return self._now

    def _change(self, learnt: Learnt) -> None:
        """Use the other drafter, about which this is known. What was measured without a drafter is true of both."""
        now = self.modes[self._now].learnt
        learnt.hosted = now.hosted if now.hosted.count else learnt.hosted
        learnt.allowance, learnt.rested, now.rested = now.allowance, 0, 1
        self._now = 1 - self._now
        self.modes[self._now].recall(learnt)


def _is_known(meter: ModeMeter, allowed: Sequence[Verifying]) -> bool:
    """Whether a drafter was measured enough to be compared."""
    learnt = meter.learnt
    undrafted = "hosted" in allowed and (learnt.lost or (learnt.mode == "hosted" and learnt.drafts >= WATCHED))
    return undrafted or learnt.edge.count >= TRIED or learnt.uses >= LONGEST_TRIAL
