"""Drafting ahead of the verdicts of one reply: when to begin, whether to use what is ready, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from app.drafting.drafting import Drafting
from drafter.adoption import Adoption
from drafter.search import Pace
from models.tree import DraftTree


class Lookahead:
    """Decides about drafts that are made ahead of verdicts.

    Told of each round in turn: `choose`, `sent`, `returned`, `followed`.
    """

    def __init__(self, drafting: Drafting, *, enabled: bool) -> None:
        self.tries = self.hits = self.adopted = 0
        """Verdicts that something was drafted ahead of, those that brought it, and drafts that were used."""
        self._drafting = drafting
        self._enabled = enabled
        self._offered: DraftTree | None = None
        """The draft that was prepared for the round that goes up, used or not."""
        self._took = self._drafts = False
        """The round goes up with that draft. Something is drafted ahead of its verdict."""
        self._sent = 0.0
        self._returned: float | None = None

    def choose(self, adoption: Adoption) -> bool:
        """Whether to use the draft that is ready for the next round, which then need not wait for memory."""
        if self._offered is not self._drafting.ready:
            self._offered = None
        offered = self._offered
        self._took = offered is not None and self._drafting.may_adopt and adoption.pays(_expected(offered))
        return self._took

    def sent(
        self, adoption: Adoption, pace: Callable[[int], Pace], final: Collection[int], level: float, *, shared: bool
    ) -> None:
        """A round goes up: begin to draft ahead if that pays.

        `pace`: the shape of a draft after so many new tokens. `final`: tokens that nothing follows. `level`: seconds of
        a drafter call. `shared`: the verifier may run on this device.
        """
        self._sent = time.monotonic()
        self.adopted += self._took
        if self._returned is not None:
            adoption.sent(self._sent - self._returned, adopted=self._took)
        self._drafts = self._enabled and adoption.worth(level, shared=shared)
        if self._drafts:
            self._drafting.look_ahead(pace, final)

    def returned(self, adoption: Adoption, server: float, *, usual: bool) -> None:
        """The verdict is there. `server`: the verifier's seconds. `usual`: no prompt to read, nothing sent again."""
        self._drafting.halt()
        self._returned = time.monotonic()
        if usual:
            adoption.returned(self._returned - self._sent, server, ahead=self._drafts)

    def followed(self, adoption: Adoption, new: int, *, ended: bool) -> None:
        """The drafter follows the verdict's `new` tokens. `ended`: the answer is complete with them."""
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
