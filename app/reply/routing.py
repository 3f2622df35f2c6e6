"""Manages which server and drafter each conversation has, and who answers the open one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from msgspec.structs import replace

from app.battery import battery_is_low
from app.concurrency import unless_set
from app.config import Settings, Titles
from app.drafting.calibrations import Calibrations
from app.drafting.drafting import Drafting
from app.drafting.fitness import Judged, judge_unmeasured
from app.drafting.pool import DraftingPool
from app.events import Failed, Mode, ModeChanged, StandIn
from app.local.registry import WhileAway
from app.own_process import memory_used
from app.remotes.choice import Server, UnusableSource
from app.remotes.connection import EDGE_PATIENCE_SECONDS, PATIENCE_SECONDS, Connection
from app.remotes.connections import Connections
from app.remotes.known_server import memory_seen
from app.remotes.last_seen import LastSeen
from app.remotes.local_drafter import LocalDrafter
from app.remotes.loopback import LocalModel
from app.remotes.mode_meter import MODES, Verifying
from app.remotes.offers import Offer
from app.remotes.peer import Endpoint
from app.remotes.server_text import server_texts
from app.remotes.source import Source, stays_here
from app.remotes.substitute import name_of, why_nobody
from app.reply.call_desk import Seat
from app.reply.outbox import Outbox
from app.reply.request import CONTEXT_TOKENS
from app.system_prompts import SystemPrompts
from app.tools.tool import Tools
from drafter.floors import why_no_drafts
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from drafter.whole_model import Ask, ModelAway
from remote import RemoteError
from remote.clock import CLOCK, Clock
from remote.tasks import end
from storage import Choices, NotFound, StorageError, Store

IDLE_SECONDS = 900.0
"""A model on this device that nobody has needed for this long is ended, because it takes memory."""


@final
@dataclass(frozen=True)
class Options:
    """The parts with which an assistant answers. They do not change while the assistant is open."""

    drafters: Drafters
    """The drafter of the settings, used for models without one, and those of other models."""
    source: Source | None
    """The default server, or None for the drafter alone."""
    settings: Settings
    draft: bool = True
    """Whether to draft at all; otherwise the target writes alone, token by token."""
    modes: tuple[Verifying, ...] = MODES
    """The modes from which `auto` may choose."""
    seen: LastSeen | None = None
    """Which model was last seen at which address."""
    clock: Clock = CLOCK
    """Measures deadlines and pauses."""
    early: bool = False
    """Whether the drafter writes what it is sure of while the verifier starts."""
    chosen: Callable[[Server], Source | None] | None = None
    """The source of a server that was chosen for one conversation, or None if `source` answers all of them."""
    prompts: SystemPrompts | None = None
    """The library of the default system prompts; conversations begin without one if it is None."""
    fixed: frozenset[str] = frozenset()
    """Settings that no conversation overrides."""
    learnt: Path | None = None
    """Folder of what drafters learnt here, or None to disable learning."""
    stand_in: Callable[[str | None], Source] | None = None
    """The source of a model on this device that stands in for a server, by name; None: the chosen one."""
    texts: Path | None = None
    """Folder that keeps the tokenizers of such models and of servers' models, or None to keep none."""
    tools: Callable[[], Tools] | None = None
    """Opens the tools of the servers that the person has added. They are offered in conversations that name them."""
    most_read: Callable[[], int | None] | None = None
    """Most tokens read by the server for which this assistant's drafter substitutes, if known."""


@dataclass(eq=False)
class Writing:
    conversation: str
    connection: Connection | None = None
    """The connection over which it arrives, if any."""
    waits: bool = False
    """Whether it has left its place at the server, because a tool call waits for the person."""

    def over(self, connection: Connection | None) -> None:
        for one, change in ((self.connection, -1), (connection, 1)):
            if one is not None:
                one.answers += change
        self.connection = connection


