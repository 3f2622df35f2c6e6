"""The conversations that were answered last, each with its drafting and its session with the verifier.

All drafting runs on one thread. What is learnt by it (the calibration, the texts of the second stage) is shared.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from app.drafting.drafting import Drafting
from app.drafting.retrieval import Retrieval
from app.remotes.verifier_session import VerifierSession
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from storage import Store

OPEN_CONVERSATIONS = 4
"""Conversations whose drafter state is kept. Others start again from what is stored of them."""


class DraftingPool:
    """Keeps the drafter's state of a few conversations, so that the next answer need not read them again.

    `second_stage`: stored answers are searched for what may come next.
    """

    def __init__(self, drafter: Drafter, store: Store, *, second_stage: bool) -> None:
        self._drafter = drafter
        self._store = store
        self._calibration = Calibration()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drafter")
        self._retrieval = Retrieval(drafter, store) if second_stage else None
        self._open: OrderedDict[str, tuple[Drafting, VerifierSession]] = OrderedDict()
        self._servers: dict[str, object] = {}
        """What each conversation was last entered with."""

    def left(self, conversation_id: str, server: object) -> Drafting | None:
        """Drop a conversation that was entered with another server; returns its drafting, which is to be quieted."""
        if conversation_id not in self._open or self._servers[conversation_id] is server:
            return None
        return self._open.pop(conversation_id)[0]

    def enter(self, conversation_id: str, server: object = None) -> tuple[Drafting, VerifierSession]:
        """What an answer in this conversation is written with. The conversation entered longest ago may be dropped.

        `server`: who answers; compared by identity.
        """
        self._servers[conversation_id] = server
        if conversation_id not in self._open:
            drafting = Drafting(
                self._drafter, self._store, conversation_id, self._thread, self._retrieval, self._calibration
            )
            self._open[conversation_id] = drafting, VerifierSession()
        self._open.move_to_end(conversation_id)
        if len(self._open) > OPEN_CONVERSATIONS:
            dropped, _ = self._open.popitem(last=False)
            del self._servers[dropped]
        if self._retrieval is not None:
            self._retrieval.refresh()
        return self._open[conversation_id]

    def drop(self, server: object) -> list[Drafting]:
        """Drop the conversations of a server. Returns their drafting, which an answer in progress may still use."""
        of_server = [conversation for conversation, its in self._servers.items() if its is server]
        for conversation in of_server:
            del self._servers[conversation]
        return [self._open.pop(conversation)[0] for conversation in of_server]

    async def quiet(self) -> None:
        """Stop listening for memory, and drafting ahead. Call it while the connection is still open."""
        for drafting, _ in self._open.values():
            await drafting.quiet()

    async def close(self) -> None:
        """End the drafting thread. Call `quiet` first."""
        if self._retrieval is not None:
            await self._retrieval.close()
        self._thread.shutdown()
