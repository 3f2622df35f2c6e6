"""Drafting ahead of the verdicts of one reply: when to begin, whether to use a prepared draft, and the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from app.drafting.drafting import Drafting
from drafter.adoption import Adoption
from drafter.search import Pace
from models.tree import DraftTree


class Lookahead:
    """Decides about drafts made ahead of verdicts.

    Call for each round, in this order: `choose`, `sent`, `returned`, `followed`.
    """

    def __init__(self, drafting: Drafting, *, enabled: bool) -> None:
        self.tries = self.hits = self.adopted = 0
        """Numbers of verdicts that were drafted ahead of, of hits among them, and of drafts that were used."""
        self._drafting = drafting
        self._enabled = enabled
        self._offered: DraftTree | None = None
        """The draft prepared for the round being sent, used or not."""
        self._took = self._drafts = False
        """Whether the round is sent with that draft, and whether its verdict is drafted ahead of."""
        self._sent = 0.0
        self._returned: float | None = None

    def choose(self, adoption: Adoption) -> bool:
        """Whether to use the draft prepared for the next round, which then need not wait for memory."""
        if self._offered is not self._drafting.ready:
            self._offered = None
        offered = self._offered
        self._took = offered is not None and self._drafting.arrivals.has_room and adoption.pays(_expected(offered))
        return self._took

    def sent(
        self, adoption: Adoption, pace: Callable[[int], Pace], final: Collection[int], level: float, *, shared: bool
    ) -> None:
        """A round is being sent: begin to draft ahead if that pays off.

        `pace`: the shape of a draft after a number of new tokens. `final`: tokens that nothing follows. `level`:
        seconds of a drafter call. `shared`: the verifier may run on this device.
        """
        self._sent = time.monotonic()
        self.adopted += self._took
        if self._returned is not None:
            adoption.sent(self._sent - self._returned, adopted=self._took)
        self._drafts = self._enabled and adoption.worth(level, shared=shared)
        if self._drafts:
            self._drafting.look_ahead(pace, final)

    def returned(self, adoption: Adoption, server: float, *, usual: bool) -> None:
        """The verdict has arrived.

        `server`: the verifier's seconds. `usual`: no prompt was read and nothing was resent.
        """
        self._drafting.halt()
        self._returned = time.monotonic()
        if usual:
            adoption.returned(self._returned - self._sent, server, ahead=self._drafts)

    def followed(self, adoption: Adoption, new: int, *, ended: bool) -> None:
        """The drafter has followed the verdict's `new` tokens. `ended`: whether they complete the answer."""
        offered, self._offered = self._offered, None
        if ended:
            return
        if offered is not None:
            adoption.gained(_expected(offered), new, adopted=self._took)
        if self._drafts and self._drafting.prepared:
            self._offered = self._drafting.ready
            self.tries += 1
            self.hits += self._offered is not None
            adoption.tried(self._offered is not None)


def _expected(tree: DraftTree) -> float:
    return 1.0 if tree.expected_tau is None else tree.expected_tau
