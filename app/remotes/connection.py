"""The connection to a server: one background task that connects, notices a lost line, and connects again.

The server is a verifier, or an OpenAI-compatible server, which checks no drafts and answers by itself.

Replies use `verifier` while it is there, and call `lost` when a round fails. Everything else happens here, from the
first connection to probing a dead line with a random back-off, so that no reply waits for a connect. While somebody
waits for the line, it is probed every second; else more and more seldom.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.concurrency import first_of
from app.events import Mode, ModeChanged
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import MODES, Learnt, ModeMeter, Verifying
from app.remotes.mode_record import FILE, ModeRecord, key_of
from app.remotes.offers import Offer
from app.remotes.origins import note_origin
from app.remotes.peer import Endpoint, Peer, Verifier, choose_model, list_of
from app.remotes.source import Source, SourceFailed, stays_here
from app.remotes.substitute import why_nobody
from app.sanitise import sanitise
from drafter.adoption import Adoption
from drafter.cost import Cost, CostMeter
from drafter.payoff import Payoff
from drafter.shelf import Drafters
from remote import (
    Broken,
    ChatStream,
    CompletionsClient,
    HostedStream,
    Incompatible,
    Link,
    Refused,
    RemoteError,
    RoundReply,
    Stranger,
    Unsent,
)
from remote.clock import CLOCK, Clock
from remote.delivery import fetch_drafter
from remote.detect import detect
from remote.errors import quoted
from remote.openai.schema import Model
from remote.protocol import Card

PATIENCE_SECONDS = 3.0
"""Longest wait for a verifier to say who it is, if the drafter can answer instead: a prompt may be waiting."""
EDGE_PATIENCE_SECONDS = 15.0
"""The longest wait if nothing else can answer, so that there is no hurry to give up."""

FIRST_COST = Cost(round=0.1, level=0.003, node=0.0003)
"""Assumed cost of a round on an unknown line, in seconds, before one was measured."""
PATIENT_TRIES = 3
"""After so many connections in a row that gave no text, the line is probed less often, even if somebody waits."""
FIRST_ROUND_SECONDS = 0.03
"""Assumed cost of a round beside the round trip, where that is known."""
BROKE = (Broken, Unsent, Stranger)
"""Errors of a line that broke this moment. Others are of one that has been silent for a while."""
FIRST_WORDS_SECONDS = 0.2
"""Pause between such an error and the first probe. The line is seldom back sooner, and a probe that fails takes
processor time from the small model's first words. With it and `Drafting.begin_alone`, three answers at once on two
cores had them after 60 ms in place of 79 (median), and 5 of 117 in place of 26 of 112 after more than 100 ms."""


class Connection:
    """Keeps the line to one server, and knows how fast it is.

    `drafters`: those of this device. A verifier for whose model there is none answers in plain text, if it can.
    `seen`: which models were seen before; None: nothing is known. `patience`: seconds for a verifier to say who it is.
    `modes`: modes that may be chosen. `anyway`: the drafter of the settings may write in the place of any model.
    """

    def __init__(
        self,
        source: Source,
        *,
        drafters: Drafters,
        seen: LastSeen | None = None,
        patience: float = PATIENCE_SECONDS,
        modes: tuple[Verifying, ...] = MODES,
        clock: Clock = CLOCK,
        anyway: bool = False,
    ) -> None:
        self.verifier: Peer | None = None
        self.warming = True
        """Whether the first connection is still being made."""
        self.why = f"connecting to {source.name or 'the server'}"
        self.met = False
        """Whether there has been a server."""
        self.checks = source.kind != "openai"
        """The server checks drafts, as far as is known: it said so when it was last there."""
        self.most_read: int | None = None
        """Most tokens of a conversation that its model reads, as far as is known."""
        self.error: RemoteError | SourceFailed | None = None
        """Why there is no server now."""
        self.memory = memory_seen(source, seen)
        """Digest of the memory of the server's model: by its card now, or by the last one seen; None: it has none."""
        self.fits = source.own or drafters.has(self.memory)
        """Whether a drafter of this device was made for that model, and drafts well enough for it."""
        self.no_substitute = why_nobody(drafters, self.memory, own=source.own, anyway=anyway)
        """Why no drafter may write in the place of that model, as a sentence; None: one may."""
        self.offer: Offer | None = None
        """The drafter for the server's model, which the server offers and which is not here."""
        waits = source.options
        self.link = Link(read_seconds=waits.read_seconds, connect_seconds=waits.connect_seconds)
        self.costs = CostMeter(FIRST_COST)
        """Measures what a round over this line costs."""
        self.payoff = Payoff()
        """Measures whether drafts pay over this line."""
        self.modes = ModeMeter(modes)
        self._record = ModeRecord(None if seen is None else seen.beside(FILE))
        self._mode_key = ""
        """Under which key the record has what `modes` has learnt; empty before there was a verifier."""
        self._keeping: asyncio.Task[None] | None = None
        self.adoption = Adoption()
        """Measures what drafting ahead gains over this line."""
        self.server_seconds: float | None = None
        """Smoothed time of a round at the verifier; None before the first round."""
        self._source = source
        self._drafters = drafters
        self._seen = seen
        self._anyway = anyway
        self._patience = patience + (waits.connect_seconds or 0.0)
        self.change = asyncio.Event()
        """Set at the next change of `verifier`, `warming` or `why`; another one takes its place then."""
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self.refuses = False
        """Whether the server refused this device or does not fit it. A person must repair that."""
        self._clock = clock
        self._fruitless = 0
        """Connections in a row that gave no text."""
        self._waiting = 0
        self._hurried = asyncio.Event()

    def start(self) -> None:
        """Begin to connect, and return at once. A second call does nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Wait for the next `change` after this call."""
        return self.change.wait()

    @property
    def system(self) -> str | None:
        """Name of the system prompt that its conversations begin with; None: the server has no default."""
        return self._source.system

    @property
    def stays_here(self) -> bool:
        """Whether what is asked over it stays on this device."""
        return stays_here(self._source)

    @property
    def line_may_break(self) -> bool:
        """Whether there is a line at all: not to a server that this program has started on this device."""
        return self._source.address is not None

    @property
    def why_mode(self) -> str:
        """Who verifies, and by which figures the mode was chosen."""
        said = self.modes.why(self.link.rtt_seconds or 0.0)
        return f"{self.why}; {said}" if said else self.why

    def mode(self, mode: Mode, why: str | None = None, *, alone: bool = True, writer: str = "") -> ModeChanged:
        """The event that this mode begins here. `why` None: who answers, or why nobody does.

        `writer`: who writes where no server is there.
        """
        peer = self.verifier
        model, checks = (writer, self.checks) if peer is None else (sanitise(peer.model_name), peer.checks)
        return ModeChanged(mode, self.why if why is None else why, alone, model, checks)

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """While this block runs, somebody waits for a server: probe at once, and then every second.

        Only a line to a verifier that broke this very moment is not probed at once.
        """
        self._waiting += 1
        self._hurried.set()
        try:
            yield
        finally:
            self._waiting -= 1

    def served(self, reply: RoundReply) -> None:
        """A round succeeded."""
        self._served(reply.rtt_seconds, reply.verdict.server_seconds, reply)

    def streams(self, stream: HostedStream, server_seconds: float) -> None:
        """A stream has begun; `server_seconds`: the verifier's time for its first tokens."""
        assert stream.rtt_seconds is not None
        self._served(stream.rtt_seconds, server_seconds, stream)

    def speaks(self, stream: ChatStream) -> None:
        """An OpenAI-compatible server has begun to answer, after its own time and a round trip."""
        rtt = min(stream.first_byte_seconds, self.link.rtt_seconds or stream.first_byte_seconds)
        self._served(rtt, stream.first_byte_seconds - rtt, stream)

    def _served(self, rtt_seconds: float, server: float, traffic: RoundReply | HostedStream | ChatStream) -> None:
        self.link.observe(rtt_seconds + server, server, traffic.bytes_up, traffic.bytes_down)
        self.waited(server)

    def answered(self) -> None:
        """An answer is over: keep, in the background, what it taught of the modes."""
        if self._mode_key and (self._keeping is None or self._keeping.done()):
            learnt = deepcopy(self.modes.learnt)
            self._keeping = asyncio.create_task(asyncio.to_thread(self._record.save, self._mode_key, learnt))

    def gained(self) -> None:
        """Text has arrived: the server does more than greet."""
        self._fruitless = 0

    def waited(self, server: float) -> None:
        """Take one measured time of a round at the verifier."""
        before = self.server_seconds
        self.server_seconds = server if before is None else before + (server - before) / 4

    def lost(self, verifier: Peer, error: RemoteError) -> None:
        """A round with this server failed."""
        self.link.failed()
        if verifier is self.verifier:
            self._become(None, error)
            self._lost.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._keeping is not None:
            await self._keeping
        await self._source.close()
        self.change.set()  # Nothing changes from now on; whoever waits for a change is released.

    async def _keep(self) -> None:
        while True:
            try:
                verifier = await self._connect()
            except (RemoteError, SourceFailed) as error:
                self.refuses = isinstance(error, Incompatible) or hopeless(error)
                self._become(None, error)
                await self._pause()
            except Exception as error:  # A fault of ours. Answers wait for this task, and would wait for ever.
                self._become(None, SourceFailed(f"connecting failed ({type(error).__name__}: {error})"))
                await self._pause()
            else:
                self._lost.clear()
                self.refuses = False
                self.met, self.checks, self.most_read = True, verifier.checks, verifier.most_read
                self._fruitless += 1
                self._become(verifier, None)
                await self._until_lost()
                if isinstance(verifier, Verifier) and self.line_may_break and isinstance(self.error, BROKE):
                    await self._clock.sleep(FIRST_WORDS_SECONDS)
                if self._fruitless:  # It greets, and then fails each round.
                    await self._pause()

    async def _pause(self) -> None:
        """Wait until the next probe is due."""
        self._hurried.clear()
        eager = self._waiting > 0 and not self.refuses and self._fruitless <= PATIENT_TRIES
        delay = max(self.link.next_probe_delay(eager=eager), self.link.pause(self._fruitless))
        with contextlib.suppress(TimeoutError):
            async with self._clock.within(delay):
                await self._hurried.wait()

    async def _connect(self) -> Peer:
        client, chat = await self._source.client(), self._source.chat
        patience = min(self._patience, self.link.probe_deadline()) if self.met else self._patience
        kind, model = self._source.kind, self._source.model
        self.offer = None
        try:
            found = await detect(client, chat, patience, kind=kind, model=model)
        except Incompatible:
            await self._note(None)
            raise
        if isinstance(found, tuple):
            assert chat is not None
            await self._note(None)
            return self._endpoint(chat, found)
        card = found
        memory = None if card.memory is None else card.memory.digest
        drafter = await asyncio.to_thread(self._drafters.fitting, card.tokenizer, card.vocabulary, memory)
        if card.drafter is not None and (drafter is None or drafter.memory_digest != memory):
            self.offer = Offer(card, self._source.name or client.host)
        if drafter is None:
            await self._note(memory)  # Its drafter may be here, and not be good enough.
            return await self._in_plain_text(card, chat, patience)
        if client.rtt_seconds is not None:
            self.link.greeted(client.rtt_seconds)
            self.costs.first = replace(FIRST_COST, round=client.rtt_seconds + FIRST_ROUND_SECONDS)
        self.modes.drafts = card.drafts
        if (key := key_of(self._source.address, card, drafter.config)) != self._mode_key:
            known = await asyncio.to_thread(self._record.load, key)
            self.modes.recall(Learnt() if known is None else known)
            self._mode_key = key
        await self._note(memory)
        return Verifier(client, card, self._source.name)

    def _endpoint(self, chat: CompletionsClient, models: tuple[Model, ...]) -> Endpoint:
        if chat.rtt_seconds is not None:
            self.link.greeted(chat.rtt_seconds)
        return Endpoint(chat, choose_model(models, self._source.model), self._source.name, list_of(models))

    async def _in_plain_text(self, card: Card, chat: CompletionsClient | None, patience: float) -> Endpoint:
        """A verifier for whose model this device has no drafter, as the plain chat server that it is too.

        Raises `Incompatible` if only a verifier may be there.
        """
        if chat is None:
            unfit = f"the small model on this device was not made for {quoted(card.target)}"
            raise Incompatible(f"{unfit}; set `drafter` to one that was")
        return self._endpoint(chat, await chat.models(patience, wanted=self._source.model))

    async def fetch(self, shelf: Path, progress: Callable[[int, int], None]) -> None:
        """Fetch the drafter that the server offers, and connect again, to draft with it.

        `progress`: see `fetch_drafter`. Raises what that raises, and `SourceFailed`.
        """
        if (offer := self.offer) is None:
            return
        folder = await fetch_drafter(await self._source.client(), offer.card, shelf, progress=progress)
        await asyncio.to_thread(note_origin, folder, self._source.address)
        self.offer = None
        self.connect_again("the small model has come")

    def connect_again(self, why: str) -> None:
        """Leave the server, and greet it again at once: a drafter for its model has become usable."""
        self._become(None, SourceFailed(f"{why}; connecting again"))
        self._lost.set()

    async def _note(self, memory: bytes | None) -> None:
        """Remember which model is there, by the digest of its memory; None: none, or another vocabulary."""
        self.memory = memory
        self.fits = await asyncio.to_thread(self._drafters.has, memory)
        judged = asyncio.to_thread(why_nobody, self._drafters, memory, own=False, anyway=self._anyway)
        self.no_substitute = await judged
        if self._seen is not None and self._source.address is not None:
            await asyncio.to_thread(self._seen.note, self._source.address, memory)  # May wait for the disk.

    async def _until_lost(self) -> None:
        await first_of(self._lost.wait(), self._gone())

    async def _gone(self) -> None:
        await self._source.gone()
        self._become(None, SourceFailed("the server on this device ended; it starts again"))

    def _become(self, verifier: Peer | None, error: RemoteError | SourceFailed | None) -> None:
        why = sanitise(verifier.why if verifier else str(error))  # A server names its model as it likes.
        if (self.verifier, self.why, self.warming) != (verifier, why, False):
            self.verifier, self.error, self.why, self.warming = verifier, error, why, False
            self.change.set()
            self.change = asyncio.Event()


def memory_seen(source: Source | None, seen: LastSeen | None) -> bytes | None:
    """Digest of the memory of the model that was last seen at a source; None: it had none, or nobody knows."""
    return None if seen is None or source is None or source.address is None else seen.memory(source.address)


def wants_token(error: Exception | None) -> bool:
    """Whether the server wants a token, and got none or a wrong one."""
    return isinstance(error, Refused) and error.code == "unauthorised"


def hopeless(error: Exception | None) -> bool:
    """Whether the same request would be refused again: a wrong token, a missing model, a text that is too long."""
    return isinstance(error, Refused) and not error.retry and error.code not in ("out_of_order", "unavailable")
