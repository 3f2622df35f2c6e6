"""The conversations that are open: what the drafter keeps of each, and the line that it is answered over.

All drafting runs on one thread, and what is learnt by it (the calibration, the texts of the second stage) is shared.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from app.drafting.drafting import Drafting
from app.drafting.retrieval import Retrieval
from app.reply.generation import Line
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from storage import Store

OPEN_CONVERSATIONS = 4
"""Conversations whose drafter state is kept; others start again from what is stored of them."""


class Conversations:
    """Those that were answered last. `second_stage`: stored answers are searched for what may come next."""

    def __init__(self, drafter: Drafter, store: Store, *, second_stage: bool) -> None:
        self._drafter = drafter
        self._store = store
        self._calibration = Calibration()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drafter")
        self._retrieval = Retrieval(drafter, store) if second_stage else None
        self._open: OrderedDict[str, tuple[Drafting, Line]] = OrderedDict()

    def enter(self, conversation_id: str) -> tuple[Drafting, Line]:
        """What an answer in this conversation is written with; the one that was entered longest ago may go."""
        if conversation_id not in self._open:
            drafting = Drafting(
                self._drafter, self._store, conversation_id, self._thread, self._retrieval, self._calibration
            )
            self._open[conversation_id] = drafting, Line()
        self._open.move_to_end(conversation_id)
        if len(self._open) > OPEN_CONVERSATIONS:
            self._open.popitem(last=False)
        if self._retrieval is not None:
            self._retrieval.refresh()
        return self._open[conversation_id]

    def leave(self) -> list[Drafting]:
        """Keeps none; returns their drafting, which an answer that is on its way may go on with."""
        left = [drafting for drafting, _ in self._open.values()]
        self._open.clear()
        return left

    async def quiet(self) -> None:
        """Stops listening for memory, and drafting ahead; called while the connection is still there."""
        for drafting, _ in self._open.values():
            await drafting.quiet()

    async def close(self) -> None:
        """Ends the thread; the conversations are `quiet`."""
        if self._retrieval is not None:
            await self._retrieval.close()
        self._thread.shutdown()
