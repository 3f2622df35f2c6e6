"""A core that follows a script of real events and writes to a real store, and what tests need to wait for it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from app.drafting.prompt import Context
from app.events import Done, Drafted, Event, Failed, Judged, ModeChanged, ReplyText, StandIn, Started, Stats, Verified
from app.remotes.offers import Offer
from app.remotes.source import Source
from app.reply.assistant import NotLoaded
from app.reply.call_desk import Decision
from app.tools.tool import Tools
from storage import Attachment, Choices, FinalStatus, Message, Queued, Store
from tests.support.patience import PATIENCE_SECONDS

READY = ModeChanged("edge", "drafting here, checked by shell-guide")
STATS = Stats(rounds=6, verified=21, drafted_nodes=48, seconds=0.5, first_token_seconds=0.02, rtt_ms=84.0)

Step = Event | asyncio.Event
"""An event to yield, or one of asyncio's to wait for first."""


def finished(tokens: int, drafted: int = 0, *, stopped: bool = False, stats: Stats = STATS) -> Done:
    """The end of an answer of `tokens` tokens, the last `drafted` of them unverified."""
    provenance = (True,) * (tokens - drafted) + (False,) * drafted
    return Done(stopped, "stopped" if stopped else "end", tuple(range(tokens)), provenance, stats)


def verified(text: str, piece: int = 7) -> list[Event]:
    """Rounds that each verify `piece` characters, which were drafted before."""
    events: list[Event] = []
    for at in range(0, len(text), piece):
        events += [Drafted(text[at : at + piece], 2), Verified(text[at : at + piece], 3, 2)]
    return events


class ScriptedOutbox:
    """The store's queue; due is what a test says."""

    def __init__(self, core: ScriptedCore) -> None:
        self._add = core.store.queue.add
        self.following: set[str] = set()
        self.enqueue_verification = core.store.queue.add_verification
        self.queued = core.store.queue.all
        self.unqueue = core.store.queue.remove
        self.returned: asyncio.Queue[Queued] = asyncio.Queue()

    def enqueue(
        self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = (), *, follows: bool = False
    ) -> Queued:
        queued = self._add(conversation_id, prompt, attachments)
        self.following |= {queued.id} if follows else set()
        return queued

    def follows(self, queued: Queued) -> bool:
        return queued.id in self.following


