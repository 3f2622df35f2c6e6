"""The conversation that is open: what of it is stored and what of it runs, as the widgets of the chat screen show it.

`ChatScreen` is made of classes that each add one idea to this one: `Answering`, `Queueing`, and whatever else is done
with a conversation. They are screens, not plain mixins, because Textual collects bindings and handlers of nodes only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import work
from textual.content import Content
from textual.widgets import Static

from app.config import Settings
from app.events import ModeChanged, Stats
from app.sanitise import sanitise
from app.tui.core import Core
from app.tui.keymap import key_of
from app.tui.screens.chat.unsent_text import Composing
from app.tui.turn import Turn
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.panel import Panel
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.queued_prompts import QueuedPrompts
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.welcome import Welcome
from storage import Message, Queued, StorageError

if TYPE_CHECKING:
    from app.drafting.prompt import Context

TITLE_LENGTH = 60
NEARLY_FULL = 0.9
"""Share of what can be read from which the person is told."""
PARTS = (ConversationList, Transcript, QueuedPrompts, Prompt, StatusBar)
"""Of the screen, which go one after another where the window closes."""


@dataclass
class Running:
    """The one answer that is being written."""

    conversation: str
    turn: Turn
    verifies: str = ""
    """Id of the drafted answer in whose place it is shown, if it verifies one."""
    queued: str = ""
    """Its id in the queue, if it comes from there."""
    stats: Stats | None = None
    told: Stats | None = None
    """As they are on the screen."""

    @property
    def written(self) -> int:
        """Tokens, so far."""
        return 0 if self.stats is None else self.stats.verified + self.stats.drafted


class OpenConversation(Composing):
    """Knows which conversation is open and which answer runs, and shows both as they are."""

    def __init__(self, core: Core, settings: Settings) -> None:
        super().__init__(core, settings)
        self.live: Running | None = None
        self.taken: Context | None = None
        """What the open conversation takes of what can be read, as it was last counted."""
        self._opening = 0
        """How many conversations were to be opened."""
        self._warned: set[str] = set()
        """Conversations of which the person knows that they are nearly full."""

    @property
    def alive(self) -> bool:
        """Whether the window is: where it closes, its parts go before what waits for a thread is called off."""
        return self.is_attached and all(self.query(part) for part in PARTS)

    async def open_conversation(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Shows a conversation as stored, and the running answer where it belongs to it. None: a new conversation.

        `message_id`: the message to show it at, on whichever branch that is.
        """
        found: int | None = None
        turns: list[Turn] = []
        title = ""
        self._opening += 1
        opening = self._opening
        if conversation_id is not None:
            try:
                title = self.core.store.conversations.get(conversation_id).title
                while True:
                    running = self.live
                    turns, found = await asyncio.to_thread(self._stored, conversation_id, message_id)
                    if running is None or running is self.live:
                        break  # Else an answer has ended meanwhile, and may have been read before it was complete.
            except StorageError as error:
                self.complain(error)
                return
            if opening != self._opening or not self.alive:
                return  # Another one was to be opened meanwhile, or the window is closing.
        if conversation_id != self.conversation:
            self.keep_unsent()
            self.conversation = conversation_id
            self.take_unsent()
        if self.live and self.live.conversation == conversation_id:
            live, verifies = self.live.turn, self.live.verifies
            at = next((at for at, turn in enumerate(turns) if verifies and turn.message == verifies), len(turns))
            if at == len(turns) and turns and turns[-1].message in ("", live.message):
                at -= 1  # As stored: the question, and the answer as far as its last checkpoint.
            turns[at : at + 1] = [live]
        self.show_conversation(title)
        await self.query_one(Transcript).show(turns)
        if found is not None and found >= 0:
            self.query_one(Transcript).go_to(found)
        await self.show_waiting()
        self.need_title()
        self.measure()

    async def catch_up(self) -> None:
        """Shows the open conversation as it is stored now, where another window has gone on with it."""
        if self.conversation is None or (self.live and self.live.conversation == self.conversation):
            return
        shown = next((turn for turn in reversed(self.query_one(Transcript).turns) if turn.message or turn.asked), None)
        try:
            tip = self.core.store.conversations.get(self.conversation).tip_id
        except StorageError:
            return  # Whatever is done next will say so.
        if tip is not None and (shown is None or tip not in (shown.message, shown.asked)):
            await self.open_conversation(self.conversation)

    def _stored(self, conversation_id: str, message_id: str | None) -> tuple[list[Turn], int | None]:
        """The turns of the shown branch, and the place of the one with that message, which is shown from now on.

        A thousand messages take 30 ms to read. Raises `StorageError`.
        """
        found = None
        messages, thread = self._branch(conversation_id)
        if message_id is not None:
            if all(message.id != message_id for message in thread):
                self.core.store.branches.show(message_id)
                messages, thread = self._branch(conversation_id)
            before = [message.id for message in thread].index(message_id)
            found = len(Turn.of_thread(thread[: before + 1])) - 1
        return Turn.of_thread(thread, messages), found

    def _branch(self, conversation_id: str) -> tuple[list[Message], list[Message]]:
        """All messages of a conversation, and those of the shown branch. Raises `StorageError`."""
        store = self.core.store
        tip = store.conversations.get(conversation_id).tip_id
        messages = store.messages.of(conversation_id)  # Read after the tip, which is among them.
        known = {message.id: message for message in messages}
        thread: list[Message] = []
        while tip is not None and (message := known.get(tip)) is not None:
            thread.append(message)
            tip = message.parent_id
        return messages, thread[::-1] if tip is None else store.branches.thread(conversation_id)

    def begin_conversation(self, prompt: str) -> str:
        """The open conversation, or where there is none a new one, named after its first prompt.

        Raises `StorageError`.
        """
        if self.conversation is None:
            title = " ".join(prompt.split())
            title = title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 1].rstrip()}…"
            self.conversation = self.core.store.conversations.create(title).id
            self.show_conversation(title)
        return self.conversation

    def waiting(self) -> list[Queued]:
        """What waits of the open conversation. Raises `StorageError`."""
        return [queued for queued in self.core.outbox.queued() if queued.conversation_id == self.conversation]

    async def show_waiting(self) -> None:
        """Shows the prompts that wait, marks the answers that do, and says which key is of use."""
        if not self.alive:
            return
        transcript = self.query_one(Transcript)
        try:
            waiting = self.waiting()
        except StorageError as error:
            self.complain(error)
            return
        answers = {queued.message_id for queued in waiting}
        for turn in transcript.turns:
            turn.await_verification(turn.message in answers)
        await transcript.refresh_notes()
        if not self.alive:
            return
        await self.query_one(QueuedPrompts).show([queued.text for queued in waiting if queued.kind == "ask"])
        self.query_one(Prompt).verifiable = any(turn.verifiable for turn in transcript.turns[-1:])

    def show_conversation(self, title: str) -> None:
        # Classes of the screen would have the styles of everything on it found anew, which takes 25 ms.
        self.query_one(Welcome).display = self.conversation is None
        self.query_one(Transcript).display = self.conversation is not None
        self.query_one("#title", Static).update(Content(" ".join(sanitise(title).split())))
        self.list_conversations()

    def need_title(self) -> None:
        # The title is the first question, which stands right below it as long as it is the only one.
        self.query_one("#title").set_class(len(self.query_one(Transcript).turns) > 1, "-needed")

    @work(exclusive=True, group="list")
    async def list_conversations(self) -> None:
        """Thousands of conversations take a while to read, so that is not done here and now."""
        try:
            conversations = await asyncio.to_thread(self.core.store.conversations.all)
        except StorageError as error:
            self.complain(error)
            return
        if self.alive:
            self.query_one(ConversationList).show(conversations, self.conversation)

    @work(exclusive=True, group="context")
    async def measure(self) -> None:
        """Counts the tokens of the open conversation, which may take a while; says so once where it is nearly full."""
        conversation, context = self.conversation, None
        if conversation is not None:
            try:
                context = await asyncio.to_thread(self.core.context, conversation)
            except StorageError:
                return  # Whatever is done next will say so.
        if not self.alive:
            return
        self.taken = context
        self.show_context()
        if conversation is None or context is None:
            return
        if context.share < NEARLY_FULL:
            self._warned.discard(conversation)
        elif conversation not in self._warned:
            self._warned.add(conversation)
            self.notify(
                f"This conversation takes {context.used:,} of the {context.limit:,} tokens that can be read. "
                f"{key_of(self, 'chat.new').capitalize()} begins a new one.",
                severity="warning",
            )

    def show_context(self) -> None:
        """The meter, with what the running answer has taken so far."""
        context = self.taken
        if context is not None and self.live is not None and self.live.conversation == self.conversation:
            context = context._replace(used=context.used + self.live.written)
        self.query_one(StatusBar).show_context(context)

    def show_mode(self, mode: ModeChanged) -> None:
        self.query_one(StatusBar).show_mode(mode)
        self.query_one(Panel).show_mode(mode)
        self.query_one(Prompt).offline = mode.mode == "offline" and mode.alone

    def say_busy(self) -> None:
        self.notify(f"An answer is still running; {key_of(self, 'chat.stop')} stops it.", severity="warning")
