"""Whether a verifier is within reach: one background task that connects, notices its return, and says so.

An address may also be that of an OpenAI-compatible server, which verifies no drafts and answers by itself.

Replies use `verifier` while it is there and report `lost` when a round fails. Everything else, from the first
connection to probing a dead line with jittered back-off, happens here, so that no reply ever waits for a connect.
While somebody waits for the line it is probed every second; else ever more seldom.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from app.concurrency import first_of
from app.remotes.last_seen import Seen
from app.remotes.mode_meter import MODES, ModeMeter, Verifying
from app.sanitise import sanitise
from drafter.adoption import Adoption
from drafter.cost import Cost, CostMeter
from remote import (
    ChatStream,
    CompletionsClient,
    HostedStream,
    Incompatible,
    Kind,
    Link,
    Refused,
    RemoteError,
    RoundReply,
    TransportOptions,
    VerifierClient,
    detect,
)
from remote.clock import CLOCK, Clock
from remote.errors import quoted
from remote.openai.model_list import find_model
from remote.openai.schema import Model
from remote.protocol import Card

PATIENCE_SECONDS = 3.0
"""Longest wait for a verifier to say who it is: on the first connection a prompt may be waiting for it."""

FIRST_COST = Cost(round=0.1, level=0.003, node=0.0003)
"""What a round is taken to cost before one was measured, on a line of which nothing is known."""
PATIENT_TRIES = 3
"""After so many greetings that no text followed, nobody is in a hurry any more."""
FIRST_ROUND_SECONDS = 0.03
"""What it is taken to cost beside the round trip, where that is known."""


class SourceFailed(Exception):
    """There is no address to connect to; the message says why and what to do."""


class Source(Protocol):
    """Where a verifier is."""

    @property
    def address(self) -> str | None:
        """Where it is, as far as that is known before it is connected to."""

    @property
    def own(self) -> bool:
        """Its model was chosen together with the drafter, so the drafter is taken to be made for it."""

    @property
    def chat(self) -> CompletionsClient | None:
        """For the same address, where there may be an OpenAI-compatible server instead."""

    @property
    def model(self) -> str | None:
        """What to ask such a server for; None: the first one it lists."""

    @property
    def name(self) -> str | None:
        """What the person calls it."""

    @property
    def kind(self) -> Kind:
        """What is there."""

    @property
    def options(self) -> TransportOptions:
        """How it is reached."""

    async def client(self) -> VerifierClient:
        """A client of it as soon as it listens; the same one while it stays there. Raises `SourceFailed`."""

    async def gone(self) -> None:
        """Returns when nothing can listen there any more."""

    async def close(self) -> None: ...


class Fixed:
    """A verifier or another server that somebody else runs, at a known address. Raises `Misconfigured`."""

    name: str | None = None
    own = False
    kind: Kind = "auto"
    options = TransportOptions()

    def __init__(self, url: str, token: str | None = None, model: str | None = None, *, clock: Clock = CLOCK) -> None:
        self.address = url
        self._client = VerifierClient(url, token, clock=clock)
        self.chat: CompletionsClient = CompletionsClient(url, token, clock=clock)
        self.model = model

    async def client(self) -> VerifierClient:
        return self._client

    async def gone(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        await self._client.close()
        await self.chat.close()


@dataclass(frozen=True)
class Verifier:
    """A verifier that answered, and fits this device."""

    client: VerifierClient
    card: Card
    name: str | None = None
    """What the person calls it."""

    @property
    def why(self) -> str:
        return f"verified by {self.card.target}" + (f" at {self.name}" if self.name else "")


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server that answered."""

    client: CompletionsClient
    model: Model
    name: str | None = None
    """Likewise."""

    @property
    def why(self) -> str:
        return f"answered by {self.model.id} at {self.name or self.client.host}, without memory"


Peer = Verifier | Endpoint


