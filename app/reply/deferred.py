"""The assistant as the screen has it from the first frame on: conversations can be read at once, answers follow.

What the assistant needs takes the better part of a second (numpy, ONNX Runtime, the drafter's weights), and none of it
is on the first frame. A part that cannot be loaded closes no window: what is stored stays readable, and whoever asks
is told what to mend.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from app.events import Done, Event, Failed, ModeChanged, Started, Stats
from app.exits import code_of
from app.log import note
from app.sanitise import sanitise
from storage import FinalStatus, Message, Queued, StorageError, Store

if TYPE_CHECKING:
    from app.config import Folders, Settings
    from app.drafting.context import Context
    from app.remotes.connection import Source
    from app.reply.assistant import Assistant

log = logging.getLogger("outrider.start")


class NotStarted(Exception):
    """There is no assistant, and the text says why."""


class Stopped(NotStarted):
    """The person does not want to wait for it."""


class Starting:
    """A core for the screen over an open store. Nothing is loaded before `start`."""

    def __init__(self, store: Store, settings: Settings, folders: Folders) -> None:
        self.store = store
        self.outbox = EarlyOutbox(self)
        # A window is there when the server is back; a command is not.
        self._settings = settings.replaced({"offline": settings.offline or "queue"}, "the screen")
        self._folders = folders
        self._begun = asyncio.Event()
        self._closing = asyncio.Event()
        self._stopped = asyncio.Event()
        self._assistant: asyncio.Future[Assistant] = asyncio.get_running_loop().create_future()
        self._holding: asyncio.Task[None] | None = None
        self._chosen: list[Source | None] = []
        """Whom to ask, as the person said it before there was an assistant."""

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
            self._assistant.exception()  # Whoever asked was told; nobody need have asked.

    def start(self) -> None:
        """Begin to load, in the background."""
        self._begun.set()

    async def assistant(self) -> Assistant:
        """The assistant as soon as it is there. Raises `NotStarted`."""
        return await asyncio.shield(self._assistant)

    @property
    def present(self) -> Assistant | None:
        """The assistant where it is there."""
        future = self._assistant
        return future.result() if future.done() and future.exception() is None else None

    async def _hold(self) -> None:
        """Opens the assistant, and keeps it for as long as the program runs."""
        await self._begun.wait()
        if self._closing.is_set():
            return
        try:
            opening = await asyncio.to_thread(import_module, "app.reply.bootstrap")
            source = opening.usable_source(self._settings, self._folders)
            async with opening.assistant_on(self.store, self._settings, self._folders, source, early=True) as assistant:
                for source in self._chosen[-1:]:
                    assistant.use(source)
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

    # ---- what the screen asks for ------------------------------------------------------------------------------------

    def status(self) -> ModeChanged:
        if assistant := self.present:
            return assistant.status()
        if self._assistant.done():
            return ModeChanged("offline", str(self._assistant.exception()))
        return ModeChanged("warming", "the drafter is being loaded")

    def use(self, source: Source | None) -> None:
        """Ask this verifier from now on, or as soon as there is anything to ask for."""
        if assistant := self.present:
            assistant.use(source)
        else:
            self._chosen.append(source)

    async def changes(self) -> AsyncGenerator[ModeChanged, None]:
        try:
            assistant = await self.assistant()
        except NotStarted:
            yield self.status()
            return
        yield assistant.status()
        async for change in assistant.changes():
            note(change)
            yield change

    def context(self, conversation_id: str) -> Context | None:
        assistant = self.present
        return None if assistant is None else assistant.context(conversation_id)

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        if assistant := self.present:
            return assistant.drafted_spans(message)
        text = sanitise(message.text)
        return [(0, len(text))] if not any(message.provenance) else []

    def stop(self) -> None:
        if assistant := self.present:
            assistant.stop()
        else:
            self._stopped.set()

    def reply(self, conversation_id: str, prompt: str) -> AsyncIterator[Event]:
        if self.present is not None:
            return self.events(lambda assistant: assistant.reply(conversation_id, prompt))

        def ask() -> Message:
            return self.store.messages.ask(
                conversation_id, prompt, parent_id=self.store.conversations.get(conversation_id).tip_id
            )

        return self._asked(ask)

    def edit(self, message_id: str, text: str) -> AsyncIterator[Event]:
        if self.present is not None:
            return self.events(lambda assistant: assistant.edit(message_id, text))

        def ask() -> Message:
            question = self.store.messages.get(message_id)
            return self.store.messages.ask(question.conversation_id, text, parent_id=question.parent_id)

        return self._asked(ask)

    def regenerate(self, message_id: str) -> AsyncIterator[Event]:
        return self.events(lambda assistant: assistant.regenerate(message_id))

    def resume(self, message_id: str) -> AsyncIterator[Event]:
        return self.events(lambda assistant: assistant.resume(message_id))

    def verify(self, message_id: str) -> AsyncIterator[Event]:
        return self.events(lambda assistant: assistant.verify(message_id))

    async def _asked(self, ask: Callable[[], Message]) -> AsyncGenerator[Event, None]:
        """The events of a question that `ask` stores at once, so that no kill takes it while nobody can answer yet."""
        try:
            answer = ask()
        except StorageError as error:
            yield Failed(str(error), "internal")
            return
        assistant: Assistant | None = None
        status: FinalStatus = "stopped"  # Stays where nobody waits any more.
        last: Event = Done(True, "stopped", (), (), Stats())
        try:
            yield Started(answer.conversation_id, answer.id)
            assistant = await self._unless_stopped()
        except Stopped:
            pass  # That is what `last` says.
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
                if not isinstance(event, Started):
                    note(event)
                    yield event

    async def events(self, begin: Callable[[Assistant], AsyncGenerator[Event, None]]) -> AsyncGenerator[Event, None]:
        """The events of what `begin` begins, as soon as there is an assistant to begin it."""
        try:
            assistant = self.present or await self._unless_stopped()
        except NotStarted as error:
            yield Failed(str(error), "internal")
            return
        async with contextlib.aclosing(begin(assistant)) as events:
            async for event in events:
                note(event)
                yield event

    async def _unless_stopped(self) -> Assistant:
        """Raises `NotStarted` where there is none, or the person does not want to wait for it."""
        self._stopped.clear()
        coming, stopped = asyncio.ensure_future(self.assistant()), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((coming, stopped), return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
            raise Stopped("Stopped before it was begun.")
        finally:
            for wait in (coming, stopped):
                wait.cancel()
            await asyncio.gather(coming, stopped, return_exceptions=True)


class EarlyOutbox:
    """The queue of the store while there is no assistant, and its outbox as soon as there is one."""

    def __init__(self, core: Starting) -> None:
        self._core = core

    def enqueue(self, conversation_id: str, prompt: str) -> Queued:
        """Raises `StorageError`."""
        assistant = self._core.present
        return (assistant.outbox.enqueue if assistant else self._core.store.queue.add)(conversation_id, prompt)

    def enqueue_verification(self, message_id: str) -> Queued:
        """Raises `StorageError`."""
        assistant = self._core.present
        return (assistant.outbox.enqueue_verification if assistant else self._core.store.queue.add_verification)(
            message_id
        )

    def queued(self) -> list[Queued]:
        """Raises `StorageError`."""
        return self._core.store.queue.all()

    def unqueue(self, queued_id: str) -> Queued:
        """Raises `StorageError`."""
        return self._core.store.queue.remove(queued_id)

    async def due(self) -> AsyncGenerator[Queued, None]:
        try:
            assistant = await self._core.assistant()
        except NotStarted:
            return
        async for queued in assistant.outbox.due():
            yield queued

    def send(self, queued: Queued) -> AsyncIterator[Event]:
        return self._core.events(lambda assistant: assistant.outbox.send(queued))
