"""The core of the screen from the first frame on. Conversations can be read at once; answers follow.

What the assistant needs (numpy, ONNX Runtime, the drafter's weights) takes most of a second to load, and none of it is
needed for the first frame. If a part cannot be loaded, the window stays open: what is stored stays readable, and a
person who asks is told what to mend.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from app.concurrency import first_of
from app.events import Done, Event, Failed, ModeChanged, Started, Stats
from app.exits import code_of
from app.log import note
from app.reply import question
from app.reply.errors import NoAnswer
from app.sanitise import sanitise
from storage import Attachment, Choices, FinalStatus, Message, Queued, StorageError, Store

if TYPE_CHECKING:
    from app.config import Folders, Settings
    from app.drafting.prompt import Context
    from app.remotes.offers import Offer
    from app.remotes.source import Source
    from app.reply.assistant import Assistant

log = logging.getLogger("outrider.start")


class NotStarted(Exception):
    """There is no assistant, and the text says why."""


class DeferredCore:
    """An assistant for the screen over an open store. It is loaded in the background, after `start`.

    A question is stored as soon as it is asked, and answered as soon as the assistant is there.
    """

    def __init__(self, store: Store, settings: Settings, folders: Folders, model: str | None = None) -> None:
        """`model`: the model to ask the server of the settings for, if the command line names one."""
        self.store = store
        self.outbox = DeferredOutbox(self)
        # A window is still there when the server is back, so a question may wait; a command has ended by then.
        self._settings = settings.replaced({"offline": settings.offline or "queue"}, "the screen")
        self._folders = folders
        self._model = model
        self._shown = Choices()
        """What was chosen for the conversation that is open."""
        self._begun = asyncio.Event()
        self._closing = asyncio.Event()
        self._stopped = asyncio.Event()
        """The person has stopped the question that waits for the assistant."""
        self._assistant: asyncio.Future[Assistant] = asyncio.get_running_loop().create_future()
        self._holding: asyncio.Task[None] | None = None
        self._chosen: list[Source | None] = []
        """The remotes that the person chose before there was an assistant."""

    async def __aenter__(self) -> Self:
        self._holding = asyncio.create_task(self._hold())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._begun.set()
        if self._holding is not None:
            await self._holding
        if self._assistant.done():
            self._assistant.exception()  # Take it, or asyncio complains that nobody did.

    def start(self) -> None:
        """Begin to load the assistant in the background."""
        self._begun.set()

    async def assistant(self) -> Assistant:
        """The assistant, as soon as it is loaded. Raises `NotStarted`."""
        return await asyncio.shield(self._assistant)

    @property
    def present(self) -> Assistant | None:
        """The assistant if it is loaded."""
        future = self._assistant
        return future.result() if future.done() and future.exception() is None else None

    async def _hold(self) -> None:
        """Open the assistant, and keep it open for as long as the program runs."""
        await self._begun.wait()
        if self._closing.is_set():
            return
        try:
            if self._model is None and self._shown.remote is None:
                # First of all: the server loads its own modules and model while this process loads what it needs.
                import_module("app.remotes.own_server").start_ahead(self._settings, self._folders)
            bootstrap = await asyncio.to_thread(import_module, "app.reply.bootstrap")
            source = import_module("app.remotes.choice").usable_source(self._settings, self._folders, self._model)
            opening = bootstrap.assistant_on(
                self.store, self._settings, self._folders, source, early=True, shown=self._shown
            )
            async with opening as assistant:
                for source in self._chosen[-1:]:
                    assistant.use(source)
                assistant.follow(self._shown)
                gc.freeze()  # Its modules stay, and collections would take 100 ms to walk through them all.
                self._assistant.set_result(assistant)
                await self._closing.wait()
        except Exception as error:  # Whatever it is, conversations can still be read.
            if self._assistant.done():
                raise
            log.error("the assistant did not start", exc_info=error)
            foreseen = code_of(error) is not None
            why = str(error) if foreseen else f"Outrider could not start ({type(error).__name__}); see: outrider log"
            self._assistant.set_exception(NotStarted(sanitise(why)))

    # ---- what the screen reads ---------------------------------------------------------------------------------------

    def status(self) -> ModeChanged:
        """The mode now, and why."""
        if assistant := self.present:
            return assistant.status()
        if self._assistant.done():
            return ModeChanged("offline", str(self._assistant.exception()))
        return ModeChanged("warming", "the small model is being loaded")

    async def changes(self) -> AsyncGenerator[ModeChanged, None]:
        """The mode as soon as the assistant is there, and each later change of it that no reply reports."""
        try:
            assistant = await self.assistant()
        except NotStarted:
            yield self.status()
            return
        async for change in assistant.changes():
            note(change)
            yield change

    def context(self, conversation_id: str) -> Context | None:
        """How much of the context window the shown branch takes; None: not known yet. Raises `StorageError`."""
        assistant = self.present
        return None if assistant is None else assistant.context(conversation_id)

    @property
    def offer(self) -> Offer | None:
        """The small model that the open conversation's server offers, and that is not here."""
        return None if self.present is None else self.present.offer

    async def fetch_offered(self, progress: Callable[[int, int], None]) -> None:
        """Fetch that small model, and draft with it from then on; see `Assistant.fetch_offered`."""
        await (await self.assistant()).fetch_offered(progress)

    async def news(self) -> list[tuple[str, str]]:
        """What the person is told once of the small models here, when it is known: a name for it, and a sentence."""
        try:
            return await (await self.assistant()).news()
        except NotStarted:
            return []

    def stays_here(self) -> bool:
        """Whether what is asked stays on this device; False while that is not known."""
        return self.present is not None and self.present.stays_here()

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Spans of an answer's characters that nobody verified. Without an assistant: all of them or none."""
        if assistant := self.present:
            return assistant.drafted_spans(message)
        text = sanitise(message.text)
        return [(0, len(text))] if not any(message.provenance) else []

    # ---- what the screen asks for ------------------------------------------------------------------------------------

    def use(self, source: Source | None) -> None:
        """Ask this verifier from now on; None: the drafter alone."""
        if assistant := self.present:
            assistant.use(source)
        else:
            self._chosen.append(source)

    def follow(self, choices: Choices) -> None:
        """A conversation with these choices is open now: its server answers."""
        self._shown = choices
        if assistant := self.present:
            assistant.follow(choices)

    def stop(self) -> None:
        """End the running reply, or the wait for the assistant."""
        self._stopped.set()
        if assistant := self.present:
            assistant.stop()

    def reply(self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> AsyncIterator[Event]:
        """Store a question and answer it."""
        return _noted(self._ask(lambda: question.ask(self.store, conversation_id, prompt, attachments)))

    def edit(self, message_id: str, text: str, attachments: Sequence[Attachment] = ()) -> AsyncIterator[Event]:
        """Store another wording of a question beside it, and answer that."""
        return _noted(self._ask(lambda: question.edit(self.store, message_id, text, attachments)))

    def regenerate(self, message_id: str) -> AsyncIterator[Event]:
        """See `Assistant.regenerate`."""
        return self.events(lambda assistant: assistant.regenerate(message_id))

    def resume(self, message_id: str) -> AsyncIterator[Event]:
        """See `Assistant.resume`."""
        return self.events(lambda assistant: assistant.resume(message_id))

    def verify(self, message_id: str) -> AsyncIterator[Event]:
        """See `Assistant.verify`."""
        return self.events(lambda assistant: assistant.verify(message_id))

    async def _ask(self, store: Callable[[], Message]) -> AsyncGenerator[Event, None]:
        """The events of a question that `store` stores at once, so that a kill while the program loads does not lose
        it."""
        if self.present is not None:
            self.present.check_idle()
        self._stopped.clear()
        try:
            answer = store()
        except NoAnswer as error:
            yield error.event
            return
        except StorageError as error:
            yield Failed(str(error), "internal")
            return
        early = self.present is None
        assistant: Assistant | None = None
        status: FinalStatus = "stopped"  # Stays if nobody waits any more.
        last: Event = Done(True, "stopped", (), (), Stats())
        try:
            if early:
                yield Started(answer.conversation_id, answer.id)
            assistant = await self._unless_stopped()
        except NotStarted as error:
            status, last = "failed", Failed(str(error), "internal")
        finally:
            if assistant is None:
                self.store.messages.finish(answer.id, (), (), "", status, {})
        if assistant is None:
            yield last
            return
        async with contextlib.aclosing(assistant.answer(answer)) as events:
            async for event in events:
                if not (early and isinstance(event, Started)):
                    yield event

    def events(self, begin: Callable[[Assistant], AsyncGenerator[Event, None]]) -> AsyncIterator[Event]:
        """The events of what `begin` begins, as soon as there is an assistant to begin it."""
        return _noted(self._begin(begin))

    async def _begin(self, begin: Callable[[Assistant], AsyncGenerator[Event, None]]) -> AsyncGenerator[Event, None]:
        self._stopped.clear()
        try:
            assistant = await self._unless_stopped()
        except NotStarted as error:
            yield Failed(str(error), "internal")
            return
        if assistant is None:
            yield Failed("Stopped before it was begun.", "internal")
            return
        async with contextlib.aclosing(begin(assistant)) as events:
            async for event in events:
                yield event

    async def _unless_stopped(self) -> Assistant | None:
        """The assistant as soon as it is there; None: the person does not want to wait. Raises `NotStarted`."""
        if not self._assistant.done() and not self._stopped.is_set():
            await first_of(self._stopped.wait(), asyncio.wait([self._assistant]))
        if self._stopped.is_set():
            return None
        return self._assistant.result()


async def _noted(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The events, each of which the log hears of."""
    async with contextlib.aclosing(events):
        async for event in events:
            note(event)
            yield event


class DeferredOutbox:
    """The queue of the store, which an assistant sends from as soon as there is one."""

    def __init__(self, core: DeferredCore) -> None:
        self._core = core

    def enqueue(self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> Queued:
        """Keep a prompt for the target, with what goes with it. Raises `StorageError`."""
        return self._stir(self._core.store.queue.add(conversation_id, prompt, attachments))

    def enqueue_verification(self, message_id: str) -> Queued:
        """Queue an answer to be verified when the verifier is there. Raises `StorageError`."""
        return self._stir(self._core.store.queue.add_verification(message_id))

    def queued(self) -> list[Queued]:
        """What waits, in its order. Raises `StorageError`."""
        return self._core.store.queue.all()

    def unqueue(self, queued_id: str) -> Queued:
        """Take something out. If it is being answered, it is not tried again. Raises `StorageError`."""
        return self._core.store.queue.remove(queued_id)

    async def due(self) -> AsyncGenerator[Queued, None]:
        """What is to be sent now, as soon as there is an assistant; see `Outbox.due`."""
        try:
            assistant = await self._core.assistant()
        except NotStarted:
            return
        async with contextlib.aclosing(assistant.outbox.due()) as due:
            async for queued in due:
                yield queued

    def send(self, queued: Queued) -> AsyncIterator[Event]:
        """Have something answered or verified; see `Outbox.send`."""
        return self._core.events(lambda assistant: assistant.outbox.send(queued))

    def _stir(self, queued: Queued) -> Queued:
        if assistant := self._core.present:
            assistant.outbox.stir()
        return queued