class Routing:
    """Connects to the servers of conversations, and keeps the drafting state of each of them."""

    def __init__(self, store: Store, options: Options, outbox: Outbox) -> None:
        self.drafters = options.drafters
        self.running: set[Writing] = set()
        self._store, self._options, self._outbox = store, options, outbox
        self._seen = options.seen or LastSeen()
        self._away = WhileAway(options.settings.offline, options.settings.local)
        """What happens while a server without its own settings is away."""
        self._connections = Connections(self._connect, options.source, options.chosen)
        self.leaving: set[asyncio.Task[None]] = set()
        """Connections to close as soon as the answers arriving over them are complete."""
        self._closed = False
        self.pool = DraftingPool(
            store,
            second_stage=options.settings.second_stage and options.draft,
            calibrations=Calibrations(options.learnt if options.settings.learn else None),
            answering=lambda: [one.conversation for one in self.running],
        )
        self._stand_in: tuple[str | None, Connection] | None = None
        """Name of the model on this device that stands in, and the connection to it, once it was needed."""
        self._local_drafters: dict[tuple[str | None, Path], LocalDrafter] = {}
        """By name and file, so that a conversation keeps its drafter when the server is connected to again."""
        self._server_texts = None if options.texts is None else server_texts(options.texts)
        self._idle: asyncio.Task[None] | None = None
        """Ends that model when nobody has needed it for long."""
        self._judging: asyncio.Task[list[Judged]] | None = None
        """Measures the drafters that came to this device without figures."""
        self._halted = threading.Event()

    def start(self) -> None:
        """Begin to connect; returns at once."""
        if self.shown is not None:
            self.shown.start()
        if self._judging is None:
            self._judging = asyncio.create_task(self._judge_drafters())

    async def close(self) -> None:
        self._closed = True
        self._halted.set()
        self._outbox.stir()
        if self._judging is not None:
            await self._judging
        if self._idle is not None:
            await end(self._idle)
        await asyncio.gather(*self.leaving)
        await self.pool.quiet()
        await self._connections.close()
        if self._stand_in is not None:
            await self._stand_in[1].close()
        await self.pool.close()

    # ---- servers -----------------------------------------------------------------------------------------------------

    @property
    def shown(self) -> Connection | None:
        """The connection to the server of the open conversation, or None for the drafter alone."""
        return self._connections.shown

    def use(self, source: Source | None) -> None:
        """Switch to this server in each conversation for which no other was chosen.

        Connects in the background. Sessions, line measurements, and the memory of open conversations are reset, because
        they belong to another server.
        """
        left = self._connections.use(source)
        self.start()
        self._let_go(left, {one for one in self.running if one.connection is left})
        self._outbox.stir()

    def follow(self, choices: Choices) -> None:
        """Connect to the server of the newly opened conversation; close connections that are no longer needed."""
        self._connections.show(choices)
        self.close_unneeded()
        self._outbox.stir()

    def connection_of(self, conversation_id: str) -> Connection | None:
        """The connection to a conversation's server, which begins to connect, or None for the drafter alone.

        Raises `StorageError`.
        """
        return self._connections.to(self._store.conversations.get(conversation_id).choices)

    def present(self, conversation_id: str) -> Connection | None:
        """That connection if it exists. Any thread may call it. Raises `StorageError`."""
        return self._connections.present(self._store.conversations.get(conversation_id).choices)

    def begin(self, conversation_id: str) -> Writing:
        """Note that an answer is being written, which is `running` until it is removed there."""
        writing = Writing(conversation_id)
        with contextlib.suppress(StorageError):  # The answer reports it.
            writing.over(self.connection_of(conversation_id))
        self.running.add(writing)
        return writing

    def has_room(self, conversation_id: str | None, answering: Collection[str]) -> bool:
        """Whether the server of a conversation has room for another answer, in addition to those in `answering`.

        None: a new conversation, with the server of the open one. Without a server, the drafter writes one at a time.
        Raises `StorageError`.
        """
        connection = self.shown if conversation_id is None else self.connection_of(conversation_id)
        waiting = [one.conversation for one in self.running if one.waits]
        place, taken = None if connection is None else connection.place, 0
        for one in answering:
            with contextlib.suppress(NotFound):  # It was deleted meanwhile.
                other = self.connection_of(one)
                taken += one not in (conversation_id, *waiting) and (None if other is None else other.place) == place
        return taken < (1 if connection is None else connection.source.parallel)

    def seat_of(self, writing: Writing, stopping: asyncio.Event) -> Seat:
        """The place of an answer at its server, which it may leave while it waits. `stopping`: ends such a wait."""

        def leave() -> None:
            writing.waits = True
            self._outbox.stir()

        async def back() -> None:
            while writing.waits and not stopping.is_set():
                if self.has_room(writing.conversation, [one.conversation for one in self.running]):
                    writing.waits = False
                else:
                    await unless_set(stopping, self._outbox.stirred())

        return Seat(leave, back, lambda: not writing.waits)

    def no_server(self, conversation_id: str) -> Failed | None:
        """Why only the drafter could answer this conversation now, or None if its server is available.

        Raises `StorageError`.
        """
        connection = self.connection_of(conversation_id)
        if connection is not None and connection.verifier is not None:
            return None
        return Failed(f"No server: {'offline by choice' if connection is None else connection.why}.", "unavailable")

    def _connect(self, source: Source | None) -> Connection | None:
        options = self._options
        if source is None or (options.settings.mode == "offline" and not source.needs_no_network):
            return None
        patient = not options.draft or options.settings.mode not in ("auto", "offline")
        return Connection(
            source,
            drafters=self.drafters,
            seen=self._seen,
            # If nobody else can answer, there is no hurry to give up.
            patience=EDGE_PATIENCE_SECONDS if patient else PATIENCE_SECONDS,
            modes=options.modes,
            clock=options.clock,
            anyway=self._away_from(source).offline == "drafter",
            local=lambda substituted: self._local_drafter(source, substituted=substituted),
            texts=lambda: self._server_texts if self._writes_here(source) else None,
            idle=self._until_idle,
        )

    async def _until_idle(self) -> None:
        while self.running and not self._closed:
            await self._outbox.stirred()

    def with_server(self, settings: Settings, choices: Choices) -> Settings:
        """These settings of a conversation, with what its server changes: what happens while it is away, and the mode.

        In mode offline, a server that needs no network is used as in mode auto.
        """
        source = self._connections.source(choices)
        away = self._away_from(source)
        used = source is not None and source.needs_no_network and settings.mode == "offline"
        return replace(settings, offline=away.offline, local=away.local, mode="auto" if used else settings.mode)

    def _away_from(self, source: Source | None) -> WhileAway:
        if source is None:
            return self._away
        fixed = self._options.fixed
        own = None if "offline" in fixed else source.offline, None if "local" in fixed else source.local
        return self._away.of(*own)

    @property
    def standing_by(self) -> StandIn | None:
        """The model on this device that answers while the server of the open conversation is away, if one does."""
        connection = self.shown
        away = self._away_from(self._connections.shown_source if connection is None else connection.source)
        if not away.answers:
            return None
        local = away.local
        name, here = self._stand_in or (None, None)
        if here is None or name != local or not here.begun:
            return StandIn(local or "")
        loading = here.warming or here.starts_again
        if here.verifier is None and not loading:
            return StandIn(local or "", "failed", here.why)
        process = here.source.process_id
        memory = None if process is None else memory_used(process)
        return StandIn(local or "", "ready" if here.verifier is not None else "loading", memory=memory)

    @property
    def missed(self) -> str | None:
        """Name of the open conversation's server if that is away and nobody may answer in its place, or None.

        Not if it refuses to answer, or if its own settings say what happens.
        """
        connection = self.shown
        if connection is None or connection.refuses or connection.source.offline or self._away.answers:
            return None
        away = connection.verifier is None and isinstance(connection.error, RemoteError)
        alone = connection.server.no_substitute is None
        return (connection.source.name or "the server") if away and not alone else None

    def stand_by(self, name: str | None) -> None:
        """Let this model on this device answer while a server is away. None: do what the settings say without one."""
        settings = self._options.settings
        if name is not None:
            self._away = WhileAway("local", name)
        elif settings.offline == "local":
            self._away = WhileAway("queue", None)
        else:
            self._away = WhileAway(settings.offline, settings.local)
        if self._stand_in is not None and self._stand_in[0] != name:
            self._let_go(self._stand_in[1], self.running)
            self._stand_in = None
        if name is not None:
            self._outbox.answer_here(lambda one: (to := self.connection_of(one)) is not None and self.stands_in(to))
        if self.shown is not None:
            self.shown.tell()
        for connection in () if self.running else self._connections.open:
            if connection.server.takes_local:
                connection.connect_again("the model on this device has changed")

    def stands_in(self, connection: Connection) -> bool:
        """Whether a model on this device answers in place of this connection's server, which is away."""
        away = connection.verifier is None and not connection.warming and not connection.refuses
        return away and self._away_from(connection.source).answers

    def stand_in(self, name: str | None) -> Connection | None:
        """The connection to this model on this device, which stands in for a server, or None if none does."""
        options = self._options
        if options.stand_in is None or self._closed:
            return None
        known, connection = self._stand_in or (None, None)
        if connection is None or known != name or isinstance(connection.source, UnusableSource):
            source, patience = options.stand_in(name), EDGE_PATIENCE_SECONDS
            if connection is None or known != name or not isinstance(source, UnusableSource):  # It was added meanwhile.
                if connection is not None:
                    self._let_go(connection, self.running)
                made = Connection(source, drafters=self.drafters, patience=patience, clock=options.clock)
                self._stand_in = name, made
        assert self._stand_in is not None
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.create_task(self._end_idle(self._stand_in[1]))
        return self._stand_in[1]

    def _drafts_here(self, source: Source) -> bool:
        options = self._options
        return self._away_from(source).drafts and options.draft and options.settings.mode != "hosted"

    def _writes_here(self, source: Source) -> bool:
        """Whether the model on this device writes while this server is away, and the server may check that."""
        local = self._options.stand_in is not None and self._away_from(source).answers
        return local and source.address is not None and self._options.settings.mode != "edge"

    def _local_drafter(self, source: Source, *, substituted: bool) -> LocalDrafter | None:
        """Makes drafters of the model on this device for this server, or None if it does not draft.

        `substituted`: another drafter may continue an answer when the line breaks. Then that one drafts, unless the
        model on this device may continue it too.
        """
        if self._options.stand_in is None or not self._drafts_here(source):
            return None
        if substituted and not self._away_from(source).answers:
            return None
        name = self._away_from(source).local
        model = self._options.stand_in(name)
        if not isinstance(model, LocalModel):
            return None
        key = name, model.path
        if key not in self._local_drafters:
            begin, runs = partial(self._begin_proposals, name), lambda: self._local_model(name) is not None
            self._local_drafters[key] = LocalDrafter(model.name or "", model.path, begin, runs, self._options.texts)
        return self._local_drafters[key]

    def _begin_proposals(self, name: str | None) -> Ask:
        """Begin a conversation for which this model drafts. Raises `ModelAway` if it does not run."""
        if (model := self._local_model(name)) is None:
            raise ModelAway("the model on this device does not run")
        return model.begin()

    def _local_model(self, name: str | None) -> LocalModel | None:
        """This model on this device if it runs. Any thread may call it."""
        known, connection = self._stand_in or (None, None)
        if connection is None or known != name or not isinstance(connection.verifier, Endpoint):
            return None
        return connection.source if isinstance(connection.source, LocalModel) else None

    def choose_drafter(self, connection: Connection | None, settings: Settings, conversation_id: str) -> None:
        """Choose who drafts the next answer over this connection, and start the model on this device if it should.

        Returns at once.
        """
        if connection is None:
            return
        wanted = connection.choose_drafter(
            None if settings.mode == "auto" else "edge", self.pool.length(conversation_id)
        )
        if wanted is None or not wanted.is_model or battery_is_low() or not self._drafts_here(connection.source):
            return
        if (running := self.stand_in(self._away_from(connection.source).local)) is not None:
            running.start()

    async def _end_idle(self, stand_in: Connection) -> None:
        """End the model on this device when nobody has needed it for long. The next use starts it again."""
        await self._options.clock.sleep(IDLE_SECONDS)
        while self.running:
            await self._outbox.stirred()
        if self._stand_in is not None and self._stand_in[1] is stand_in:
            self._stand_in = None
            self._let_go(stand_in)

    def close_unneeded(self) -> None:
        """Close the connections that neither the open conversation, the running replies nor the queue need."""
        needed = {one.connection for one in self.running}
        for connection in self._connections.take_unneeded({*needed, *self._outbox.awaited}):
            self._let_go(connection)

    def _let_go(self, connection: Connection | None, running: Collection[Writing] = ()) -> None:
        """Close a connection in the background, when these answers have ended."""
        leaving = asyncio.create_task(self._leave(connection, self.pool.drop(connection), set(running)))
        self.leaving.add(leaving)
        leaving.add_done_callback(self.leaving.discard)

    async def _leave(self, connection: Connection | None, drafting: list[Drafting], running: set[Writing]) -> None:
        while running & self.running and not self._closed:
            await self._outbox.stirred()
        for each in drafting:
            await each.quiet()
        if connection is not None:
            await connection.close()

    # ---- drafters ----------------------------------------------------------------------------------------------------

    def drafter_of(self, conversation_id: str) -> Drafter:
        """The drafter for the model that answers a conversation, or last answered there, or else the first drafter.

        May read files. Raises `StorageError`.
        """
        connection = self.present(conversation_id)
        if connection is not None and connection.server.drafter is not None:
            return connection.server.drafter
        memory = self._memory_alone(conversation_id) if connection is None else connection.server.memory
        return self.drafters.of_memory(memory) or self.drafters.first

    def waits_for_drafter(self, connection: Connection) -> bool:
        """Whether the server's first answer is needed to know who has its tokens, because of the local model."""
        matters = self._drafts_here(connection.source) or self._writes_here(connection.source)
        return connection.warming and not connection.server.fits and matters

    async def drafter_known(self, connection: Connection, stopping: asyncio.Event) -> None:
        """Wait until such a server has answered, or failed, or the person stops the answer."""
        with connection.wanted():
            while connection.warming and not stopping.is_set():
                await unless_set(stopping, connection.changed())

    def nobody_by_choice(self, conversation_id: str) -> str | None:
        """Why no drafter may write in this conversation without a connection, as a sentence, or None if one may.

        Raises `StorageError`.
        """
        source = self._connections.source(self._store.conversations.get(conversation_id).choices)
        return self._nobody(source, self._memory_alone(conversation_id))

    def _memory_alone(self, conversation_id: str) -> bytes | None:
        """Memory digest of a conversation's model, if known, when nothing connects to its server."""
        source = self._connections.source(self._store.conversations.get(conversation_id).choices)
        if source is None or source.own:
            return self._store.memory.last_used(conversation_id)
        return memory_seen(source, self._seen)

    def _nobody(self, source: Source | None, memory: bytes | None) -> str | None:
        own = source is None or source.own
        return why_nobody(self.drafters, memory, own=own, anyway=self._away_from(source).offline == "drafter")

    @property
    def offer(self) -> Offer | None:
        return None if self.shown is None else self.shown.server.offer

    async def fetch_offered(self, progress: Callable[[int, int], None]) -> None:
        """Download that small model; see `Assistant.fetch_offered`."""
        if self.shown is not None and self.drafters.shelf is not None:
            await self.shown.fetch(self.drafters.shelf, progress)

    async def news(self) -> list[tuple[str, str]]:
        """Messages to show once about drafters that came without figures; waits until they are measured."""
        self.start()
        assert self._judging is not None
        await asyncio.shield(self._judging)
        return self.news_by_now

    @property
    def news_by_now(self) -> list[tuple[str, str]]:
        """The same without waiting: nothing while they are being measured."""
        judged = self._judging.result() if self._judging is not None and self._judging.done() else []
        return [one.news for one in judged if one.news is not None]

    async def _judge_drafters(self) -> list[Judged]:
        judged = await asyncio.to_thread(judge_unmeasured, self._store, self.drafters, self._halted.is_set)
        usable = {one.config.memory_digest for one in judged if why_no_drafts(one.config) is None}
        if usable:
            await self._until_idle()
        for connection in self._connections.open:
            if connection.server.memory in usable and isinstance(connection.verifier, Endpoint):
                connection.connect_again("the small model was measured")
        return judged

    # ---- who answers now ---------------------------------------------------------------------------------------------

    def status(self) -> ModeChanged:
        connection = self.shown
        if connection is None:
            source = self._connections.shown_source
            memory = memory_seen(source, self._seen)
            writer = self._writer(self._nobody(source, memory), memory)
            return ModeChanged("offline", "offline by choice", bool(writer), writer)
        if isinstance(connection.verifier, Endpoint):
            return connection.mode("hosted")
        if connection.verifier is not None:
            chosen = self._options.settings.mode
            mode: Mode = chosen if chosen in MODES else connection.speed.modes.mode
            return connection.mode(mode)
        if connection.warming:
            return connection.mode("warming")
        server = connection.server
        writer = "" if connection.refuses else self._writer(server.no_substitute, server.memory)
        return connection.mode("offline", alone=bool(writer), writer=writer)

    def _writer(self, nobody: str | None, memory: bytes | None) -> str:
        """Name of the drafter, or of the model on this device, that answers in place of a model; empty if nobody does.

        `nobody`: why no drafter may.
        """
        if nobody is not None:
            here = self.standing_by
            return "" if here is None or here.state == "failed" else here.name
        config = self.drafters.config(memory) if self.drafters.has(memory) else None
        return name_of(config or self.drafters.first.config)

    @property
    def titles(self) -> Titles:
        """On which servers the model gives a new conversation its title."""
        return self._options.settings.titles

    @property
    def fits(self) -> bool:
        """Whether the drafter was made for the model that answers, as far as known; True if it answers alone."""
        return self.shown is None or self.shown.server.fits

    @property
    def stays_here(self) -> bool:
        return self.shown is None or stays_here(self.shown.source)

    @property
    def most_read(self) -> int | None:
        """Most tokens of a conversation that are read, or None while a server that counts itself has not said."""
        if self.shown is not None and not self.shown.server.checks:
            return self.shown.server.most_read
        return self.most_read_over(self.shown)

    def most_read_over(self, connection: Connection | None) -> int:
        """Most tokens that this device and a server's model read, as far as known."""
        known = None if connection is None else connection.server.most_read
        drafter = None if connection is None else connection.server.drafter
        if known is not None and drafter is not None and not drafter.drafts:
            return known  # Only the server reads the conversation.
        if connection is None and self._options.most_read is not None:
            known = self._options.most_read()
        return min(CONTEXT_TOKENS, known or CONTEXT_TOKENS)
