"""The most recently answered conversations, each with its drafting and its session with the verifier.

All drafting runs on one thread. The calibration and the texts of the second stage are shared by all conversations of
one drafter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from app.drafting.calibrations import Calibrations
from app.drafting.drafting import Drafting
from app.drafting.readings import Kept
from app.drafting.retrieval import Retrieval
from app.remotes.peer import VerifierSession
from drafter.calibration import Calibration
from drafter.runtime import Drafter
from storage import Store

OPEN_CONVERSATIONS = 4
"""Number of conversations whose drafter state is kept. Others start again from their stored data."""
MOST_SHARED = 2 * OPEN_CONVERSATIONS
"""Most drafters whose state is kept, in case a server describes its model differently each time."""


class DraftingPool:
    """Keeps the drafter's state of a few conversations, so that the next answer need not read them again.

    `second_stage`: whether stored answers are searched for continuations. `calibrations`: those of earlier runs.
    `answering`: ids of the conversations in which an answer is being written, which are kept.
    """

    def __init__(
        self,
        store: Store,
        *,
        second_stage: bool,
        calibrations: Calibrations = Calibrations(None),  # noqa: B008 - it cannot change.
        answering: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._store = store
        self._answering = answering
        self._calibrations = calibrations
        self._second_stage = second_stage
        self._shared: OrderedDict[bytes, tuple[Drafter, Calibration, Retrieval | None]] = OrderedDict()
        """The state that conversations share, by the digest of their drafter's memory. The one used last is last."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drafter")
        self._open: OrderedDict[str, tuple[Drafting, VerifierSession]] = OrderedDict()
        self._entered: dict[str, tuple[object, Drafter]] = {}
        """The server and drafter with which each conversation was last entered."""
        self._read: OrderedDict[str, tuple[Drafter, Kept]] = OrderedDict()

    def kept(self, conversation_id: str, drafter: Drafter) -> Kept:
        """The state of a conversation when it was last read in this drafter's tokens, to continue from there."""
        known = self._read.pop(conversation_id, None)
        self._read[conversation_id] = known if known is not None and known[0] is drafter else (drafter, {})
        if len(self._read) > OPEN_CONVERSATIONS:
            self._read.popitem(last=False)
        return self._read[conversation_id][1]

    def length(self, conversation_id: str) -> int:
        """Tokens of a conversation, as far as its drafter has followed it."""
        return self._open[conversation_id][0].length if conversation_id in self._open else 0

    def left(self, conversation_id: str, drafter: Drafter, server: object) -> Drafting | None:
        """Drop a conversation that was entered with another server or drafter; only its session outlasts a drafter.

        Returns its drafting, on which the caller must call `quiet`.
        """
        if conversation_id not in self._open:
            return None
        before, drafted = self._entered[conversation_id]
        if before is server and drafted is drafter:
            return None
        drafting, session = self._open.pop(conversation_id)
        if before is server:
            self._open[conversation_id] = self._drafting(conversation_id, drafter), session
        return drafting

    def enter(self, conversation_id: str, drafter: Drafter, server: object = None) -> tuple[Drafting, VerifierSession]:
        """The drafting and session of a conversation. The least recently entered conversation may be dropped.

        `drafter`, `server`: who drafts and who answers; compared by identity.
        """
        self._entered[conversation_id] = server, drafter
        if conversation_id not in self._open:
            self._open[conversation_id] = self._drafting(conversation_id, drafter), VerifierSession()
        self._open.move_to_end(conversation_id)
        kept = {conversation_id, *self._answering()}
        left = [conversation for conversation in self._open if conversation not in kept]
        for dropped in left[: max(0, len(self._open) - OPEN_CONVERSATIONS)]:
            del self._open[dropped]
            del self._entered[dropped]
        if (retrieval := self._shared_by(drafter)[1]) is not None:
            retrieval.refresh()
        return self._open[conversation_id]

    def _drafting(self, conversation_id: str, drafter: Drafter) -> Drafting:
        calibration, retrieval = self._shared_by(drafter)
        return Drafting(drafter, self._store, conversation_id, self._thread, retrieval, calibration)

    def recalibrate(self, drafter: Drafter) -> None:
        """Use another calibration for this drafter, because its learnt version has changed."""
        _, retrieval = self._shared_by(drafter)
        calibration = self._calibrations.load(drafter)
        self._shared[drafter.memory_digest] = drafter, calibration, retrieval
        for conversation, (drafting, _) in self._open.items():
            if self._entered[conversation][1] is drafter:
                drafting.calibrate(calibration)

    def drop(self, server: object) -> list[Drafting]:
        """Drop the conversations of a server. Returns their drafting, which an answer in progress may still use."""
        of_server = [conversation for conversation, (its, _) in self._entered.items() if its is server]
        for conversation in of_server:
            del self._entered[conversation]
        return [self._open.pop(conversation)[0] for conversation in of_server]

    async def quiet(self) -> None:
        """Stop listening for memory and drafting ahead. Call this while the connection is still open."""
        for drafting, _ in self._open.values():
            await drafting.quiet()

    async def close(self) -> None:
        """End the drafting thread. Call `quiet` first."""
        for drafter, calibration, retrieval in self._shared.values():
            if retrieval is not None:
                await retrieval.close()
            self._calibrations.save(drafter, calibration)
        self._thread.shutdown()

    def _shared_by(self, drafter: Drafter) -> tuple[Calibration, Retrieval | None]:
        if drafter.memory_digest in self._shared:
            self._shared.move_to_end(drafter.memory_digest)
        else:
            retrieval = Retrieval(drafter, self._store) if self._second_stage and drafter.drafts else None
            self._shared[drafter.memory_digest] = drafter, self._calibrations.load(drafter), retrieval
            if len(self._shared) > MOST_SHARED:
                used = {entered.memory_digest for _, entered in self._entered.values()}
                leaves, calibration, _ = self._shared.pop(next(one for one in self._shared if one not in used))
                self._calibrations.save(leaves, calibration)
        return self._shared[drafter.memory_digest][1:]
