"""Prompts that are put off until the verifier is there, and what is sent once it is."""

from __future__ import annotations

from textual import on, work

from app.sanitise import sanitise
from app.tui.screens.answering import Answering
from app.tui.screens.opened import Running
from app.tui.turn import Turn
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.transcript import Transcript
from storage import StorageError


class Queueing(Answering):
    """The queue as the open conversation sees it."""

    @on(Prompt.Kept)
    async def keep(self, event: Prompt.Kept) -> None:
        """Puts a prompt off until the verifier is there."""
        try:
            self.core.outbox.enqueue(self.begin_conversation(event.text), event.text)
        except StorageError as error:
            self.complain(error)
            return
        prompt = self.query_one(Prompt)
        prompt.write("")
        prompt.keep_in_reach(event.text)
        self.keep_unsent()
        self.forget_unsent()
        await self.show_waiting()
        self.query_one(Transcript).scroll_end(animate=False)

    @on(Prompt.Recalled)
    async def take_back(self) -> None:
        """The last prompt that was put off here is to be edited."""
        try:
            here = [queued for queued in self.waiting() if queued.kind == "ask"]
            if not here:
                self.notify("Nothing is queued here.")
                return
            text = self.core.outbox.unqueue(here[-1].id).text
            if here[-1].conversation_id not in (one.id for one in self.core.store.conversations()):
                await self.open_conversation(None)  # It was begun for this prompt.
            self.query_one(Prompt).put(sanitise(text))
            self.keep_unsent()
        except StorageError as error:
            self.complain(error)
        await self.show_waiting()

    @work(group="queue")
    async def work_off(self) -> None:
        """Sends what waits for the verifier, one after another."""
        async for queued in self.core.outbox.due():
            if self.live is None:
                turn = Turn(sanitise(queued.text))
                running = Running(queued.conversation_id, turn, queued.message_id or "", queued.id)
                await self.show_running(running)
                await self.listen(running, self.core.outbox.send(queued))
