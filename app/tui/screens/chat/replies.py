"""Prompts are sent and answers come in: one at a time, whichever conversation is open meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator

from textual import on, work
from textual.binding import Binding

from app.events import Done, Event, Failed, ModeChanged, RoundEnded, Started
from app.sanitise import sanitise
from app.tui.keymap import key_of
from app.tui.screens.chat.conversation import OpenConversation, Running
from app.tui.turn import Turn
from app.tui.widgets.panel import Panel
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.rounds import Rounds
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.transcript import Transcript
from storage import NotFound, StorageError

FIGURES_SECONDS = 0.25
"""Between two draws of a running answer's figures: nobody reads faster, and each has the screen laid out again."""


class Answering(OpenConversation):
    """Holds the one running turn, so that an answer goes on while another conversation is open."""

    BINDINGS = [
        Binding("ctrl+t", "verify", "Verify the drafted answer, now or later", id="chat.verify", priority=True),
        Binding("escape", "stop", "Stop the answer, keep its text", id="chat.stop"),
    ]

    @on(Prompt.Cancelled)
    def cancel(self) -> None:
        if self.live:
            self.action_stop()
        else:
            self.notify(f"{key_of(self, 'app.quit').capitalize()} quits.")

    def action_copy_text(self) -> None:
        """Ctrl+C outside the prompt: with nothing to copy it stops the answer, as in an empty prompt."""
        if self.get_selected_text():
            super().action_copy_text()
        elif self.live:
            self.stop()
        else:
            self.cancel()

    @on(Prompt.Submitted)
    async def send(self, event: Prompt.Submitted) -> None:
        await self.ask(event.text)

    async def ask(self, question: str) -> None:
        """Sends a prompt in the open conversation, or keeps it in the prompt where that is impossible now."""
        prompt = self.query_one(Prompt)
        if not self.live:
            await self.catch_up()  # What is asked goes on from what is stored.
        if self.live:
            self.say_busy()
            return
        try:
            conversation = self.begin_conversation(question)
        except StorageError as error:
            self.complain(error)
            prompt.put(question)
            return
        prompt.take_off(question)
        prompt.keep_in_reach(question)
        running = Running(conversation, Turn(question))
        await self.show_running(running)
        self.follow(running, self.core.reply(conversation, question))

    def action_stop(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the running answer, wherever it is shown; its text stays."""
        if self.live and self.live.queued:
            try:
                self.core.outbox.unqueue(self.live.queued)  # Or it would be tried again.
            except NotFound:
                pass  # It is answered already.
            except StorageError as error:
                self.complain(error)
        self.core.stop()

    async def action_verify(self) -> None:
        """Has the last drafted answer verified: now, or where the verifier is not there, when it is back."""
        turn = self.verifiable_turn()
        if turn is None or self.conversation is None:
            self.notify("No answer here waits to be verified.")
        elif turn.awaiting or self.core.status().mode in ("offline", "warming"):
            try:
                if turn.awaiting:
                    for queued in self.waiting():
                        if queued.message_id == turn.message:
                            self.core.outbox.unqueue(queued.id)
                else:
                    self.core.outbox.enqueue_verification(turn.message)
            except StorageError as error:
                self.complain(error)
            await self.show_waiting()
        elif self.live:
            self.say_busy()
        else:
            running = Running(self.conversation, Turn(turn.question), turn.message)
            await self.show_running(running)
            self.follow(running, self.core.verify(turn.message))

    def verifiable_turn(self) -> Turn | None:
        """The last one that is drafted."""
        return next((turn for turn in reversed(self.query_one(Transcript).turns) if turn.verifiable), None)

    async def show_running(self, running: Running) -> None:
        """From now on this one is the running answer; shows it where its conversation is open."""
        prompt, transcript, turn = self.query_one(Prompt), self.query_one(Transcript), running.turn
        self.live = running
        prompt.answering = True
        if running.conversation != self.conversation:
            return
        old = next((old for old in transcript.turns if running.verifies and old.message == running.verifies), None)
        if old is not None:
            await transcript.replace(old, turn)
        else:
            await transcript.add(turn)
        self.need_title()

    @work(group="reply")
    async def follow(self, running: Running, answer: AsyncIterator[Event]) -> None:
        """Listens to an answer while the window goes on."""
        await self.listen(running, answer)

    async def listen(self, running: Running, answer: AsyncIterator[Event]) -> None:
        """Feeds one reply's events into its turn; the widgets draw it in their own time."""
        prompt, rounds, panel = self.query_one(Prompt), self.query_one(Rounds), self.query_one(Panel)
        turn = running.turn
        figures = self.set_interval(FIGURES_SECONDS, lambda: self.show_figures(running))
        try:
            async for event in answer:
                turn.apply(event)
                panel.apply(event)
                if isinstance(event, Started):
                    self.measure()
                    self.keep_unsent()
                    self.forget_unsent()  # Only now is the question stored.
                    await self.show_waiting()
                elif isinstance(event, ModeChanged):
                    self.show_mode(event)
                elif isinstance(event, RoundEnded):
                    if event.report is not None:
                        rounds.add(event.report)
                    running.stats = event.stats
                    if running.told is None:
                        self.show_figures(running)
                elif isinstance(event, Done):
                    running.stats = event.stats
                    if event.cut:
                        self.tell_cut(event)
        except Exception as error:  # The window must outlive whatever a reply dies of; the person gets to read it.
            self.log.error(error)
            turn.apply(Failed(sanitise(f"The answer failed: {error}. Send the question again."), "internal"))
        finally:
            figures.stop()
            self.live = None
            prompt.answering = False
        if turn.running:
            turn.apply(Failed("The answer ended early. Send the question again.", "internal"))
        if self.alive:
            self.show_figures(running)
            await self.settle(running)
            self.list_conversations()

    def tell_cut(self, done: Done) -> None:
        """Says that an answer is not whole, and how to go on."""
        go_on = f"{key_of(self, 'message.previous')}, then {key_of(self.query_one(Transcript), 'message.go_on')}"
        keys = f"{key_of(self, 'chat.new')} begins a new conversation" if done.full else go_on
        self.notify(sanitise(f"The answer is not whole: {done.cut}. To go on: {keys}."), markup=False)

    def show_figures(self, running: Running) -> None:
        """Says what has come of an answer since it was said last."""
        if self.alive and running.stats is not running.told:
            running.told = running.stats
            self.query_one(StatusBar).show_stats(running.stats)
            self.show_context()
            self.query_one(Rounds).draw()
            self.query_one(Panel).draw()

    async def settle(self, running: Running) -> None:
        """What is shown becomes what is stored, where that is not so by itself."""
        turn, prompt = running.turn, self.query_one(Prompt)
        here = self.conversation == running.conversation
        if not running.verifies and not running.queued:
            if turn.queued:
                self.notify(turn.error, severity="warning", markup=False)
                if here and not turn.text:  # The question is a prompt that waits, below everything that was said.
                    await self.open_conversation(self.conversation)
            elif turn.outcome == "failed" and not prompt.text and here:
                prompt.write(turn.question)
        elif turn.error:
            self.notify(turn.error, severity="warning", markup=False)
        if here and (running.verifies or running.queued):
            last = self.query_one(Transcript).turns[-1:]
            if turn.outcome != "done" or not (last and last[0] is turn):
                await self.open_conversation(self.conversation)
        await self.show_waiting()
        self.measure()