class Connection:
    """`tokenizer` and `vocabulary` are the drafter's: a verifier that differs in either is refused.

    `memory`: the digest of the memory that the drafter reads, which tells whether it was made for a verifier's model.
    `seen`: what was at this address before; None: nothing is known.

    `patience`: seconds for a verifier to say who it is. `modes`: what may be chosen from.
    """

    def __init__(
        self,
        source: Source,
        *,
        tokenizer: bytes,
        vocabulary: int,
        memory: bytes | None = None,
        seen: Seen | None = None,
        patience: float = PATIENCE_SECONDS,
        modes: tuple[Verifying, ...] = MODES,
        clock: Clock = CLOCK,
    ) -> None:
        self.verifier: Peer | None = None
        self.warming = True
        """Nothing has been decided yet: the first connection is being made."""
        self.why = f"connecting to {source.name or 'the verifier'}"
        self.met = False
        """There has been a verifier."""
        self.error: RemoteError | SourceFailed | None = None
        """Why there is no verifier."""
        self.fits = source.own or _remembered(source, seen, memory)
        """The drafter was made for the model there, as far as is known: by its card, now or the last time."""
        waits = source.options
        self.link = Link(read_seconds=waits.read_seconds, connect_seconds=waits.connect_seconds)
        self.costs = CostMeter(FIRST_COST)
        """What rounds over this line cost."""
        self.modes = ModeMeter(modes)
        self.adoption = Adoption()
        """What drafting ahead is worth over it."""
        self.server_seconds: float | None = None
        """A round's time at the verifier, smoothed; None before the first."""
        self._source = source
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._memory = memory
        self._seen = seen
        self._patience = patience + (waits.connect_seconds or 0.0)
        self._change = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self.refuses = False
        """Whoever is there said no, or is nobody for this device: waiting does not help, a person has to mend it."""
        self._clock = clock
        self._fruitless = 0
        """Times in a row that somebody was there and no text came."""
        self._waiting = 0
        self._hurried = asyncio.Event()

    def start(self) -> None:
        """Begin to connect; returns at once. Does nothing where it has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep())

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Ends with the first change of `verifier`, `warming` or `why` after this call."""
        return self._change.wait()

    @property
    def why_mode(self) -> str:
        """Who verifies, and what the mode is chosen by."""
        said = self.modes.why(self.link.rtt_seconds or 0.0)
        return f"{self.why}; {said}" if said else self.why

    @contextlib.contextmanager
    def wanted(self) -> Iterator[None]:
        """In this block somebody waits for a verifier: it is looked for at once, and then every second."""
        self._waiting += 1
        self._hurried.set()
        try:
            yield
        finally:
            self._waiting -= 1

    def served(self, reply: RoundReply) -> None:
        """A round worked."""
        self._served(reply.rtt_seconds, reply.verdict.server_seconds, reply)

    def streams(self, stream: HostedStream, server_seconds: float) -> None:
        """A stream has begun, and this was the verifier's time for its first tokens."""
        assert stream.rtt_seconds is not None
        self._served(stream.rtt_seconds, server_seconds, stream)

    def speaks(self, stream: ChatStream) -> None:
        """An OpenAI-compatible server has begun to answer, which took its own time and a round trip."""
        rtt = min(stream.first_byte_seconds, self.link.rtt_seconds or stream.first_byte_seconds)
        self._served(rtt, stream.first_byte_seconds - rtt, stream)

    def _served(self, rtt_seconds: float, server: float, traffic: RoundReply | HostedStream | ChatStream) -> None:
        self.link.observe(rtt_seconds + server, server, traffic.bytes_up, traffic.bytes_down)
        self.waited(server)

    def gained(self) -> None:
        """Text has come: whoever is there does not only greet."""
        self._fruitless = 0

    def waited(self, server: float) -> None:
        """The verifier took so long for a round, of a stream or by itself."""
        before = self.server_seconds
        self.server_seconds = server if before is None else before + (server - before) / 4

    def lost(self, verifier: Peer, error: RemoteError) -> None:
        """A round with this verifier failed."""
        self.link.failed()
        if verifier is self.verifier:
            self._become(None, error)
            self._lost.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._source.close()
        self._change.set()  # Nothing will change any more, and whoever waits for that must not wait for ever.

    async def _keep(self) -> None:
        while True:
            try:
                verifier = await self._connect()
            except (RemoteError, SourceFailed) as error:
                self.refuses = isinstance(error, Incompatible) or hopeless(error)
                self._become(None, error)
                await self._pause()
            else:
                self._lost.clear()
                self.refuses = False
                self.met = True
                self._fruitless += 1
                self._become(verifier, None)
                await self._until_lost()
                if self._fruitless:  # Somebody who greets and then fails each round.
                    await self._pause()

    async def _pause(self) -> None:
        """Until the next probe is due."""
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
        try:
            found = await detect(client, chat, patience, tokenizer=self._tokenizer, kind=kind, model=model)
        except Incompatible:
            await self._note(None)
            raise
        if isinstance(found, tuple):
            assert chat is not None
            await self._note(None)
            if chat.rtt_seconds is not None:
                self.link.greeted(chat.rtt_seconds)
            return Endpoint(chat, chosen(found, self._source.model, chat.host), self._source.name)
        card = found
        if client.rtt_seconds is not None:
            self.link.greeted(client.rtt_seconds)
            self.costs.first = replace(FIRST_COST, round=client.rtt_seconds + FIRST_ROUND_SECONDS)
        self.modes.drafts = card.drafts
        await self._note(card.memory.digest if card.memory and card.vocabulary == self._vocabulary else None)
        if card.vocabulary != self._vocabulary:
            sizes = f"{card.vocabulary} tokens, the drafter {self._vocabulary}"
            raise Incompatible(f"{card.target} has {sizes}; use the drafter made for it")
        return Verifier(client, card, self._source.name)

    async def _note(self, memory: bytes | None) -> None:
        """Whose model is there, by the digest of its memory."""
        self.fits = memory is not None and memory == self._memory
        if self._seen is not None and self._source.address is not None:
            await asyncio.to_thread(self._seen.note, self._source.address, memory)  # May wait for the disk.

    async def _until_lost(self) -> None:
        await first_of(self._lost.wait(), self._gone())

    async def _gone(self) -> None:
        await self._source.gone()
        self._become(None, SourceFailed("the verifier on this device ended; it starts again"))

    def _become(self, verifier: Peer | None, error: RemoteError | SourceFailed | None) -> None:
        why = sanitise(verifier.why if verifier else str(error))  # A server names its model as it likes.
        if (self.verifier, self.why, self.warming) != (verifier, why, False):
            self.verifier, self.error, self.why, self.warming = verifier, error, why, False
            self._change.set()
            self._change = asyncio.Event()


def hopeless(error: Exception | None) -> bool:
    """The same request would be refused again: a wrong token, a model that is not there, too long a text."""
    return isinstance(error, Refused) and not error.retry and error.code not in ("out_of_order", "unavailable")


def _remembered(source: Source, seen: Seen | None, memory: bytes | None) -> bool:
    known = None if seen is None or source.address is None else seen.memory(source.address)
    return known is not None and known == memory


def chosen(models: Sequence[Model], name: str | None, host: str) -> Model:
    """The model of that name, or the first. Raises `Incompatible`."""
    if (model := find_model(models, name)) is not None:
        return model
    listed = ", ".join(model.id for model in models[:5]) + (" and others" if len(models) > 5 else "")
    raise Incompatible(quoted(f"{host} serves no model {name}; set remote_model to one of its own: {listed}"))
