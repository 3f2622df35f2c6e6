"""Opens an assistant on real parts for a test, and reads replies to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from app.config import Settings, Unanswered
from app.events import Done, Dropped, Event, Failed, Judged, ModeChanged, ReplyText, Started, Withdrawn
from app.remotes.connection import Connection
from app.remotes.mode_meter import Verifying
from app.remotes.source import AddressSource, Source
from app.reply.assistant import Assistant
from app.reply.routing import Options
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import TransportOptions
from remote.clock import CLOCK, Clock
from storage import FinalStatus, Message, Store
from tests.support.patience import PATIENCE_SECONDS

Kind = TypeVar("Kind")


@dataclass
class Heard:
    """The events of one reply, and what they add up to."""

    reply: ReplyText = field(default_factory=ReplyText)
    events: list[Event] = field(default_factory=list)
    ended: Done | None = None
    """How it ended, unless it failed."""
    failed: Failed | None = None

    def apply(self, event: Event) -> None:
        self.reply.apply(event)
        self.events.append(event)
        self.ended = event if isinstance(event, Done) else self.ended
        self.failed = event if isinstance(event, Failed) else self.failed

    @property
    def done(self) -> Done:
        """How it ended. Fails the test that asks for it if the reply did not end well."""
        assert self.ended is not None, self.failed
        return self.ended

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def modes(self) -> list[str]:
        return [event.mode for event in self.of(ModeChanged)]

    @property
    def why(self) -> list[str]:
        return [event.why for event in self.of(ModeChanged)]

    @property
    def started(self) -> Started:
        return self.of(Started)[0]

    @property
    def message(self) -> str:
        return self.started.message

    @property
    def text(self) -> str:
        return self.reply.solid + self.reply.ghost

    @property
    def last(self) -> Event:
        return self.events[-1]

    @property
    def withdrawn(self) -> tuple[Dropped, ...]:
        """What was first said to be withdrawn."""
        return next((event.texts for event in self.of(Withdrawn)), ())

    @property
    def judged(self) -> Judged | None:
        return next(iter(self.of(Judged)), None)


Watch = Callable[[Heard], object]
LEAVE = object()
LOCAL = Settings(offline="local", max_tokens=24, temperature=0.0)


@runtime_checkable
class Listening(Protocol):
    """A server for tests that has its own port."""

    def listening(self) -> AbstractAsyncContextManager[int]: ...


@asynccontextmanager
async def assistant(
    drafter: Drafter,
    database: Path,
    url: str | None,
    *,
    settings: Settings | None = None,
    modes: tuple[Verifying, ...] = ("edge",),
    patient: bool = True,
    clock: Clock = CLOCK,
    system: str | None = None,
    **options: Any,
) -> AsyncIterator[Assistant]:
    """An assistant with its own database connection, connected to `url` if one is given.

    `modes`: what `auto` may choose from; which one is faster here is a matter of milliseconds. `patient` False: a
    silent verifier is given up after what rounds have taken so far, which may be too soon on a busy machine. `system`:
    the default system prompt of the server, from the library `prompts`. `options`: others of `Options`.
    """
    with Store.open(database) as store:
        source = None if url is None else AddressSource(url, clock=clock)
        if source is not None:
            source.system = system
            source.options = TransportOptions(read_seconds=PATIENCE_SECONDS) if patient else source.options
        settings = settings or Settings(max_tokens=40)
        made = Options(Drafters(drafter), source, settings, modes=modes, clock=clock, **options)
        async with Assistant(store, made) as opened:
            yield opened


class Here(AddressSource):
    """A model that this device would run."""

    name = "small one"
    kind = "openai"


@asynccontextmanager
async def standing_in(
    drafter: Drafter,
    database: Path,
    server: Listening | int,
    here: Listening | Source | Mapping[str | None, Source],
    settings: Settings = LOCAL,
    *,
    path: str = "/v1",
    own: tuple[Unanswered | None, str | None] = (None, None),
    fixed: frozenset[str] = frozenset(),
    texts: Path | None = None,
) -> AsyncIterator[Assistant]:
    """An assistant whose server is a scripted one or at a port. `here`: the model on this device, or several by name.

    `own`: the server's own settings for the time while it is away. `fixed`: settings that it does not override.
    `texts`: folder of tokenizers.
    """
    async with AsyncExitStack() as stack:
        port = server if isinstance(server, int) else await stack.enter_async_context(server.listening())
        if isinstance(here, Listening):
            here = Here(f"http://127.0.0.1:{await stack.enter_async_context(here.listening())}/v1")
        source = AddressSource(f"http://127.0.0.1:{port}{path}")
        source.offline, source.local = own
        stand_in = (lambda name: here) if isinstance(here, Source) else here.__getitem__
        store = stack.enter_context(Store.open(database))
        options = Options(Drafters(drafter), source, settings, stand_in=stand_in, fixed=fixed, texts=texts)
        yield await stack.enter_async_context(Assistant(store, options))


def connection(opened: Assistant) -> Connection:
    """The connection to the server that is chosen."""
    shown = opened.backend.routing.shown
    assert shown is not None
    return shown


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.02)


async def until_mode(opened: Assistant, mode: str) -> None:
    """Wait until the assistant is in this mode."""
    await until(lambda: opened.status().mode == mode)


async def until_connected(opened: Assistant) -> None:
    """Wait until a verifier, or another server, is there."""
    await until(lambda: opened.status().mode not in ("warming", "offline"))


async def hear(events: AsyncGenerator[Event, None], watch: Watch = lambda heard: None) -> Heard:
    """Hear a whole reply, or until `watch`, which is called after each event, says `LEAVE`."""
    heard = Heard()
    async with aclosing(events):
        async for event in events:
            heard.apply(event)
            said = watch(heard)
            if (await said if isawaitable(said) else said) is LEAVE:
                break
    return heard


async def ask(
    opened: Assistant, question: str, conversation: str | None = None, watch: Watch = lambda heard: None
) -> Heard:
    """Ask a question and hear the whole reply. `conversation` None: in a new one."""
    return await hear(opened.reply(conversation or opened.store.conversations.create("test").id, question), watch)


async def ask_once(opening: AbstractAsyncContextManager[Assistant], question: str) -> Heard:
    """The reply to a question in a new conversation of an assistant that is opened for it."""
    async with opening as opened:
        return await ask(opened, question)


@asynccontextmanager
async def working_off(opened: Assistant) -> AsyncIterator[list[Heard]]:
    """Sends what is due until this ends, as the screen does."""
    done: list[Heard] = []

    async def work() -> None:
        async for queued in opened.due():
            done.append(await hear(opened.send(queued)))

    task = asyncio.create_task(work())
    try:
        yield done
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def stored_answer(
    opened: Assistant,
    said: str | Sequence[int],
    *,
    question: str = "list files",
    verified: int | None = None,
    status: FinalStatus = "done",
    stats: Mapping[str, float | int | str | None] | None = None,
) -> Message:
    """An answer in a new conversation: text or tokens, of which the first are verified; None: all."""
    text = opened.backend.routing.drafters.first.text
    tokens = text.encode(said) if isinstance(said, str) else said
    pending = opened.store.messages.ask(opened.store.conversations.create("stored").id, question, parent_id=None)
    provenance = [verified is None or at < verified for at in range(len(tokens))]
    opened.store.messages.finish(pending.id, tokens, provenance, text.decode(tokens), status, stats or {})
    return opened.store.messages.get(pending.id)
