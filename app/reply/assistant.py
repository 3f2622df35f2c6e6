"""The assistant: questions in, events out. The screen, `ask` and the benchmarks all read `Assistant.reply`.

A question is stored before anything is sent, and its answer after each round, so a crash loses at most the round in
flight. One reply runs at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from app.concurrency import first_of
from app.config import Settings
from app.drafting.calibrations import Calibrations
from app.drafting.drafting import Drafting
from app.drafting.fitness import Judged, judge_unmeasured
from app.drafting.pool import DraftingPool
from app.drafting.prompt import Context, context_of, context_told, least_length, marks_said
from app.events import Event, Failed, Mode, ModeChanged, RoundEnded, Started, SystemUnread
from app.remotes.choice import Server
from app.remotes.connection import EDGE_PATIENCE_SECONDS, PATIENCE_SECONDS, Connection
from app.remotes.connections import Connections
from app.remotes.known_server import memory_seen
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import MODES, Verifying
from app.remotes.offers import Offer
from app.remotes.peer import Endpoint
from app.remotes.source import Source, stays_here
from app.remotes.substitute import name_of, why_nobody
from app.reply import question
from app.reply.answer import INCOMPLETE
from app.reply.errors import NoAnswer, too_long
from app.reply.generation import Generation
from app.reply.judgement import nothing_to_verify, unverified
from app.reply.learnt import Learnt
from app.reply.outbox import Outbox
from app.reply.outcome import ReplyOutcome, completed, failed, save, stats_so_far
from app.reply.reply import Reply
from app.reply.request import CONTEXT_TOKENS, Request, new_answer, regenerate, resume, settings_for, verify
from app.reply.system_default import keep_default
from app.sanitise import sanitise
from app.system_prompts import SystemPrompts
from drafter.floors import why_no_drafts
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from models.config import DrafterError
from remote.clock import CLOCK, Clock
from storage import Attachment, Choices, Message, StorageBusy, StorageError, Store


class Assistant:
    """Answers questions in the conversations of a store, with the verifier at `source`.

    `source`: where the verifier is; None: the drafter alone. `draft=False`: the target alone, token by token.
    `modes`: what the mode `auto` may choose from. `seen`: which model was at which address before. `clock`: measures
    deadlines and pauses. `early`: the drafter writes what it is sure of while the verifier starts. `chosen`: the source
    of a server that was chosen for one conversation; None: `source` answers all conversations. `prompts`: the library
    of the default system prompts; None: conversations begin without one. `fixed`: settings that no conversation
    replaces. `drafters`: where the drafters of other models are; None: `drafter` drafts for all. `learnt`: the folder
    of what drafters learnt here; None: nobody learns.
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
        seen: LastSeen | None = None,
        clock: Clock = CLOCK,
        early: bool = False,
        chosen: Callable[[Server], Source | None] | None = None,
        prompts: SystemPrompts | None = None,
        fixed: Collection[str] = (),
        drafters: Drafters | None = None,
        learnt: Path | None = None,
    ) -> None:
        self.store = store
        self._prompts, self._fixed = prompts, frozenset(fixed)
        self._unread: set[str] = set()
        """Conversations of which it was said that their system prompt is not read."""
        self._drafters = drafters or Drafters(drafter)
        learnt = learnt if settings.learn else None
        self._learnt = Learnt(store, learnt)
        self._settings = settings
        self._draft = draft
        self._modes = modes
        self._seen = seen or LastSeen()
        self._clock = clock
        self._early = early
        self._connections = Connections(self._connect, source, chosen)
        self._leaving: set[asyncio.Task[None]] = set()
        """Connections that are closed as soon as the answer that comes over them is complete."""
        self._closed = False
        self._pool = DraftingPool(
            store, second_stage=settings.second_stage and draft, calibrations=Calibrations(learnt)
        )
        self._reply: Reply | None = None
        self._reading = False
        """A conversation is being read for the next reply."""
        self._stopped = False
        """The next reply is to end at once."""
        self._replying_over: Connection | None = None
        self._stands_in_for: Assistant | None = None
        self._judging: asyncio.Task[list[Judged]] | None = None
        """Measures the drafters that came to this device without figures."""
        self._halted = threading.Event()
        self.outbox = Outbox(self, clock)

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
        if self._judging is None:
            self._judging = asyncio.create_task(self._judge_drafters())

    async def close(self) -> None:
        """Let go of the servers, and end one that was started here."""
        self._closed = True
        self._halted.set()
        self.outbox.stir()
        if self._judging is not None:
            await self._judging
        await asyncio.gather(*self._leaving)
        await self._pool.quiet()
        await self._connections.close()
        await self._pool.close()

    # ---- who is asked ------------------------------------------------------------------------------------------------

    def use(self, source: Source | None) -> None:
        """Ask this server from now on, in each conversation for which no other was chosen; None: the drafter alone.

        Connects in the background. An answer in progress is finished over its own connection. Sessions, what was
        measured of the line, and the memory of open conversations begin anew, because all of it is another server's.
        """
        left = self._connections.use(source)
        self.start()
        self._let_go(left, self._reply)
        self.outbox.stir()

    def follow(self, choices: Choices) -> None:
        """A conversation with these choices is open now: connect to its server, in the background.

        Connections that nothing needs any more are closed.
        """
        self._connections.show(choices)
        self._close_unneeded()
        self.outbox.stir()

    def connection_of(self, conversation_id: str) -> Connection | None:
        """The connection to the server of a conversation, which has begun to connect; None: the drafter alone.

        Raises `StorageError`.
        """
        return self._connections.to(self.store.conversations.get(conversation_id).choices)

    @property
    def _connection(self) -> Connection | None:
        return self._connections.shown

    def _close_unneeded(self) -> None:
        for connection in self._connections.take_unneeded({self._replying_over, *self.outbox.awaited}):
            self._let_go(connection, None)

    def _let_go(self, connection: Connection | None, reply: Reply | None) -> None:
        """Close a connection in the background, when `reply` has ended."""
        leaving = asyncio.create_task(self._leave(connection, self._pool.drop(connection), reply))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _drafter_of(self, conversation_id: str) -> Drafter:
        """The drafter for the model that answers a conversation, or answered there last; else the first one.

        May read files. Raises `StorageError`.
        """
        choices = self.store.conversations.get(conversation_id).choices
        connection = self._connections.present(choices)
        memory = self._memory_alone(conversation_id, choices) if connection is None else connection.server.memory
        return self._drafters.of_memory(memory) or self._drafters.first

    def _memory_alone(self, conversation_id: str, choices: Choices) -> bytes | None:
        """The memory digest of the model that a conversation belongs to, where nobody connects to it; None: not known.

        Raises `StorageError`.
        """
        source = self._connections.source(choices)
        if source is None or source.own:
            return self.store.memory.last_used(conversation_id)
        return memory_seen(source, self._seen)

    def _nobody_by_choice(self, conversation_id: str) -> str | None:
        """Why no drafter may write in this conversation without a connection, as a sentence; None: one may.

        Raises `StorageError`.
        """
        choices = self.store.conversations.get(conversation_id).choices
        return self._nobody(self._connections.source(choices), self._memory_alone(conversation_id, choices))

    def _nobody(self, source: Source | None, memory: bytes | None) -> str | None:
        own = source is None or source.own
        return why_nobody(self._drafters, memory, own=own, anyway=self._settings.offline == "drafter")

    def _connect(self, source: Source | None) -> Connection | None:
        if source is None or self._settings.mode == "offline":
            return None
        patient = not self._draft or self._settings.mode != "auto"
        return Connection(
            source,
            drafters=self._drafters,
            seen=self._seen,
            # If nobody else can answer, there is no hurry to give up.
            patience=EDGE_PATIENCE_SECONDS if patient else PATIENCE_SECONDS,
            modes=self._modes,
            clock=self._clock,
            anyway=self._settings.offline == "drafter",
        )

    async def _leave(self, connection: Connection | None, drafting: list[Drafting], reply: Reply | None) -> None:
        """Close a connection when the reply that uses it has ended."""
        while reply is not None and self._reply is reply and not self._closed:
            await self.outbox.stirred()
        for each in drafting:
            await each.quiet()
        if connection is not None:
            await connection.close()

    # ---- drafters without figures ------------------------------------------------------------------------------------

    async def news(self) -> list[tuple[str, str]]:
        """What a person is told once of the drafters that came without figures: a name for it, and a sentence.

        Waits until they are measured.
        """
        self.start()
        assert self._judging is not None
        await asyncio.shield(self._judging)
        return self.news_by_now

    @property
    def news_by_now(self) -> list[tuple[str, str]]:
        """What `news` gives; nothing while they are being measured."""
        judged = self._judging.result() if self._judging is not None and self._judging.done() else []
        return [one.news for one in judged if one.news is not None]

    async def _judge_drafters(self) -> list[Judged]:
        judged = await asyncio.to_thread(judge_unmeasured, self.store, self._drafters, self._halted.is_set)
        usable = {bytes.fromhex(one.config.memory) for one in judged if why_no_drafts(one.config) is None}
        while usable and self.replying and not self._closed:
            await self.outbox.stirred()
        for connection in self._connections.open:
            if connection.server.memory in usable and isinstance(connection.verifier, Endpoint):
                connection.connect_again("the small model was measured")
        return judged

    # ---- mode --------------------------------------------------------------------------------------------------------

    def status(self) -> ModeChanged:
        """The mode now, and why."""
        connection = self._connection
        if connection is None:
            shown = self._connections.shown_source
            memory = memory_seen(shown, self._seen)
            alone = self._nobody(shown, memory) is None
            return ModeChanged("offline", "offline by choice", alone, self._writer(memory) if alone else "")
        if isinstance(connection.verifier, Endpoint):
            return connection.mode("hosted")
        if connection.verifier is not None:
            chosen = self._settings.mode
            mode: Mode = chosen if chosen in MODES else connection.speed.modes.mode
            return connection.mode(mode)
        if connection.warming:
            return connection.mode("warming")
        alone = not connection.refuses and connection.server.no_substitute is None
        return connection.mode("offline", alone=alone, writer=self._writer(connection.server.memory) if alone else "")

    def _writer(self, memory: bytes | None) -> str:
        """Name of the drafter that writes in the place of a model."""
        config = self._drafters.config(memory) if self._drafters.has(memory) else None
        return name_of(config or self._drafters.first.config)

    @property
    def replying(self) -> bool:
        """A reply runs."""
        return self._reading or self._reply is not None

    @property
    def fits(self) -> bool:
        """Whether the drafter was made for the model that answers, as far as is known; True if it answers alone."""
        return self._connection is None or self._connection.server.fits

    def no_server(self, conversation_id: str) -> Failed | None:
        """Why only the drafter could answer this conversation now; None: its server is there. Raises `StorageError`."""
        connection = self.connection_of(conversation_id)
        if connection is not None and connection.verifier is not None:
            return None
        return Failed(f"No server: {'offline by choice' if connection is None else connection.why}.", "unavailable")

    def _verifiable(self, message_id: str) -> Message:
        """A message that can be verified now. Raises `NoAnswer`, `StorageError`."""
        drafted = self.store.messages.get(message_id)
        if problem := self.no_server(drafted.conversation_id):
            raise NoAnswer(problem.message, problem.code)
        if not unverified(drafted):
            raise NoAnswer(nothing_to_verify(drafted), "internal")
        return drafted

    def _verification(self, drafted: Message) -> Request:
        """The request that has an answer verified. Raises `NoAnswer`, `StorageError`."""
        connection = self.connection_of(drafted.conversation_id)
        endpoint = connection is not None and isinstance(connection.verifier, Endpoint)
        # Only the rest is asked for if nothing of the answer was drafted here.
        anew = endpoint and not all(drafted.provenance)
        text = self._drafter_of(drafted.conversation_id).text
        return verify(self.store, self._settings_of(drafted.id), drafted, text, anew=anew)

    def context(self, conversation_id: str) -> Context | None:
        """How much of the context window the shown branch takes, without an answer that is being written.

        None: an OpenAI-compatible server answers, and does not say; or it is not known who answers, and no drafter may.
        Any thread may ask. Raises `StorageError`.
        """
        connection = self._connections.present(self.store.conversations.get(conversation_id).choices)
        verifier = None if connection is None else connection.verifier
        if connection is None:
            nobody = self._nobody_by_choice(conversation_id) is not None
        else:
            nobody = verifier is None and (connection.warming or connection.server.no_substitute is not None)
        if nobody:
            return None
        if isinstance(verifier, Endpoint):
            return context_told(self.store, conversation_id, verifier.model.max_model_len)
        guided = connection is None or connection.server.fits
        drafter = self._drafter_of(conversation_id)
        prompt = drafter.prompt if guided else None
        return context_of(self.store, drafter.text, conversation_id, self._most_read(connection), prompt)

    @property
    def offer(self) -> Offer | None:
        """The small model for the open conversation's server, which the server offers and which is not here."""
        return None if self._connection is None else self._connection.server.offer

    async def fetch_offered(self, progress: Callable[[int, int], None]) -> None:
        """Fetch that small model, and draft with it from then on.

        `progress` is called with the bytes that are here and those that there will be. Raises `RemoteError`,
        `SourceFailed`.
        """
        if self._connection is not None and self._drafters.shelf is not None:
            await self._connection.fetch(self._drafters.shelf, progress)

    def stays_here(self) -> bool:
        """Whether what is asked stays on this device."""
        return self._connection is None or stays_here(self._connection.source)

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Spans of an answer's characters that nobody verified; none if its tokens do not tell."""
        from app.archive.html_markdown import drafted_spans  # `ask` need not wait for Markdown.

        text, tokenizer = sanitise(message.text), self._drafter_of(message.conversation_id).text
        marks = marks_said(tokenizer, message)
        spelt = lambda tokens: marks.shown(tokenizer.decode(tokens))  # noqa: E731
        return drafted_spans(text, message.tokens, message.provenance, spelt)

    @property
    def most_read(self) -> int | None:
        """Most tokens of a conversation that are read, as far as is known.

        None: that is for a server to say which reads no tokens of ours, and it has not.
        """
        connection = self._connection
        if connection is not None and not connection.server.checks:
            return connection.server.most_read
        return self._most_read(connection)

    def stand_in_for(self, other: Assistant) -> None:
        """Write from now on what `other` would have gone on with: what its server reads counts here too."""
        self._stands_in_for = other

    def too_long(self, turns: Sequence[tuple[str, str]]) -> Failed | None:
        """Why a conversation that is not stored, (role, text), is surely too long; None: it may be short enough.

        Takes little time, however long it is. Any thread may ask.
        """
        connection = self._connection
        if connection is not None and (connection.warming or not connection.server.checks):
            return None  # A server that reads no tokens of ours says so itself.
        away = connection is None or connection.verifier is None
        limit = CONTEXT_TOKENS if away else self._most_read(connection)
        memory = None if connection is None else connection.server.memory
        drafter = self._drafters.of_memory(memory) or self._drafters.first
        prompt = drafter.prompt if self.fits else None
        try:
            if least_length(drafter.text, turns, prompt, limit) <= limit:
                return None
        except DrafterError:
            return None  # The answer will say what is wrong with the template.
        return too_long(limit).event

    def tokens_within(self, message: Message, length: int) -> int:
        """How many tokens of an answer its first `length` characters take."""
        tokenizer = self._drafter_of(message.conversation_id).text
        marks = marks_said(tokenizer, message)

        def characters(count: int) -> int:
            return len(sanitise(marks.shown(tokenizer.decode(message.tokens[:count])).rstrip(INCOMPLETE)))

        return bisect_left(range(len(message.tokens)), length, key=characters)

    async def settled(self, conversation_id: str | None = None) -> ModeChanged:
        """The mode as soon as the first connection to a conversation's server is made or has failed.

        None: to the server of the open one. Raises `StorageError`.
        """
        self.start()
        connection = self._connection if conversation_id is None else self.connection_of(conversation_id)
        while connection is not None and connection.warming:
            await connection.changed()
        return self.status()

    async def changes(self) -> AsyncGenerator[ModeChanged, None]:
        """The mode now, and each later change of it while no reply runs.

        A reply reports its own changes, except one by `use`. The mode now comes first because it may have changed
        since its reader asked for it, and nobody would tell of that change again.
        """
        self.start()
        connection, unsaid = self._connection, True
        while True:
            change = None if connection is None else connection.change
            if unsaid and not self.replying:
                unsaid = False
                yield self.status()
            if connection is self._connection:  # Else `use` was called while nobody listened.
                await first_of(self.outbox.stirred(), *([] if change is None else [change.wait()]))
            # Two things that happen at once wake this up once: the change is asked for, whatever ended the wait.
            changed = change is not None and change.is_set() and not self.replying
            unsaid = unsaid or changed or connection is not self._connection
            connection = self._connection

    # ---- one reply ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the running reply, which keeps what it has."""
        self._stopped = True
        if self._reply is not None:
            self._reply.stop()

    def reply(
        self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()
    ) -> AsyncGenerator[Event, None]:
        """Store a question, answer it, store the answer. The last event is `Done` or `Failed`.

        Leaving the iterator early stops the reply; what it has is stored.
        """
        return self._begin(lambda: self._new_answer(question.ask(self.store, conversation_id, prompt, attachments)))

    def edit(self, message_id: str, text: str, attachments: Sequence[Attachment] = ()) -> AsyncGenerator[Event, None]:
        """Store another wording of a question beside it, and answer that; the new branch is shown."""
        return self._begin(lambda: self._new_answer(question.edit(self.store, message_id, text, attachments)))

    def regenerate(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Answer the question of this answer, or this question, once more; the new answer is shown.

        It is sampled as the settings say. If they say temperature 0, and the greedy answer is there already, the
        temperature is 0.8. So the target, if it is there, simply answers in the place of a drafted answer.
        """

        def another() -> Request:
            target = self.no_server(self.store.messages.get(message_id).conversation_id) is None
            return regenerate(self.store, self._settings_of(message_id), message_id, target=target)

        return self._begin(another)

    def resume(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Go on with an answer that was stopped, failed on the way, or ran into its limit.

        The new answer is stored beside that one, begins with its tokens and is shown instead. It is sampled as that
        one was, and may get as many tokens more as a new one may have. Verified tokens stay verified. Drafted ones go
        up as a draft if the target is there, and `Judged` tells, before `Done`, what was kept.
        """

        def rest() -> Request:
            text = self._drafter_of(self.store.messages.get(message_id).conversation_id).text
            return resume(self.store, self._settings_of(message_id), message_id, text)

        return self._begin(rest)

    def verify(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Have a stored answer verified: its drafted tokens go up as a draft, and the target goes on from there.

        The new answer is stored beside that one, which stays as it was, and is shown instead unless something was said
        after it. `Judged` tells, before `Done`, what was kept. Without a server it is `Failed`, and nothing is stored.
        An OpenAI-compatible server checks no drafts: it answers again, and the two texts are compared.
        """
        return self._begin(lambda: self._verification(self._verifiable(message_id)))

    def answer(self, message: Message, *, waits: bool = False) -> AsyncGenerator[Event, None]:
        """Write the answer that a pending message is to become. `waits`: it came out of the queue."""
        return self._begin(lambda: self._new_answer(message, waits=waits))

    def check_idle(self) -> None:
        """Raises `RuntimeError` while a reply runs."""
        if self.replying:
            raise RuntimeError("one reply at a time: stop the running one, or wait for it")

    def _new_answer(self, message: Message, *, waits: bool = False) -> Request:
        return new_answer(self._settings_of(message.id), message, waits=waits)

    def _settings_of(self, message_id: str) -> Settings:
        """The settings, with what was chosen for the conversation of this message. Raises `StorageError`."""
        conversation = self.store.conversations.get(self.store.messages.get(message_id).conversation_id)
        return settings_for(self._settings, conversation.choices, self._fixed)

    async def _begin(self, store: Callable[[], Request]) -> AsyncGenerator[Event, None]:
        """The events of the answer that `store` stores; `Failed` if it cannot."""
        self.check_idle()
        self.start()
        try:
            stored = store()
        except NoAnswer as error:
            yield error.event
            return
        except StorageError as error:
            yield Failed(str(error), "internal")
            return
        async with contextlib.aclosing(self._write(stored)) as events:
            async for event in events:
                yield event

    async def _write(self, request: Request) -> AsyncGenerator[Event, None]:
        """The events of a pending answer, which is stored after each round and at its end."""
        message = request.message
        text = self._drafters.first.text
        reply: Reply | None = None
        outcome = ReplyOutcome()  # Stays if the iterator is left early.
        try:
            self._reading, self._stopped = True, False
            yield Started(message.conversation_id, message.id)
            connection = self._replying_over = self.connection_of(message.conversation_id)
            if self._prompts is not None:
                server = None if connection is None else connection.source.system
                keep_default(self.store, self._prompts, message, server=server, all=self._settings.system)
            settings = self._settings_of(message.id)
            drafter = await asyncio.to_thread(self._drafter_of, message.conversation_id)
            text = drafter.text
            if await asyncio.to_thread(self._learnt.refresh, drafter):
                self._pool.recalibrate(drafter)
            kept = self._pool.kept(message.conversation_id, drafter)
            # In a thread: 10,000 messages take 0.2 s, in which nobody could type.
            given = await asyncio.to_thread(
                request.read, self.store, settings, text, draft=self._draft, prompt=drafter.prompt, kept=kept
            )
            if (left := self._pool.left(message.conversation_id, drafter, connection)) is not None:
                await left.quiet()
            drafting, session = self._pool.enter(message.conversation_id, drafter, connection)
            drafting.begin(given.coins, learns=self._learnt.learns(drafter))
            by_choice = self._nobody_by_choice(message.conversation_id) if connection is None else None
            begun = request.begin(text)
            generation = Generation(given, drafting=drafting, session=session, begun=begun, clock=self._clock)
            reply = Reply(
                generation,
                connection,
                alone=request.does != "verifies",
                nobody=lambda: by_choice if connection is None else connection.server.no_substitute,
                early=self._early,
                most_read=lambda: self._most_read(connection),
            )
            self._reply, known = reply, dict[str, Any]()
            if self._stopped:
                reply.stop()
            async with contextlib.aclosing(reply.steps()) as steps:
                async for step in steps:
                    if isinstance(step, RoundEnded):
                        known = self._checkpoint(request, reply, known)
                    if isinstance(step, SystemUnread):
                        if message.conversation_id in self._unread:
                            continue
                        self._unread.add(message.conversation_id)
                    yield step
            outcome = completed(request, reply)
        except (NoAnswer, DrafterError, StorageError) as error:
            outcome = failed(request, reply, error)
        finally:
            self._reading, self._reply, self._replying_over = False, None, None
            unsaved = await save(self.store, text, request, reply, outcome)
            if unsaved is None and reply is not None:
                self._learnt.keep(message.id, reply.generation)
            self._close_unneeded()
            self.outbox.stir()
        if outcome.judged is not None:
            yield outcome.judged
        if last := unsaved or outcome.last:
            yield last

    def _checkpoint(self, request: Request, reply: Reply, known: dict[str, Any]) -> dict[str, Any]:
        """Store the answer so far, and what is known of it if that differs from `known`. Returns what is stored."""
        answer, now = reply.answer, stats_so_far(request, reply.generation)
        with contextlib.suppress(StorageBusy):  # The next checkpoint stores what this one did not.
            written = answer.tokens, answer.provenance, answer.text
            self.store.messages.checkpoint(request.message.id, *written, None if now == known else now)
            return now
        return known

    def _most_read(self, connection: Connection | None) -> int:
        """Most tokens that this device and the model at a server read, as far as is known."""
        known = None if connection is None else connection.server.most_read
        if connection is None and self._stands_in_for is not None:
            known = self._stands_in_for.most_read
        return min(CONTEXT_TOKENS, known or CONTEXT_TOKENS)
