"""Writes the assistant's answers: the servers and drafters of its conversations, and the handling of requests."""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any

from app.config import Settings
from app.drafting.prompt import Context, context_of, context_told, least_length, marks_said
from app.events import Event, Failed, RoundEnded, Started, SystemUnread
from app.remotes.connection import Connection
from app.remotes.peer import Endpoint
from app.reply.answer import INCOMPLETE
from app.reply.call_desk import CallDesk, Decision, Seat
from app.reply.errors import NoAnswer, too_long
from app.reply.generation import Generation
from app.reply.judgement import drafted, nothing_to_verify, unverified
from app.reply.learnt import Learnt
from app.reply.outbox import Outbox
from app.reply.outcome import ReplyOutcome, completed, failed, save, stats_so_far
from app.reply.reply import Reply
from app.reply.request import (
    CONTEXT_TOKENS,
    Request,
    keep_default,
    new_answer,
    regenerate,
    resume,
    settings_for,
    sum_up,
    verify,
)
from app.reply.routing import Options, Routing
from app.sanitise import sanitise
from app.tools.tool import Tools
from drafter.runtime import Drafter
from models.config import DrafterError
from storage import Message, Queued, StorageBusy, StorageError, Store


class Backend:
    """Writes answers, one at a time in each conversation. `Assistant` loads it: its modules take most of a second."""

    def __init__(self, store: Store, options: Options, outbox: Outbox) -> None:
        self.routing = Routing(store, options, outbox)
        outbox.clock = options.clock
        self._store, self._options, self._outbox = store, options, outbox
        self._learnt = Learnt(store, options.learnt if options.settings.learn else None)
        self._tools: Tools | None = None
        self._desks: dict[str, CallDesk] = {}
        """Who makes the tool calls of the running answers, by conversation."""
        self._unread: set[str] = set()
        """Conversations whose system prompt was reported as unread."""

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self.routing.start()

    async def close(self) -> None:
        await self.routing.close()
        if self._tools is not None:
            await self._tools.aclose()

    def decide(self, conversation_id: str, place: int, decision: Decision) -> None:
        """Pass on the person's decision about a tool call of a running answer."""
        if (desk := self._desks.get(conversation_id)) is not None:
            desk.decide(place, decision)

    async def tools(self) -> Tools | None:
        """The MCP servers that the person has added, none of which is started yet. Raises `NoAnswer`."""
        if self._tools is None and self._options.tools is not None:
            opened = await asyncio.to_thread(self._options.tools)  # It takes most of a second to import.
            self._tools = self._tools or opened
        return self._tools

    # ---- what is asked: a pending answer is stored, and how to write it ----------------------------------------------

    def new_answer(self, pending: Message, *, waits: bool = False) -> Request:
        """Answer a stored question. `waits`: whether it came from the queue. Raises `StorageError`."""
        return new_answer(self._settings_of(pending.conversation_id), pending, waits=waits)

    def another_answer(self, message_id: str) -> Request:
        """Answer the question of this answer, or this question, once more. Raises `NoAnswer`, `StorageError`."""
        conversation = self._store.messages.get(message_id).conversation_id
        target = self.routing.no_server(conversation) is None
        return regenerate(self._store, self._settings_of(conversation), message_id, target=target)

    def rest(self, message_id: str, *, only_calls: bool = False) -> Request:
        """Continue an answer that was cut off. `only_calls`: as for `resume`. Raises `NoAnswer`, `StorageError`."""
        conversation = self._store.messages.get(message_id).conversation_id
        text = self.routing.drafter_of(conversation).text
        return resume(self._store, self._settings_of(conversation), message_id, text, only_calls=only_calls)

    def verification(self, message_id: str) -> Request:
        """Verify an answer whose server is available. Raises `NoAnswer`, `StorageError`."""
        answer = self._store.messages.get(message_id)
        conversation, connection = answer.conversation_id, self.routing.connection_of(answer.conversation_id)
        if problem := self.routing.no_server(conversation):
            raise NoAnswer(problem.message, problem.code)
        if not unverified(answer):
            raise NoAnswer(nothing_to_verify(answer), "internal")
        if answer.calls:  # With its calls, so that none is made again. What was drafted here is written anew.
            return self.rest(message_id, only_calls=drafted(answer))
        # Only the rest is requested if no part of the answer was drafted here.
        anew = connection is not None and isinstance(connection.verifier, Endpoint) and drafted(answer)
        return verify(self._store, self._settings_of(conversation), answer, anew=anew)

    def summary(self, conversation_id: str, parts: int) -> Request:
        """Sum up the older part of a conversation, or the first of its `parts`. Raises `NoAnswer`, `StorageError`."""
        return sum_up(self._store, self._settings_of(conversation_id), conversation_id, parts)

    def queued_answer(self, queued: Queued) -> Request | None:
        """Answer or verify a queue entry, or return None if another program was faster.

        Raises `NoAnswer`, `StorageError`.
        """
        connection = self.routing.connection_of(queued.conversation_id)
        self._outbox.sends(queued, None if connection is None else connection.verifier)
        if queued.message_id is not None:
            return self.verification(queued.message_id)
        problem, follows = self.routing.no_server(queued.conversation_id), self._outbox.follows(queued)
        if problem is not None and not (follows or self._outbox.may_answer_here(queued)):
            raise NoAnswer(problem.message, problem.code)
        pending = self._store.queue.take(queued.id, leaves=follows)
        return None if pending is None else self.new_answer(pending, waits=not follows)

    def _settings_of(self, conversation_id: str) -> Settings:
        """The settings, with the choices for this conversation and those of its server. Raises `StorageError`."""
        choices = self._store.conversations.get(conversation_id).choices
        settings = settings_for(self._options.settings, choices, self._options.fixed)
        return self.routing.with_server(settings, choices)

    # ---- how it is written -------------------------------------------------------------------------------------------

    async def write(self, request: Request, stopping: asyncio.Event) -> AsyncGenerator[Event, None]:
        """The events of a pending answer, which is stored after each round and at its end."""
        message, routing = request.message, self.routing
        generation: Generation | None = None
        outcome = ReplyOutcome()  # Stays if the iterator is left early.
        writing = routing.begin(message.conversation_id)
        try:
            yield Started(message.conversation_id, message.id)
            connection = routing.connection_of(message.conversation_id)
            writing.over(connection)
            if self._options.prompts is not None:
                own = None if connection is None else connection.source.system
                default = self._options.settings.system
                keep_default(self._store, self._options.prompts, message, server=own, all=default)
            if connection is not None and routing.waits_for_drafter(connection):
                yield connection.mode("warming")
                await routing.drafter_known(connection, stopping)
            routing.choose_drafter(connection, self._settings_of(message.conversation_id), message.conversation_id)
            drafter = await asyncio.to_thread(routing.drafter_of, message.conversation_id)
            request = request.in_tokens(drafter.text)
            alone = len(routing.running) == 1  # Other answers keep the version that they began with.
            if alone and await asyncio.to_thread(self._learnt.refresh, drafter):
                routing.pool.recalibrate(drafter)
            seat = routing.seat_of(writing, stopping)
            generation = await self._begin(request, drafter, connection, stopping, seat)
            by_choice = routing.nobody_by_choice(message.conversation_id) if connection is None else None
            nobody_else = request.does in ("verifies", "sums up")
            reply = Reply(
                generation,
                stand_in=(lambda: None) if nobody_else else partial(routing.stand_in, generation.given.settings.local),
                alone=not nobody_else,
                nobody=lambda: by_choice if connection is None else connection.server.no_substitute,
                early=self._options.early,
                most_read=lambda: routing.most_read_over(connection),
            )
            known: dict[str, Any] = {}
            async with contextlib.aclosing(reply.steps()) as steps:
                async for step in steps:
                    if isinstance(step, RoundEnded):
                        known = self._checkpoint(request, generation, known)
                    if isinstance(step, SystemUnread):
                        if message.conversation_id in self._unread:
                            continue
                        self._unread.add(message.conversation_id)
                    yield step
            outcome = completed(request, generation)
        except (NoAnswer, DrafterError, StorageError) as error:
            outcome = failed(request, generation, error)
        finally:
            routing.running.discard(writing)
            writing.over(None)
            self._desks.pop(message.conversation_id, None)
            unsaved = await save(self._store, request, generation, outcome)
            if unsaved is None and generation is not None:
                self._learnt.keep(message.id, generation)
            routing.close_unneeded()
            self._outbox.stir()
        for said in (outcome.withdrawn, outcome.judged):
            if said is not None:
                yield said
        if last := unsaved or outcome.last:
            yield last

    async def _begin(
        self,
        request: Request,
        drafter: Drafter,
        connection: Connection | None,
        stopping: asyncio.Event,
        seat: Seat,
    ) -> Generation:
        """The answer before its first token. Raises `NoAnswer`, `DrafterError`, `StorageError`."""
        conversation, routing, options = request.message.conversation_id, self.routing, self._options
        kept = routing.pool.kept(conversation, drafter)
        # In a thread: 10,000 messages take 0.2 s, which would block typing.
        given = await asyncio.to_thread(
            request.read,
            self._store,
            self._settings_of(conversation),
            drafter.text,
            draft=options.draft,
            prompt=drafter.prompt,
            most=max(CONTEXT_TOKENS, routing.most_read_over(connection)),
            kept=kept,
        )
        if (left := routing.pool.left(conversation, drafter, connection)) is not None:
            await left.quiet()
        drafting, session = routing.pool.enter(conversation, drafter, connection)
        drafting.begin(given.coins, learns=self._learnt.learns(drafter))
        begun = request.begin(drafter.text)
        return Generation(
            given,
            drafting=drafting,
            session=session,
            connection=connection,
            begun=begun,
            stopping=stopping,
            clock=options.clock,
            desk=await self._desk(request, seat),
        )

    async def _desk(self, request: Request, seat: Seat) -> CallDesk | None:
        """Who makes the tool calls of an answer, or None if it has none and may have none. Raises `StorageError`."""
        message, store = request.message, self._store
        servers = store.conversations.get(message.conversation_id).choices.tools
        begun = store.messages.get(message.id).calls
        if request.does in ("verifies", "sums up") or not (begun or (servers and self._options.tools)):
            return None
        desk = self._desks[message.conversation_id] = CallDesk(
            store,
            await self.tools() if servers else self._tools,
            servers,
            conversation=message.conversation_id,
            message=message.id,
            begun=begun,
            unsure=store.calls.unsure(message.conversation_id),
            seat=seat,
        )
        return desk

    def _checkpoint(self, request: Request, generation: Generation, known: dict[str, Any]) -> dict[str, Any]:
        """Store the answer so far, and its statistics if they differ from `known`. Returns the stored statistics."""
        answer, now = generation.answer, stats_so_far(request, generation)
        with contextlib.suppress(StorageBusy):  # The next checkpoint stores what this one did not.
            written = answer.tokens, answer.provenance, answer.text
            self._store.messages.checkpoint(request.message.id, *written, None if now == known else now)
            return now
        return known

    # ---- stored conversations in tokens ------------------------------------------------------------------------------

    def context(self, conversation_id: str) -> Context | None:
        """How much of the context window the shown branch takes; see `Assistant.context`."""
        connection = self.routing.present(conversation_id)
        verifier = None if connection is None else connection.verifier
        if connection is None:
            nobody = self.routing.nobody_by_choice(conversation_id) is not None
        else:
            nobody = verifier is None and (connection.warming or connection.server.no_substitute is not None)
        if nobody:
            return None
        if isinstance(verifier, Endpoint):
            return context_told(self._store, conversation_id, verifier.model.max_model_len)
        guided = connection is None or connection.server.fits
        drafter, most = self.routing.drafter_of(conversation_id), self.routing.most_read_over(connection)
        return context_of(self._store, drafter.text, conversation_id, most, drafter.prompt if guided else None)

    def too_long(self, turns: Sequence[tuple[str, str]]) -> Failed | None:
        """Why a conversation that is not stored, (role, text), is certainly too long, or None if it may not be.

        Takes little time, however long it is. Any thread may call it.
        """
        connection = self.routing.shown
        if connection is not None and (connection.warming or not connection.server.checks):
            return None  # A server that does not read our tokens reports this itself.
        away = connection is None or connection.verifier is None
        limit = CONTEXT_TOKENS if away else self.routing.most_read_over(connection)
        server, drafters = None if connection is None else connection.server, self.routing.drafters
        known = None if server is None else server.drafter or drafters.of_memory(server.memory)
        drafter = known or drafters.first
        prompt = drafter.prompt if self.routing.fits else None
        with contextlib.suppress(DrafterError):  # The answer will report what is wrong with the template.
            return None if least_length(drafter.text, turns, prompt, limit) <= limit else too_long(limit).event
        return None

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Spans of an answer's unverified characters; none if its tokens do not show them."""
        from app.archive.html_markdown import drafted_spans  # So that `ask` does not load Markdown.

        return drafted_spans(sanitise(message.text), message.tokens, message.provenance, self._spelling(message))

    def tokens_within(self, message: Message, length: int) -> int:
        """How many tokens the first `length` characters of an answer take."""
        spelling = self._spelling(message)

        def characters(count: int) -> int:
            return len(sanitise(spelling(message.tokens[:count]).rstrip(INCOMPLETE)))

        return bisect_left(range(len(message.tokens)), length, key=characters)

    def _spelling(self, message: Message) -> Callable[[Sequence[int]], str]:
        """A function from a message's tokens to text, with names in place of marks."""
        tokenizer = self.routing.drafter_of(message.conversation_id).text
        marks = marks_said(tokenizer, message)
        return lambda tokens: marks.shown(tokenizer.decode(tokens))
