"""Prompts that are put off until the verifier is there, and what is sent once it is."""

from __future__ import annotations

from textual import events, on, work
from textual.binding import Binding

from app.sanitise import sanitise
from app.tui.screens.chat.conversation import Running
from app.tui.screens.chat.replies import Answering
from app.tui.turn import Turn
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.queued_prompts import QueuedPrompts
from app.tui.widgets.transcript import Transcript
from storage import NotFound, StorageError


class Queueing(Answering):
    """The queue as the open conversation sees it."""

    BINDINGS = [Binding("f7", "show_queue", "What waits for the verifier", id="chat.queue", priority=True)]

    @property
    def rewording(self) -> bool:
        """What is in the prompt are other words for a question that was asked."""
        return False

    @on(Prompt.Kept)
    async def keep(self, event: Prompt.Kept) -> None:
        """Puts a prompt off until the verifier is there."""
        if self.rewording:
            self.notify("Other words for a question cannot wait; only a new question can.", severity="warning")
            return
        try:
            self.core.outbox.enqueue(self.begin_conversation(event.text), event.text)
        except StorageError as error:
            self.complain(error)
            return
        prompt = self.query_one(Prompt)
        prompt.take_off(event.text)
        prompt.keep_in_reach(event.text)
        self.keep_unsent()
        self.forget_unsent()
        await self.show_waiting()
        self.query_one(Transcript).scroll_end(animate=False)

    @on(Prompt.Recalled)
    async def take_back(self) -> None:
        """The last prompt that was put off here is to be edited."""
        if self.rewording:
            return
        try:
            here = [queued for queued in self.waiting() if queued.kind == "ask"]
            if not here:
                self.notify("Nothing is queued here.")
                return
            text = self.core.outbox.unqueue(here[-1].id).text
            await self.look_again()
            self.query_one(Prompt).put(sanitise(text))
            self.keep_unsent()
        except StorageError as error:
            self.complain(error)
        await self.show_waiting()

    def on_click(self, event: events.Click) -> None:
        waiting = self.query_one(QueuedPrompts)
        if event.widget is not None and waiting in event.widget.ancestors_with_self:
            self.action_show_queue()

    @work(group="queue-screen", exclusive=True)
    async def action_show_queue(self) -> None:
        """Everything that waits, on a screen of its own."""
        from app.tui.screens.queue import QueueScreen

        screen = QueueScreen(self.core)
        conversation = await self.app.push_screen_wait(screen)
        for text in screen.removed:
            self.query_one(Prompt).keep_in_reach(text)
        if conversation not in (None, self.conversation):
            await self.open_conversation(conversation)
        else:
            await self.look_again()

    async def look_again(self) -> None:
        """Shows the open conversation as it is stored now; where that is what is shown, the person reads on there."""
        last = self.query_one(Transcript).turns[-1:]
        try:
            tip = None if self.conversation is None else self.core.store.conversations.get(self.conversation).tip_id
        except NotFound:
            await self.open_conversation(None)  # It was begun for a prompt that was taken out.
        except StorageError as error:
            self.complain(error)
        else:
            if tip is None or any(tip in (turn.message, turn.asked) for turn in last):
                await self.show_waiting()
            else:
                await self.open_conversation(self.conversation)

    @work(group="queue")
    async def work_off(self) -> None:
        """Sends what waits for the verifier, one after another."""
        async for queued in self.core.outbox.due():
            if self.live is None:
                turn = Turn(sanitise(queued.text))
                running = Running(queued.conversation_id, turn, queued.message_id or "", queued.id)
                await self.show_running(running)
                await self.listen(running, self.core.outbox.send(queued))
