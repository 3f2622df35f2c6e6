"""The assistant: questions in, events out. The screen, `ask` and the benchmarks all read `Assistant.reply`.

What is asked is stored before anything is sent, and what is answered after each round, so that a crash loses at most
the round in flight. One reply runs at a time.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from types import TracebackType
from typing import Self

from app.config import Settings
from app.connection import PATIENCE_SECONDS, Connection, Endpoint, Source
from app.drafting import Drafting
from app.events import Done, Event, Failed, Mode, ModeChanged, Started, Stats
from app.pace import MODES, Verifying
from app.reply import Line, NoAnswer, Reply
from app.retrieval import Retrieval
from app.transcript import conversation_messages, conversation_tokens
from drafter.calibration import Calibration
from drafter.config import DrafterError
from drafter.runtime import Drafter
from remote.protocol import Sampling
from storage import FinalStatus, Message, StorageError, Store

OPEN_CONVERSATIONS = 4
"""Conversations whose drafter state is kept; others start again from what is stored of them."""
CONTEXT_TOKENS = 8192
"""What the drafter alone reads at most: its attention is computed over every earlier token."""

EDGE_PATIENCE_SECONDS = 15.0


class Assistant:
    """`source`: where the verifier is; None: the drafter alone. `draft=False`: the target alone, token by token.

    `modes`: what the mode `auto` may choose from while the verifier answers.
    """

    def __init__(
        self,
        drafter: Drafter,
        store: Store,
        source: Source | None,
        settings: Settings,
        *,
        draft: bool = True,
        modes: tuple[Verifying, ...] = MODES,
    ) -> None:
        self.store = store
        self._drafter = drafter
        self._settings = settings
        self._draft = draft
        self._connection: Connection | None = None
        if source is not None and settings.mode != "offline":
            self._connection = Connection(
                source,
                tokenizer=drafter.text.digest,
                vocabulary=drafter.config.vocabulary,
                # Nothing else can answer then, so there is no hurry to give up.
                patience=PATIENCE_SECONDS if draft and settings.mode == "auto" else EDGE_PATIENCE_SECONDS,
                modes=modes,
            )
        self._calibration = Calibration()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drafter")
        self._retrieval = Retrieval(drafter, store) if settings.second_stage and draft else None
        self._open: OrderedDict[str, tuple[Drafting, Line]] = OrderedDict()
        self._reply: Reply | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Begin to connect; returns at once. `reply` and `changes` do it too."""
        if self._connection is not None:
            self._connection.start()

    async def close(self) -> None:
        """Let go of the verifier, and end one that was started here."""
        for drafting, _ in self._open.values():
            await drafting.quiet()
        if self._connection is not None:
            await self._connection.close()
        if self._retrieval is not None:
            await self._retrieval.close()
        self._thread.shutdown()

    # ---- mode --------------------------------------------------------------------------------------------------------

    def status(self) -> ModeChanged:
        """The mode now, and why."""
        connection = self._connection
        if connection is None:
            return ModeChanged("offline", "offline by choice")
        if isinstance(connection.verifier, Endpoint):
            return ModeChanged("hosted", connection.why)
        if connection.verifier is not None:
            chosen = self._settings.mode
            mode: Mode = chosen if chosen in MODES else connection.modes.mode
            return ModeChanged(mode, connection.why)
        return ModeChanged("warming" if connection.warming else "offline", connection.why)

    async def changes(self) -> AsyncGenerator[ModeChanged, None]:
        """Each later change of the mode while no reply runs; a reply reports its own."""
        self.start()
        while self._connection is not None:
            await self._connection.changed()
            if self._reply is None:
                yield self.status()

    # ---- one reply ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the running reply, which keeps what it has."""
        if self._reply is not None:
            self._reply.stop()

    async def reply(self, conversation_id: str, prompt: str) -> AsyncGenerator[Event, None]:
        """Store the question, answer it, store the answer. Ends with `Done` or `Failed`.

        Leaving the iterator early stops the reply; what it has is stored.
        """
        if self._reply is not None:
            raise RuntimeError("one reply at a time: stop the running one, or wait for it")
        self.start()
        try:
            thread, message = self._ask(conversation_id, prompt)
        except StorageError as error:
            yield Failed(str(error), "internal")
            return
        yield Started(conversation_id, message.id)
        reply: Reply | None = None
        last: Event
        status: FinalStatus = "stopped"  # Stays where the iterator is left early.
        try:
            reply = self._reply = self._new_reply(conversation_id, thread)
            async with contextlib.aclosing(reply.steps()) as steps:
                async for step in steps:
                    if isinstance(step, Stats):
                        answer = reply.answer
                        self.store.checkpoint(message.id, answer.tokens, answer.provenance, answer.text)
                    yield step
            status, last = _outcome(reply)
        except NoAnswer as error:
            status, last = "failed", error.event
        except (DrafterError, StorageError) as error:
            status, last = "failed", Failed(str(error), "internal")
        finally:
            self._reply = None
            unsaved = self._finish(message.id, reply, status)
        yield unsaved or last

    def _ask(self, conversation_id: str, prompt: str) -> tuple[list[Message], Message]:
        """Stores the question and an answer that is pending; the thread up to the question, and the answer."""
        thread = self.store.thread(conversation_id)
        parent = thread[-1].id if thread else None
        question = self.store.add_message(conversation_id, "user", prompt, parent_id=parent, status="done")
        answer = self.store.add_message(conversation_id, "assistant", "", parent_id=question.id, status="pending")
        return [*thread, question], answer

    def _new_reply(self, conversation_id: str, thread: list[Message]) -> Reply:
        """Raises `NoAnswer`, `TemplateFailed`."""
        tokens = conversation_tokens(self._drafter.text, thread)
        if len(tokens) > CONTEXT_TOKENS:
            message = f"The conversation is {len(tokens)} tokens long, and at most {CONTEXT_TOKENS} can be read."
            raise NoAnswer(f"{message} Ask less at once, or start a new conversation.", "too_long")
        if conversation_id not in self._open:
            drafting = Drafting(
                self._drafter, self.store, conversation_id, self._thread, self._retrieval, self._calibration
            )
            self._open[conversation_id] = drafting, Line()
        self._open.move_to_end(conversation_id)
        if len(self._open) > OPEN_CONVERSATIONS:
            self._open.popitem(last=False)
        drafting, line = self._open[conversation_id]
        if self._retrieval is not None:
            self._retrieval.refresh()
        settings = self._settings
        seed = settings.seed if settings.seed is not None else secrets.randbits(32)
        return Reply(
            tokens,
            messages=conversation_messages(thread),
            text=self._drafter.text,
            settings=settings,
            sampling=Sampling(temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, seed=seed),
            drafting=drafting,
            memory_digest=self._drafter.memory_digest,
            line=line,
            connection=self._connection,
            draft=self._draft,
        )

    def _finish(self, message_id: str, reply: Reply | None, status: FinalStatus) -> Failed | None:
        """Stores what there is; what went wrong where that is impossible."""
        try:
            if reply is None:
                self.store.finish(message_id, (), (), "", status, {})
            else:
                answer, stats = reply.answer, {**asdict(reply.stats), "tau": reply.stats.tau}
                self.store.finish(message_id, answer.tokens, answer.provenance, answer.text, status, stats)
        except StorageError as error:
            return Failed(str(error), "internal")
        return None


def _outcome(reply: Reply) -> tuple[FinalStatus, Done]:
    assert reply.reason is not None
    stopped = reply.reason == "stopped"
    tokens, provenance = tuple(reply.answer.tokens), tuple(reply.answer.provenance)
    return "stopped" if stopped else "done", Done(stopped, reply.reason, tokens, provenance, reply.stats)
