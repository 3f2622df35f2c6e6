"""The assistant: questions in, events out, for the screen, the commands, the gateway and the benchmarks.

A question is stored before anything is loaded or sent, and its answer after each round, so a crash loses at most the
round in flight. In each conversation one reply runs at a time, and over all of them as many as each server takes.

What writes the answers (`app/reply/backend.py`: numpy, ONNX Runtime, the drafter's weights) takes most of a second to
load. A window loads it in the background, and can read conversations meanwhile. If it cannot be loaded, the window
stays open and says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from app.concurrency import first_of, unless_set
from app.events import Done, Event, Failed, ModeChanged, StandIn, Started, Stats, Verified
from app.exits import code_of
from app.log import note
from app.reply.errors import NoAnswer
from app.reply.outbox import Outbox
from app.sanitise import sanitise
from storage import Attachment, Choices, FinalStatus, Message, NotFound, Queued, StorageError, Store
from storage.choices import NONE

if TYPE_CHECKING:
    from app.drafting.prompt import Context
    from app.remotes.offers import Offer
    from app.remotes.source import Source
    from app.reply.backend import Backend
    from app.reply.call_desk import Decision
    from app.reply.request import Request
    from app.reply.routing import Options
    from app.tools.tool import Tools

log = logging.getLogger("outrider.start")
LOOK_SECONDS = 1.0
"""Pause between two looks at an answer that another program writes."""


class NotLoaded(Exception):
    """There is no backend; the text says why."""


class Assistant:
    def __init__(self, store: Store, options: Options | Callable[[Choices], Awaitable[Options]]) -> None:
        """`options` may be a function that loads them after `start`, given the choices of the open conversation."""
        self.store = store
        self.outbox = Outbox(store)
        self._load: Callable[[Choices], Awaitable[Options]] | None = None
        self._loading: asyncio.Task[None] | None = None
        self._backend: Backend | None = None
        self._trouble = ""
        """Why the backend could not be loaded."""
        self._ready = asyncio.Event()
        """Set when it is loaded, or never will be."""
        self._replies: dict[str, asyncio.Event] = {}
        """For each conversation with a running reply: set to end it as soon as possible, with its text so far."""
        self._asked = asyncio.Event()
        """Set when a question is asked: a title that is being written gives way to it."""
        self._shown = NONE
        """The choices of the open conversation."""
        self._chosen: tuple[Source | None, ...] = ()
        """The server that replaces the one of the options, if one was chosen before they were loaded."""
        if callable(options):
            self._load = options
        else:
            self._open(options)

    async def __aenter__(self) -> Self:
        if self._load is None:
            self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- the backend -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load the backend and to connect; returns at once."""
        if self._backend is not None:
            self._backend.start()
        elif self._load is not None and self._loading is None:
            self._loading = asyncio.create_task(self._load_backend(self._load))

    async def close(self) -> None:
        """Release the servers, and end one that was started here."""
        if self._loading is not None:
            await self._loading
        if self._backend is not None:
            await self._backend.close()

    @property
    def backend(self) -> Backend:
        """The backend, which writes the answers. Raises `NotLoaded`."""
        if self._backend is None:
            raise NotLoaded(self._trouble or "loading the small model")
        return self._backend

    @property
    def loaded(self) -> bool:
        return self._backend is not None

    async def until_loaded(self) -> Backend:
        """The backend as soon as it is loaded, which then begins to connect. Raises `NotLoaded`."""
        await self._ready.wait()
        self.backend.start()
        return self.backend

    def _open(self, options: Options) -> None:
        from app.reply.backend import Backend

        self._backend = Backend(self.store, options, self.outbox)
        self._ready.set()

    async def _load_backend(self, load: Callable[[Choices], Awaitable[Options]]) -> None:
        try:
            options = await load(self._shown)
            for source in self._chosen:
                options = replace(options, source=source)
            self._open(options)
            self.follow(self._shown)
            self.start()
            gc.freeze()  # Its modules stay, and garbage collections would take 100 ms to walk through them all.
        except Exception as error:  # Whatever the error, conversations can still be read.
            log.error("the assistant did not start", exc_info=error)
            foreseen = code_of(error) is not None
            why = str(error) if foreseen else f"Outrider could not start ({type(error).__name__}); see: outrider log"
            self._trouble = sanitise(why)
            self._ready.set()

    # ---- who answers -------------------------------------------------------------------------------------------------

    def use(self, source: Source | None) -> None:
        """Switch to this server, or to the drafter alone if None, in conversations without their own server.

        A running reply finishes over its own connection.
        """
        if self._backend is not None:
            self._backend.routing.use(source)
        else:
            self._chosen = (source,)

    @property
    def standing_by(self) -> StandIn | None:
        """The model on this device that answers while the server of the open conversation is away, if one does."""
        return None if self._backend is None else self._backend.routing.standing_by

    @property
    def missed(self) -> str | None:
        """Name of the open conversation's server if that is away and nobody may answer in its place, or None."""
        return None if self._backend is None else self._backend.routing.missed

    async def stand_by(self, name: str | None) -> None:
        """Let this model on this device answer while a server is away. None: do what the settings say without one."""
        with contextlib.suppress(NotLoaded):
            (await self.until_loaded()).routing.stand_by(name)

    def follow(self, choices: Choices) -> None:
        """Connect to the server of the newly opened conversation, which has these choices."""
        self._shown = choices
        if self._backend is not None:
            self._backend.routing.follow(choices)

    def status(self) -> ModeChanged:
        """The mode now, and why."""
        if self._backend is not None:
            return self._backend.routing.status()
        if self._ready.is_set():
            return ModeChanged("offline", self._trouble)
        return ModeChanged("warming", "loading the small model")

    async def settled(self, conversation_id: str | None = None) -> ModeChanged:
        """The mode once the first connection to a conversation's server has been made or has failed.

        The open conversation's server is meant unless an id is given. Raises `StorageError`.
        """
        routing = (await self.until_loaded()).routing
        connection = routing.shown if conversation_id is None else routing.connection_of(conversation_id)
        while connection is not None and connection.warming:
            await connection.changed()
        return self.status()

    async def changes(self, replying: Callable[[], bool] | None = None) -> AsyncGenerator[ModeChanged, None]:
        """Yields the mode once the backend is loaded, and after each later change, while no reply runs.

        A reply reports who writes it; the mode follows when it has ended, because a server may be back that it left.
        `replying`: whether a reply runs that counts; by default, any.
        """
        try:
            routing = (await self.until_loaded()).routing
        except NotLoaded:
            yield self.status()
            return
        # The mode now comes first: it may have changed since the reader looked, and is not reported again.
        connection, unsaid = routing.shown, True
        while True:
            change = None if connection is None else connection.change
            if unsaid and not (self.replying if replying is None else replying()):
                unsaid = False
                note(status := self.status())
                yield status
            if connection is routing.shown:  # Otherwise `use` was called while nobody listened.
                await first_of(self.outbox.stirred(), *([] if change is None else [change.wait()]))
            # Two simultaneous events wake this up only once, so the change is checked whatever ended the wait.
            changed = change is not None and change.is_set()
            unsaid = unsaid or changed or connection is not routing.shown
            connection = routing.shown

    def stays_here(self) -> bool:
        """Whether questions stay on this device; False while that is unknown."""
        return self._backend is not None and self._backend.routing.stays_here

    @property
    def offer(self) -> Offer | None:
        """The small model offered by the open conversation's server, if it is not on this device yet."""
        return None if self._backend is None else self._backend.routing.offer

    async def fetch_offered(self, progress: Callable[[int, int], None]) -> None:
        """Download that small model, and start drafting with it.

        `progress` is called with the bytes received so far and the total. Raises `RemoteError`, `SourceFailed`,
        `NotLoaded`.
        """
        await (await self.until_loaded()).routing.fetch_offered(progress)

    async def news(self) -> list[tuple[str, str]]:
        """Messages to show once about small models that came without figures: a key and a sentence for each.

        Waits until they are measured.
        """
        try:
            return await (await self.until_loaded()).routing.news()
        except NotLoaded:
            return []

    # ---- what is stored ----------------------------------------------------------------------------------------------

    def context(self, conversation_id: str) -> Context | None:
        """How much of the context window the shown branch takes, without an answer that is being written.

        None if unknown, because the backend is not loaded or no model that reads tokens answers. Any thread may call
        it. Raises `StorageError`.
        """
        return None if self._backend is None else self._backend.context(conversation_id)

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Spans of an answer's unverified characters; none if its tokens do not show them.

        Before the backend is loaded, either the whole answer or nothing.
        """
        if self._backend is not None:
            return self._backend.drafted_spans(message)
        text = sanitise(message.text)
        return [(0, len(text))] if not any(message.provenance) else []

    # ---- one reply ---------------------------------------------------------------------------------------------------

    @property
    def replying(self) -> bool:
        return bool(self._replies)

    async def entitle(self, conversation_id: str) -> str | None:
        """Ask the model for a title of a conversation, if it is new and that costs nothing; None if its title stays.

        Raises `StorageError`.
        """
        if self._backend is None or self._replies or self.outbox.queued():
            return None
        from app.reply.model_title import give_title

        routing = self._backend.routing
        if self._asked.is_set():
            self._asked = asyncio.Event()
        connection = routing.present(conversation_id)  # No server is started, or connected to, for a title.
        return await unless_set(self._asked, give_title(self.store, connection, conversation_id, routing.titles))

    def has_room(self, conversation_id: str | None) -> bool:
        """Whether a reply in this conversation, or in a new one if None, could begin now. Raises `StorageError`.

        Otherwise it would wait until another one has ended: in the same conversation, or of the same server.
        """
        if conversation_id in self._replies:
            return False
        if self._backend is None:
            return not self._replies
        return self._backend.routing.has_room(conversation_id, self.outbox.busy(self._replies))

    def stop(self, conversation_id: str | None = None) -> None:
        """End the running reply of a conversation, or all of them if None. Each keeps its text so far."""
        for conversation, stopping in self._replies.items():
            if conversation_id in (None, conversation):
                stopping.set()

    def decide(self, conversation_id: str, place: int, decision: Decision) -> None:
        """Answer a `ToolCalled` that asks. `place`: of the call in its answer. Ignored if it asks no longer."""
        if self._backend is not None:
            self._backend.decide(conversation_id, place, decision)

    async def tools(self) -> Tools:
        """The MCP servers that the person has added, none of which is started by this. Raises `NotLoaded`."""
        try:
            tools = await (await self.until_loaded()).tools()
        except NoAnswer as error:
            raise NotLoaded(str(error)) from None
        if tools is None:
            raise NotLoaded("this program uses no MCP servers")
        return tools

    def reply(
        self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()
    ) -> AsyncGenerator[Event, None]:
        """Store a question, answer it, store the answer. The last event is `Done` or `Failed`.

        Leaving the iterator early stops the reply and stores its text so far.
        """

        def ask() -> Message:
            tip = self.store.conversations.get(conversation_id).tip_id
            return self.store.messages.ask(conversation_id, prompt, parent_id=tip, attachments=attachments)

        return self._events(conversation_id=conversation_id, ask=ask)

    def edit(self, message_id: str, text: str, attachments: Sequence[Attachment] = ()) -> AsyncGenerator[Event, None]:
        """Store another wording of a question next to it, and answer that; the new branch is shown."""

        def ask() -> Message:
            asked = self.store.messages.get(message_id)
            if asked.role != "user":
                raise NoAnswer("Only a question can be edited; ask for another answer instead.", "internal")
            return self.store.messages.ask(
                asked.conversation_id, text, parent_id=asked.parent_id, attachments=attachments
            )

        return self._events(ask=ask, about=message_id)

    def answer(self, message: Message) -> AsyncGenerator[Event, None]:
        """Write the answer that a pending message is to become."""
        return self._events(conversation_id=message.conversation_id, ask=lambda: message)

    def regenerate(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Answer the question of this answer, or this question, once more; the new answer is shown.

        It is sampled according to the settings. If their temperature is 0 and the greedy answer already exists, the
        temperature is 0.8. So if the drafter gave the answer, the target, if available, simply answers greedily.
        """
        return self._events(lambda backend: backend.another_answer(message_id), about=message_id)

    def resume(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Continue an answer that was stopped, failed on the way, or reached its limit.

        The new answer is stored next to that one, begins with its tokens and is shown instead. It is sampled in the
        same way, and may get as many additional tokens as a new answer. Verified tokens stay verified. Drafted ones are
        sent as a draft if the target is available; `Judged`, before `Done`, reports what was kept.
        """
        return self._events(lambda backend: backend.rest(message_id), about=message_id)

    async def sum_up(self, conversation_id: str) -> AsyncGenerator[Event, None]:
        """Have the model summarise all but the last turns. Once complete, the summary replaces them in later prompts.

        The messages stay. Until then, and if it fails or is stopped, prompts are as before. Tools are not called. If
        the model cannot read that much, the turns are summed up in parts: the first ones, then their summary with the
        next ones. Each part counts as soon as it is complete, also if a later one fails or is stopped.
        """
        parts = 1

        def request(backend: Backend) -> Request:
            return backend.summary(conversation_id, parts)

        with self._reply_in(conversation_id) as stopping:
            while True:
                last: Event | None = None
                written = False
                async with contextlib.aclosing(self._answer(conversation_id, stopping, request, None)) as events:
                    async for event in events:
                        if isinstance(event, Done | Failed):
                            last = event
                        else:
                            written = written or (isinstance(event, Verified) and bool(event.text))
                            yield event
                if (isinstance(last, Failed) and last.code == "too_long") or (isinstance(last, Done) and last.full):
                    parts *= 2
                elif parts > 1 and isinstance(last, Done) and last.reason == "end":
                    parts = 1  # The rest, with the summary of this part.
                else:
                    if last is not None:
                        yield last
                    return
                if written:
                    yield Verified("\n\n", 0, 0)
                if stopping.is_set():
                    yield Done(True, "stopped", (), (), Stats())
                    return

    def verify(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Verify a stored answer: its drafted tokens are sent as a draft, and the target continues from there.

        The new answer is stored next to that one, which stays unchanged, and is shown instead unless other messages
        follow it. `Judged`, before `Done`, reports what was kept. Without a server it is `Failed`, and nothing is
        stored. An OpenAI-compatible server checks no drafts: it answers again, and the two texts are compared.
        """
        return self._events(lambda backend: backend.verification(message_id), about=message_id)

    def send(self, queued: Queued) -> AsyncGenerator[Event, None]:
        """Answer or verify an entry of the queue; no events if another program was faster.

        It leaves the queue once the target has answered, or never can. If the line is lost meanwhile, the drafter may
        finish the answer, which then waits to be verified. An entry that follows a reply leaves it at once, and is then
        like any other question.
        """
        self.outbox.begin(queued)
        return self._send(queued)

    async def _send(self, queued: Queued) -> AsyncGenerator[Event, None]:
        started, last = queued.message_id is not None, None
        events = self._events(
            lambda backend: backend.queued_answer(queued),
            conversation_id=queued.conversation_id,
            about=queued.message_id,
        )
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    started, last = started or isinstance(event, Started), event
                    yield event
            if started:
                self.outbox.sent(queued.id, failed=isinstance(last, Failed))
        finally:
            self.outbox.end(queued)

    async def due(self) -> AsyncGenerator[Queued, None]:
        """The entries to `send` now, one after another; see `Outbox.due`."""
        with contextlib.suppress(NotLoaded):
            routing = (await self.until_loaded()).routing
            entries = self.outbox.due(routing.connection_of, lambda: self._replies, routing.stands_in, routing.has_room)
            async with contextlib.aclosing(entries) as due:
                async for queued in due:
                    yield queued

    async def _events(
        self,
        request: Callable[[Backend], Request | None] | None = None,
        *,
        ask: Callable[[], Message] | None = None,
        conversation_id: str | None = None,
        about: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one answer. All requests to an assistant go through here, but those for summaries.

        `ask` stores a question at once, so that a kill while the program loads does not lose it, and returns its
        pending answer. `request` stores any other pending answer, or returns None if there is nothing to write.
        `about`: id of the message that is answered again, continued or checked; its conversation is meant unless an id
        is given. The answer waits while another program writes one above its place. Raises `RuntimeError` while another
        reply runs in the conversation.
        """
        try:
            if conversation_id is None:
                conversation_id = self.store.messages.get(about or "").conversation_id
        except StorageError as error:
            yield Failed(str(error), "internal")
            return
        with self._reply_in(conversation_id) as stopping:
            async with contextlib.aclosing(self._answer(conversation_id, stopping, request, ask, about)) as events:
                async for event in events:
                    yield event

    @contextlib.contextmanager
    def _reply_in(self, conversation_id: str) -> Iterator[asyncio.Event]:
        """Make a reply the running one of its conversation; yields what is set to stop it.

        Raises `RuntimeError` while another reply runs there.
        """
        if conversation_id in self._replies:
            raise RuntimeError("one reply at a time in a conversation: stop the running one, or wait for it")
        self._asked.set()
        stopping = self._replies[conversation_id] = asyncio.Event()
        try:
            yield stopping
        finally:
            del self._replies[conversation_id]
            self.outbox.stir()

    async def _answer(
        self,
        conversation_id: str,
        stopping: asyncio.Event,
        request: Callable[[Backend], Request | None] | None,
        ask: Callable[[], Message] | None,
        about: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        pending: Message | None = None
        written: Request | None = None
        last: Done | Failed | None = None
        early = False
        try:
            pending = None if ask is None else ask()
            if pending is not None and self._backend is None:
                early = True
                yield Started(pending.conversation_id, pending.id)
            about = self._place(conversation_id, about) if pending is None else pending.id
            async with contextlib.aclosing(self._until_room(conversation_id, about, stopping)) as waiting:
                async for why in waiting:
                    if pending is not None and not early:
                        early = True
                        yield Started(pending.conversation_id, pending.id)
                    yield why
            if not stopping.is_set():
                if pending is not None:
                    written = self.backend.new_answer(pending)
                elif request is not None:
                    written = request(self.backend)
            elif pending is not None:
                last = Done(True, "stopped", (), (), Stats())
            else:
                last = Failed("Stopped before it began.", "internal")
        except NoAnswer as error:
            last = error.event
        except (NotLoaded, StorageError) as error:
            last = Failed(str(error), "internal")
        finally:
            if pending is not None and written is None:
                with contextlib.suppress(StorageError):  # It is then recovered when the store is opened again.
                    status: FinalStatus = "failed" if isinstance(last, Failed) else "stopped"
                    self.store.messages.finish(pending.id, (), (), "", status, {})
        if written is None:
            if last is not None:
                note(last)
                yield last
            return
        async with contextlib.aclosing(self.backend.write(written, stopping)) as events:
            async for event in events:
                if not (early and isinstance(event, Started)):
                    note(event)
                    yield event

    def _place(self, conversation_id: str, about: str | None) -> str | None:
        """The message that the answer follows: `about`, or else the newest one that is shown."""
        if about is None:
            with contextlib.suppress(NotFound):  # Whoever writes the answer says so.
                return self.store.conversations.get(conversation_id).tip_id
        return about

    async def _until_room(
        self, conversation_id: str, about: str | None, stopping: asyncio.Event
    ) -> AsyncGenerator[ModeChanged, None]:
        """Wait until the backend is loaded, the conversation's server has room for a reply and no other program writes
        an answer above the message `about`, or until `stopping`.

        Yields why it waits for room, once, if it does, and the plain status if it is stopped. Raises `NotLoaded`,
        `StorageError`.
        """
        if not self._ready.is_set() and not stopping.is_set():
            await first_of(stopping.wait(), self._ready.wait())
        routing, told = None if stopping.is_set() else (await self.until_loaded()).routing, False
        while routing is not None and not stopping.is_set():
            elsewhere = about is not None and self.store.messages.written_elsewhere(about)
            if not elsewhere and routing.has_room(conversation_id, [one.conversation for one in routing.running]):
                return
            if not told:
                told = True
                yield replace(self.status(), why="waits until another answer has ended")
                continue  # While the reader had it, the other answer may have ended.
            await first_of(stopping.wait(), self.outbox.stirred(), timeout=LOOK_SECONDS if elsewhere else None)
            if elsewhere:
                with contextlib.suppress(StorageError):
                    await asyncio.to_thread(self.store.messages.recover)  # That program may have died.
        if told:
            yield self.status()  # It waits no more.