class ScriptedCore:
    """Answers the nth prompt by the nth script; saves question and answer as the assistant does."""

    def __init__(self, store: Store, scripts: Iterable[Sequence[Step]] = (), mode: ModeChanged = READY) -> None:
        self.decided: list[tuple[int, Decision]] = []
        """What the person said to tool calls, by their places."""
        self.store = store
        self.scripts = [list(script) for script in scripts]
        self.prompts: list[tuple[str, str]] = []
        self.mode = mode
        self.modes: asyncio.Queue[ModeChanged] = asyncio.Queue()
        self.stops = 0
        self.sources: list[Source | None] = []
        self.followed: list[Choices] = []
        self.limit = 8192
        self.here = True
        self.offer: Offer | None = None
        self.fetched = 0
        self.trouble: Exception | None = None
        self.standing_by: StandIn | None = None
        """The model on this device that answers while the server is away."""
        self.missed: str | None = None
        """Name of the server that is away without a stand-in."""
        self.told: list[tuple[str, str]] = []
        self._stopped: dict[str, asyncio.Event] = {}
        self.mcp: Tools | None = None
        self.places = 4
        """How many answers are written at once."""
        self.outbox = ScriptedOutbox(self)

    async def stand_by(self, name: str | None) -> None:
        self.standing_by = None if name is None else StandIn(name)

    async def entitle(self, conversation_id: str) -> str | None:
        """Nobody gives titles."""
        return None

    async def news(self) -> list[tuple[str, str]]:
        return self.told

    async def tools(self) -> Tools:
        if self.mcp is None:
            raise NotLoaded("no MCP servers")
        return self.mcp

    def status(self) -> ModeChanged:
        return self.mode

    def context(self, conversation_id: str) -> Context:
        """A token for each five characters."""
        return Context(sum(len(one.text) for one in self.store.branches.thread(conversation_id)) // 5, self.limit)

    async def fetch_offered(self, progress: Callable[[int, int], None]) -> None:
        if self.trouble is not None:
            raise self.trouble
        progress(1, 2)
        self.fetched += 1
        self.offer = None

    def stays_here(self) -> bool:
        return self.here

    def drafted_spans(self, message: Message) -> list[tuple[int, int]]:
        """Every token says as much of the text as any other."""
        size = len(message.text) / max(1, len(message.tokens))
        drafted = [at for at, verified in enumerate(message.provenance) if not verified]
        return [(round(at * size), round((at + 1) * size)) for at in drafted]

    async def due(self) -> AsyncIterator[Queued]:
        while True:
            yield await self.outbox.returned.get()

    async def send(self, queued: Queued) -> AsyncIterator[Event]:
        if queued.message_id is not None:
            async for event in self.verify(queued.message_id):
                yield event
        elif (answer := self.store.queue.take(queued.id)) is not None:
            async for event in self.play(answer):
                yield event

    async def changes(self, replying: Callable[[], bool] | None = None) -> AsyncIterator[ModeChanged]:
        while True:
            yield await self.modes.get()

    def follow(self, choices: Choices) -> None:
        self.followed.append(choices)

    def use(self, source: Source | None) -> None:
        self.sources.append(source)

    def has_room(self, conversation_id: str | None) -> bool:
        return len(self._stopped) < self.places

    def decide(self, conversation_id: str, place: int, decision: Decision) -> None:
        self.decided.append((place, decision))

    def stop(self, conversation_id: str | None = None) -> None:
        self.stops += 1
        for conversation, stopped in self._stopped.items():
            if conversation_id in (None, conversation):
                stopped.set()

    def reply(self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()) -> AsyncIterator[Event]:
        return self._ask(conversation_id, prompt, attachments, None)

    def edit(self, message_id: str, text: str, attachments: Sequence[Attachment] = ()) -> AsyncIterator[Event]:
        question = self.store.messages.get(message_id)
        return self._ask(question.conversation_id, text, attachments, question)

    async def _ask(
        self, conversation_id: str, text: str, attachments: Sequence[Attachment], instead: Message | None
    ) -> AsyncIterator[Event]:
        self.prompts.append((conversation_id, text))
        tip = self.store.conversations.get(conversation_id).tip_id if instead is None else instead.parent_id
        answer = self.store.messages.ask(conversation_id, text, parent_id=tip, attachments=attachments)
        async for event in self.play(answer):
            yield event

    async def regenerate(self, message_id: str) -> AsyncIterator[Event]:
        message = self.store.messages.get(message_id)
        parent = message.id if message.role == "user" else message.parent_id
        answer = self.store.messages.add(message.conversation_id, "assistant", "", parent_id=parent, status="pending")
        async for event in self.play(answer):
            yield event

    async def resume(self, message_id: str) -> AsyncIterator[Event]:
        """The script says all of the answer, with what there was of it, as the assistant's events do."""
        async for event in self.play(self.store.messages.resume(message_id)):
            yield event

    async def verify(self, message_id: str) -> AsyncIterator[Event]:
        answer = self.store.messages.verify(message_id)
        assert answer is not None
        async for event in self.play(answer, message_id):
            yield event

    async def play(self, answer: Message, verifies: str | None = None) -> AsyncIterator[Event]:
        stopped = self._stopped[answer.conversation_id] = asyncio.Event()
        try:
            async for event in self._play(answer, verifies, stopped):
                yield event
        finally:
            self._stopped.pop(answer.conversation_id)

    async def _play(self, answer: Message, verifies: str | None, stopped: asyncio.Event) -> AsyncIterator[Event]:
        yield Started(answer.conversation_id, answer.id)
        text = ReplyText()
        stats = dict(answer.stats)
        for step in self.scripts.pop(0):
            if isinstance(step, asyncio.Event):
                await self._either(step, stopped)
                if stopped.is_set():
                    step = finished(2, stopped=True)
                else:
                    continue
            text.apply(step)
            if isinstance(step, Done):
                status: FinalStatus = "stopped" if step.stopped else "done"
                shown = text.solid if all(step.provenance) else text.solid + text.ghost
                settles = (verifies or answer.id) if not step.stopped and all(step.provenance) else None
                self.store.messages.finish(
                    answer.id, step.token_ids, step.provenance, shown, status, stats, settles=settles
                )
            elif isinstance(step, Judged):
                stats |= {"kept": step.kept, "of": step.of}
            elif isinstance(step, Failed):
                self.store.messages.finish(answer.id, (), (), text.solid, "failed", stats)
            yield step
            await asyncio.sleep(0)
            if isinstance(step, Done | Failed):
                return

    async def _either(self, step: asyncio.Event, stopped: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(step.wait()), asyncio.ensure_future(stopped.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def store_turns(store: Store, title: str, turns: Iterable[tuple[str, str]]) -> str:
    """A stored conversation of finished, verified answers; its id."""
    conversation = store.conversations.create(title)
    parent: str | None = None
    for question, answer in turns:
        parent = store.messages.add(conversation.id, "user", question, parent_id=parent, status="done").id
        parent = store.messages.add(conversation.id, "assistant", "", parent_id=parent, status="pending").id
        store.messages.finish(parent, (1, 2), (True, True), answer, "done", {})
    return conversation.id


def shows(app: App[Any], kind: type[Screen[Any]]) -> bool:
    """A screen of this kind is on top, with all that it begins with."""
    return isinstance(app.screen, kind) and app.screen.is_mounted


async def wait_until(pilot: Pilot[None], predicate: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Lets the application run until `predicate` holds; a place that is not there yet is waited for too."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds

    def holds() -> bool:
        try:
            return predicate()
        except IndexError:
            return False

    await pilot.pause(0)  # What is to be laid out by now is.
    while not holds():
        if loop.time() > deadline:
            step = inspect.getclosurevars(predicate).nonlocals
            raise AssertionError(f"still not so after {seconds} s: {predicate} with {step}")
        await pilot.pause(0.01)


async def press(pilot: Pilot[None], *keys: str, until: Callable[[], bool]) -> None:
    await pilot.press(*keys)
    await wait_until(pilot, until)
