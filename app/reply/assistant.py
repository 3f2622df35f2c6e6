"""The assistant: questions in, events out. The screen, `ask` and the benchmarks all read `Assistant.reply`.

What is asked is stored before anything is sent, and what is answered after each round, so that a crash loses at most
the round in flight. One reply runs at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Self

from app.concurrency import first_of
from app.config import Settings
from app.drafting.context import Context, context_of, context_told
from app.drafting.drafting import Drafting
from app.drafting.pool import Conversations
from app.drafting.transcript import conversation_messages, conversation_tokens
from app.events import Event, Failed, Judged, Mode, ModeChanged, Started, Stats
from app.remotes.connection import PATIENCE_SECONDS, Connection, Endpoint, Source, Verifier
from app.remotes.last_seen import Seen
from app.remotes.mode_meter import MODES, Verifying
from app.reply import request as tasks
from app.reply.finishing import finish, outcome, queued
from app.reply.generation import NoAnswer, Writing
from app.reply.judgement import judge, nothing_to_verify, unverified
from app.reply.outbox import Outbox
from app.reply.reply import Reply
from app.reply.request import Task
from app.sanitise import sanitise
from drafter.config import DrafterError
from drafter.runtime import Drafter
from remote.timing import CLOCK, Clock
from storage import FinalStatus, Message, StorageBusy, StorageError, Store

CONTEXT_TOKENS = 8192
"""What the drafter alone reads at most: its attention is computed over every earlier token."""

EDGE_PATIENCE_SECONDS = 15.0
NEVER_AGAIN = ("too_long", "refused", "broken")
"""Codes of failures after which a question leaves the queue: it would fail again, or be paid for twice."""


class Assistant:
    """`source`: where the verifier is; None: the drafter alone. `draft=False`: the target alone, token by token.

    `modes`: what the mode `auto` may choose from while the verifier answers. `seen`: what was at which address before.
    `clock`: what deadlines and pauses go by. `early`: while the verifier starts, the drafter writes what it is sure of.
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
        seen: Seen | None = None,
        clock: Clock = CLOCK,
        early: bool = False,
    ) -> None:
        self.store = store
        self._drafter = drafter
        self._settings = settings
        self._draft = draft
        self._modes = modes
        self._seen = seen or Seen()
        self._clock = clock
        self._early = early
        self._connection = self._connect(source)
        self._leaving: set[asyncio.Task[None]] = set()
        """Connections that are given up as soon as the answer that came over them is complete."""
        self._closed = False
        self._conversations = Conversations(drafter, store, second_stage=settings.second_stage and draft)
        self._reply: Reply | None = None
        self._reading = False
        """A conversation is read for the next one."""
        self._stopped = False
        """That one is to end at once."""
        self.outbox = Outbox(self, self._connection, clock)

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
        self._closed = True
        self.outbox.stir()
        await asyncio.gather(*self._leaving)
        await self._conversations.quiet()
        if self._connection is not None:
            await self._connection.close()
        await self._conversations.close()

    # ---- who is asked ------------------------------------------------------------------------------------------------

    def use(self, source: Source | None) -> None:
        """Ask this verifier from now on; None: the drafter alone. Connects in the background.

        An answer that is on its way is finished over the connection that it has. Sessions, what was measured of the
        line, and what memory has come of open conversations begin anew: all of it is another verifier's.
        """
        left, drafting = self._connection, self._conversations.leave()
        self._connection = self._connect(source)
        self.start()
        leaving = asyncio.create_task(self._leave(left, drafting, self._reply))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        self.outbox.use(self._connection)

    def _connect(self, source: Source | None) -> Connection | None:
        if source is None or self._settings.mode == "offline":
            return None
        patient = not self._draft or self._settings.mode != "auto"
        return Connection(
            source,
            tokenizer=self._drafter.text.digest,
            vocabulary=self._drafter.config.vocabulary,
            memory=self._drafter.memory_digest,
            seen=self._seen,
            # Nothing else can answer then, so there is no hurry to give up.
            patience=EDGE_PATIENCE_SECONDS if patient else PATIENCE_SECONDS,
            modes=self._modes,
            clock=self._clock,
        )

    async def _leave(self, connection: Connection | None, drafting: list[Drafting], reply: Reply | None) -> None:
        while reply is not None and self._reply is reply and not self._closed:
            await self.outbox.stirred()
        for each in drafting:
            await each.quiet()
        if connection is not None:
            await connection.close()

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
        if connection.warming:
            return ModeChanged("warming", connection.why)
        alone = not connection.refuses and (connection.fits or self._settings.offline == "drafter")
        return ModeChanged("offline", connection.why, alone)

    @property
    def replying(self) -> bool:
        return self._reading or self._reply is not None

    def no_verifier(self) -> Failed | None:
        """Why only the drafter could answer now; None where the verifier is there."""
        if self._connection is not None and self._connection.verifier is not None:
            return None
        return Failed(f"No verifier: {self.status().why}.", "unavailable")

    def _verifiable(self, message_id: str) -> Message:
        """Raises `NoAnswer` where it, or the verifier, is not there to be verified; `StorageError`."""
        drafted = self.store.messages.get(message_id)
        if problem := self.no_verifier():
            raise NoAnswer(problem.message, problem.code)
        cut = drafted.status != "done" and all(drafted.provenance)
        if self._connection is not None and isinstance(self._connection.verifier, Endpoint) and not cut:
            host = self._connection.verifier.client.host
            raise NoAnswer(f"{host} is an OpenAI-compatible server, which verifies no drafts.", "incompatible")
        if not unverified(drafted):
            raise NoAnswer(nothing_to_verify(drafted), "internal")
        return drafted

    def context(self, conversation_id: str) -> Context | None:
        """How much of what can be read the shown branch takes, without an answer that is being written.

        None where an OpenAI-compatible server does not say.

        Any thread may ask. Raises `StorageError`.
        """
        verifier = None if self._connection is None else self._connection.verifier
        if isinstance(verifier, Endpoint):
            return context_told(self.store, conversation_id, verifier.model.max_model_len)
        limit = verifier.card.limits.max_tokens if isinstance(verifier, Verifier) else CONTEXT_TOKENS
        return context_of(self.store, self._drafter.text, conversation_id, min(limit, CONTEXT_TOKENS))

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Which characters of an answer nobody verified; none where its tokens do not say."""
        from app.archive.html_markdown import drafted_spans  # Markdown is nothing that `ask` would wait for.

        text = sanitise(message.text)
        return drafted_spans(text, message.tokens, message.provenance, self._drafter.text.decode)

    async def settled(self) -> ModeChanged:
        """The mode, once the first connection is made or has failed."""
        self.start()
        while self._connection is not None and self._connection.warming:
            await self._connection.changed()
        return self.status()

    async def changes(self) -> AsyncGenerator[ModeChanged, None]:
        """Each later change of the mode while no reply runs; a reply reports its own, but for what `use` changed."""
        self.start()
        connection, unsaid = self._connection, False
        while True:
            changed = False
            if connection is self._connection:  # Else `use` was called while nobody listened.
                waits = [self.outbox.stirred(), *([] if connection is None else [connection.changed()])]
                _, *ended = await first_of(*waits)
                changed = any(ended)
            unsaid = unsaid or connection is not self._connection
            connection = self._connection
            if not self.replying and (changed or unsaid):
                unsaid = False
                yield self.status()

    # ---- one reply ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the running reply, which keeps what it has."""
        self._stopped = True
        if self._reply is not None:
            self._reply.stop()

    def reply(self, conversation_id: str, prompt: str) -> AsyncGenerator[Event, None]:
        """Store the question, answer it, store the answer. Ends with `Done` or `Failed`.

        Leaving the iterator early stops the reply; what it has is stored.
        """
        return self._answering(lambda: tasks.ask(self.store, self._settings, conversation_id, prompt))

    def edit(self, message_id: str, text: str) -> AsyncGenerator[Event, None]:
        """Ask a question in other words, beside it, and answer that; the new branch is shown."""
        return self._answering(lambda: tasks.edit(self.store, self._settings, message_id, text))

    def regenerate(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Answer the question of this answer, or this question, once more: beside what is there, and shown instead.

        Sampled as the settings say; at a temperature of 0, where that would give an answer that is there already, at
        0.8. So a drafted answer is simply answered by the target, where it is there.
        """
        return self._answering(
            lambda: tasks.regenerate(self.store, self._settings, message_id, target=self.no_verifier() is None)
        )

    def resume(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Go on with an answer that was stopped, failed on the way, or ran into its limit.

        What comes is stored beside it, begins with its tokens and is shown in its place; it is sampled as that one was
        and may have as many tokens more as a new one. Verified tokens stay so. Drafted ones go up as a draft where the
        target is there, and then `Judged` tells, before `Done`, what was kept.
        """
        return self._answering(lambda: tasks.resume(self.store, self._settings, message_id, self._drafter.text))

    def verify(self, message_id: str) -> AsyncGenerator[Event, None]:
        """Have a stored answer verified: its drafted tokens go up as a draft, and the target goes on from what it
        keeps.

        What comes of it is stored beside that answer, which stays as it was, and shown in its place unless something
        was said after it. `Judged` tells what was kept, before `Done`. Without a verifier it is `Failed`, and nothing
        is stored.
        """
        return self._answering(
            lambda: tasks.verify(self.store, self._settings, self._verifiable(message_id), self._drafter.text)
        )

    async def _answering(self, begin: Callable[[], Task]) -> AsyncGenerator[Event, None]:
        """The events of the answer that `begin` stores; `Failed` where it cannot."""
        if self.replying:
            raise RuntimeError("one reply at a time: stop the running one, or wait for it")
        self.start()
        try:
            task = begin()
        except NoAnswer as error:
            yield error.event
            return
        except StorageError as error:
            yield Failed(str(error), "internal")
            return
        async with contextlib.aclosing(self._answer(task)) as events:
            async for event in events:
                yield event

    def answer(self, message: Message, *, waits: bool = False) -> AsyncGenerator[Event, None]:
        """Write the answer that a pending message is to become. `waits`: it came out of the queue."""
        return self._answer(tasks.new_answer(self._settings, message, waits=waits))

    async def _answer(self, task: Task) -> AsyncGenerator[Event, None]:
        message, begun = task.message, task.begun
        reply: Reply | None = None
        last: Event
        status: FinalStatus = "stopped"  # Stays where the iterator is left early.
        verified = never = waits = False
        judged: Judged | None = None
        try:
            self._reading, self._stopped = True, False
            yield Started(message.conversation_id, message.id)
            # In a thread: 1,000 messages take 0.3 s, in which nobody could type.
            thread, tokens = await asyncio.to_thread(self._read, message.id)
            reply = self._reply = self._new_reply(message.conversation_id, thread, tokens, task)
            if self._stopped:
                reply.stop()
            async with contextlib.aclosing(reply.steps()) as steps:
                async for step in steps:
                    if isinstance(step, Stats):
                        answer = reply.answer
                        with contextlib.suppress(StorageBusy):  # The next one saves what this one did not.
                            self.store.messages.checkpoint(message.id, answer.tokens, answer.provenance, answer.text)
                    yield step
            status, last = outcome(reply)
            verified = all(last.provenance)
            if status == "done" and verified and begun is not None:
                judged = judge(begun, reply.answer.tokens, reply.answer.text)
        except NoAnswer as error:
            status, last, never = "failed", error.event, error.event.code in NEVER_AGAIN
            waits = error.passing and task.waits
        except (DrafterError, StorageError) as error:
            status, last, never = "failed", Failed(str(error), "internal"), isinstance(error, DrafterError)
        finally:
            self._reading, self._reply = False, None
            settles = task.settles(done=status == "done", verified=verified, never=never)
            unsaved = await finish(
                self.store, self._drafter.text, task, reply, status, judged, settles=settles, waits=waits
            )
            self.outbox.stir()
        if judged is not None:
            yield judged
        if waits and isinstance(last, Failed):
            last = queued(last, reply)
        yield unsaved or last

    def _read(self, message_id: str) -> tuple[list[Message], list[int]]:
        """What was said before a message, and its tokens. Raises `StorageError`, `TemplateFailed`."""
        thread = self.store.branches.path(message_id)[:-1]
        return thread, conversation_tokens(self._drafter.text, thread)

    def _new_reply(self, conversation_id: str, thread: list[Message], tokens: list[int], task: Task) -> Reply:
        begun = task.begin(self._drafter.text)
        length = len(tokens) + (len(begun.tokens) if task.does == "resumes" else 0)
        unreadable = None
        if length > CONTEXT_TOKENS:
            message = f"The conversation is {length} tokens long, and at most {CONTEXT_TOKENS} can be read."
            unreadable = NoAnswer(f"{message} Ask less at once, or start a new conversation.", "too_long")
        drafting, line = self._conversations.enter(conversation_id)
        writing = Writing(
            tokens,
            messages=conversation_messages(thread),
            text=self._drafter.text,
            settings=self._settings,
            most=task.most,
            sampling=task.sampling,
            drafting=drafting,
            line=line,
            draft=self._draft,
            begun=begun,
            clock=self._clock,
        )
        writing.unreadable = unreadable
        return Reply(writing, self._connection, alone=task.does != "verifies", early=self._early)
