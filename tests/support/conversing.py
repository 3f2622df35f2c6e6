"""Opens an assistant on real parts for a test, and reads replies to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from pathlib import Path

from app.config import Settings
from app.events import Done, Event, Failed, Judged, ModeChanged, ReplyText, Started
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import Verifying
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from app.system_prompts import SystemPrompts
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import TransportOptions
from remote.clock import CLOCK, Clock
from storage import FinalStatus, Message, Store
from tests.support.patience import PATIENCE_SECONDS


@dataclass
class Heard:
    """The events of one reply, and what they add up to."""

    reply: ReplyText = field(default_factory=ReplyText)
    events: list[Event] = field(default_factory=list)
    done: Done | None = None
    failed: Failed | None = None

    def apply(self, event: Event) -> None:
        self.reply.apply(event)
        self.events.append(event)
        self.done = event if isinstance(event, Done) else self.done
        self.failed = event if isinstance(event, Failed) else self.failed

    @property
    def modes(self) -> list[str]:
        return [event.mode for event in self.events if isinstance(event, ModeChanged)]

    @property
    def started(self) -> Started:
        return next(event for event in self.events if isinstance(event, Started))

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
    def judged(self) -> Judged | None:
        return next((event for event in self.events if isinstance(event, Judged)), None)


Watch = Callable[[Heard], object]
LEAVE = object()


@asynccontextmanager
async def assistant(
    drafter: Drafter,
    database: Path,
    url: str | None,
    *,
    draft: bool = True,
    settings: Settings | None = None,
    modes: tuple[Verifying, ...] = ("edge",),
    patient: bool = True,
    seen: LastSeen | None = None,
    clock: Clock = CLOCK,
    prompts: SystemPrompts | None = None,
    system: str | None = None,
    fixed: Collection[str] = (),
) -> AsyncIterator[Assistant]:
    """An assistant with its own database connection, connected to `url` if one is given.

    `modes`: what `auto` may choose from; which one is faster here is a matter of milliseconds. `patient` False: a
    silent verifier is given up after what rounds have taken so far, which may be too soon on a busy machine. `system`:
    the default system prompt of the server, from the library `prompts`.
    """
    with Store.open(database) as store:
        source = None if url is None else AddressSource(url, clock=clock)
        if source is not None and patient:
            source.options = TransportOptions(read_seconds=PATIENCE_SECONDS)
        if source is not None:
            source.system = system
        settings = settings or Settings(max_tokens=40)
        async with Assistant(
            store,
            Options(
                Drafters(drafter),
                source,
                settings,
                draft=draft,
                modes=modes,
                seen=seen,
                clock=clock,
                prompts=prompts,
                fixed=frozenset(fixed),
            ),
        ) as opened:
            yield opened


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
