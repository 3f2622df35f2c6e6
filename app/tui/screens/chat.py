"""The chat screen: conversations at the left, the open one in the middle, the prompt below it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from app.events import Done, Event, Failed, ModeChanged, Paced, Started, Stats
from app.sanitise import sanitise
from app.tui.core import Core
from app.tui.turn import Turn
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.rounds import Rounds
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.waiting import Waiting
from app.tui.widgets.welcome import Welcome
from storage import NotFound, Queued, StorageError

TITLE_LENGTH = 60
WIDE = 110
"""Columns from which the list of conversations has room beside the transcript."""


@dataclass
class Running:
    """The one answer that is being written."""

    conversation: str
    turn: Turn
    verifies: str = ""
    """Id of the drafted answer in whose place it is shown, if it verifies one."""
    queued: str = ""
    """Its id in the queue, if it comes from there."""


class ChatScreen(Screen[None]):
    """Holds the one running turn, so that an answer goes on while another conversation is open."""

    CSS_PATH = [
        "chat.tcss",
        "../widgets/message.tcss",
        "../widgets/prompt.tcss",
        "../widgets/rounds.tcss",
        "../widgets/status_bar.tcss",
        "../widgets/transcript.tcss",
        "../widgets/waiting.tcss",
        "../widgets/welcome.tcss",
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (72, "-narrow"), (WIDE, "-wide")]
    BINDINGS = [
        Binding("ctrl+t", "verify", "Verify the drafted answer, now or later", id="chat.verify", priority=True),
        Binding("escape", "stop", "Stop the answer, keep its text", id="chat.stop"),
        Binding("ctrl+n", "new", "New conversation", id="chat.new", priority=True),
        Binding("ctrl+b", "toggle_list", "Conversations", id="chat.list", priority=True),
        Binding("ctrl+y", "copy_code", "Copy the last answer's code", id="chat.copy", priority=True),
        Binding(
            "ctrl+r", "toggle_rounds", "The last rounds: what was drafted, and why", id="chat.rounds", priority=True
        ),
        Binding("question_mark", "app.show_help", "Help", id="chat.help"),
    ]

    def __init__(self, core: Core) -> None:
        super().__init__()
        self.core = core
        self.conversation: str | None = None
        """Id of the open conversation; None until the first prompt of a new one is sent."""
        self._live: Running | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"):
            yield ConversationList(compact=True)
            with Vertical():
                yield Static(id="title", markup=False)
                yield Welcome()
                yield Transcript()
                yield Rounds()
                yield Prompt()
        yield StatusBar()

    def on_mount(self) -> None:
        self._show_mode(self.core.status())
        self._watch_mode()
        self._work_off()
        self._show_conversation("")
        self.query_one(Prompt).focus()

    def on_unmount(self) -> None:
        self.core.stop()

    def on_resize(self, event: events.Resize) -> None:
        if (event.size.width >= WIDE) != self.has_class("-wide"):
            self.remove_class("-toggled")  # What the person chose holds for the layout it was chosen in.

    @on(Prompt.Submitted)
    async def send(self, event: Prompt.Submitted) -> None:
        await self._ask(event.text)

    @on(Welcome.Picked)
    async def send_example(self, event: Welcome.Picked) -> None:
        self.query_one(Prompt).focus()
        await self._ask(event.question)

    @on(Prompt.Kept)
    async def keep(self, event: Prompt.Kept) -> None:
        """Puts a prompt off until the verifier is there."""
        try:
            self.core.outbox.enqueue(self._begin_conversation(event.text), event.text)
        except StorageError as error:
            self._complain(error)
            return
        self.query_one(Prompt).write("")
        await self._show_waiting()
        self.query_one(Transcript).scroll_end(animate=False)

    @on(Prompt.Recalled)
    async def take_back(self) -> None:
        """The last prompt that was put off here is to be edited."""
        try:
            here = [queued for queued in self._waiting() if queued.kind == "ask"]
            if not here:
                self.notify("Nothing is queued here.")
                return
            self.query_one(Prompt).write(sanitise(self.core.outbox.unqueue(here[-1].id).text))
            if here[-1].conversation_id not in (one.id for one in self.core.store.conversations()):
                await self.open_conversation(None)  # It was begun for this prompt.
        except StorageError as error:
            self._complain(error)
        await self._show_waiting()

    @on(Prompt.Paged)
    def page(self, event: Prompt.Paged) -> None:
        transcript = self.query_one(Transcript)
        if event.pages < 0:
            transcript.scroll_page_up()
        else:
            transcript.scroll_page_down()

    @on(Prompt.Left)
    def offer_examples(self) -> None:
        if self.conversation is None:
            self.query_one(Welcome).enter()

    @on(Prompt.HelpWanted)
    async def show_help(self) -> None:
        await self.run_action("app.show_help")

    @on(ConversationList.Opened)
    async def open(self, event: ConversationList.Opened) -> None:
        await self.open_conversation(event.conversation_id)
        if not self.has_class("-wide"):
            self.remove_class("-toggled")
        self.query_one(Prompt).focus()

    async def open_conversation(self, conversation_id: str | None) -> None:
        """Shows a conversation as stored, and the running answer where it belongs to it. None: a new conversation."""
        turns: list[Turn] = []
        title = ""
        if conversation_id is not None:
            try:
                store = self.core.store
                title = store.conversation(conversation_id).title
                turns = Turn.of_thread(store.thread(conversation_id), store.messages(conversation_id))
            except StorageError as error:
                self._complain(error)
                return
        self.conversation = conversation_id
        if self._live and self._live.conversation == conversation_id:
            live, verifies = self._live.turn, self._live.verifies
            at = next((at for at, turn in enumerate(turns) if verifies and turn.message == verifies), len(turns))
            if at == len(turns) and turns and turns[-1].message in ("", live.message):
                at -= 1  # As stored: the question, and the answer as far as its last checkpoint.
            turns[at : at + 1] = [live]
        self.query_one(Prompt).earlier = [turn.question for turn in turns if turn.question]
        self._show_conversation(title)
        await self.query_one(Transcript).show(turns)
        await self._show_waiting()
        self._need_title()

    async def action_new(self) -> None:
        await self.open_conversation(None)
        self.query_one(Prompt).focus()

    def action_stop(self) -> None:
        if self._live and self._live.queued:
            try:
                self.core.outbox.unqueue(self._live.queued)  # Or it would be tried again.
            except NotFound:
                pass  # It is answered already.
            except StorageError as error:
                self._complain(error)
        self.core.stop()

    async def action_verify(self) -> None:
        """Has the last drafted answer verified: now, or where the verifier is not there, when it is back."""
        turns = self.query_one(Transcript).turns
        turn = next((turn for turn in reversed(turns) if turn.verifiable), None)
        if turn is None or self.conversation is None:
            self.notify("No answer here waits to be verified.")
        elif turn.awaiting or self.core.status().mode in ("offline", "warming"):
            try:
                if turn.awaiting:
                    for queued in self._waiting():
                        if queued.message_id == turn.message:
                            self.core.outbox.unqueue(queued.id)
                else:
                    self.core.outbox.enqueue_verification(turn.message)
            except StorageError as error:
                self._complain(error)
            await self._show_waiting()
        elif self._live:
            self._say_busy()
        else:
            running = Running(self.conversation, Turn(turn.question), turn.message)
            await self._show_running(running)
            self._follow(running, self.core.verify(turn.message))

    def action_toggle_list(self) -> None:
        self.toggle_class("-toggled")
        conversations = self.query_one(ConversationList)
        self.call_after_refresh((conversations if conversations.display else self.query_one(Prompt)).focus)

    def action_toggle_rounds(self) -> None:
        self.query_one(Rounds).toggle()

    def action_copy_code(self) -> None:
        turns = self.query_one(Transcript).turns
        code = turns[-1].code if turns else ""
        if code:
            self.app.copy_to_clipboard(code)
            self.notify(code if len(code) <= 200 else f"{code[:200]} …", title="Copied", markup=False)
        else:
            self.notify("The last answer has no code block.", severity="warning")

    async def _ask(self, question: str) -> None:
        prompt = self.query_one(Prompt)
        if self._live:
            self._say_busy()
            return
        try:
            conversation = self._begin_conversation(question)
        except StorageError as error:
            self._complain(error)
            prompt.write(question)
            return
        prompt.write("")
        running = Running(conversation, Turn(question))
        await self._show_running(running)
        self._follow(running, self.core.reply(conversation, question))

    def _begin_conversation(self, prompt: str) -> str:
        """The open conversation, or where there is none a new one, named after its first prompt."""
        if self.conversation is None:
            title = " ".join(prompt.split())
            title = title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 1].rstrip()}…"
            self.conversation = self.core.store.create_conversation(title).id
            self._show_conversation(title)
        return self.conversation

    async def _show_running(self, running: Running) -> None:
        prompt, transcript, turn = self.query_one(Prompt), self.query_one(Transcript), running.turn
        self._live = running
        prompt.answering = True
        if running.conversation != self.conversation:
            return
        old = next((old for old in transcript.turns if running.verifies and old.message == running.verifies), None)
        if old is not None:
            await transcript.replace(old, turn)
        else:
            prompt.earlier.append(turn.question)
            await transcript.add(turn)
        self._need_title()

    @work(group="reply")
    async def _follow(self, running: Running, answer: AsyncIterator[Event]) -> None:
        await self._listen(running, answer)

    async def _listen(self, running: Running, answer: AsyncIterator[Event]) -> None:
        """Feeds one reply's events into its turn; the widgets draw it in their own time."""
        status, prompt, rounds = self.query_one(StatusBar), self.query_one(Prompt), self.query_one(Rounds)
        turn = running.turn
        try:
            async for event in answer:
                turn.apply(event)
                if isinstance(event, Started):
                    await self._show_waiting()
                elif isinstance(event, ModeChanged):
                    self._show_mode(event)
                elif isinstance(event, Stats):
                    status.show_stats(event)
                elif isinstance(event, Paced):
                    rounds.add(event)
                elif isinstance(event, Done):
                    status.show_stats(event.stats)
        except Exception as error:  # The window must outlive whatever a reply dies of; the person gets to read it.
            self.log.error(error)
            turn.apply(Failed(sanitise(f"The answer failed: {error}. Send the question again."), "internal"))
        finally:
            self._live = None
            prompt.answering = False
        if turn.running:
            turn.apply(Failed("The answer ended early. Send the question again.", "internal"))
        await self._settle(running)
        self._list_conversations()

    async def _settle(self, running: Running) -> None:
        """What is shown becomes what is stored, where that is not so by itself."""
        turn, prompt = running.turn, self.query_one(Prompt)
        here = self.conversation == running.conversation
        if not running.verifies and not running.queued:
            if turn.outcome == "failed" and not prompt.text and here:
                prompt.write(turn.question)
        elif turn.error:
            self.notify(turn.error, severity="warning", markup=False)
        if here and (running.verifies or running.queued):
            last = self.query_one(Transcript).turns[-1:]
            if turn.outcome != "done" or not (last and last[0] is turn):
                await self.open_conversation(self.conversation)
        await self._show_waiting()

    @work(group="queue")
    async def _work_off(self) -> None:
        """Sends what waits for the verifier, one after another."""
        async for queued in self.core.outbox.due():
            if self._live is None:
                turn = Turn(sanitise(queued.text))
                running = Running(queued.conversation_id, turn, queued.message_id or "", queued.id)
                await self._show_running(running)
                await self._listen(running, self.core.outbox.send(queued))

    def _waiting(self) -> list[Queued]:
        """What waits of the open conversation. Raises `StorageError`."""
        return [queued for queued in self.core.outbox.queued() if queued.conversation_id == self.conversation]

    async def _show_waiting(self) -> None:
        """Shows the prompts that wait, marks the answers that do, and says which key is of use."""
        transcript = self.query_one(Transcript)
        try:
            waiting = self._waiting()
        except StorageError as error:
            self._complain(error)
            return
        answers = {queued.message_id for queued in waiting}
        for turn in transcript.turns:
            turn.await_verification(turn.message in answers)
        await transcript.refresh_notes()
        await self.query_one(Waiting).show([queued.text for queued in waiting if queued.kind == "ask"])
        self.query_one(Prompt).verifiable = any(turn.verifiable for turn in transcript.turns[-1:])

    def _say_busy(self) -> None:
        self.notify("An answer is still running; Esc stops it.", severity="warning")

    def _show_mode(self, mode: ModeChanged) -> None:
        self.query_one(StatusBar).show_mode(mode)
        self.query_one(Prompt).offline = mode.mode == "offline"

    @work(group="mode")
    async def _watch_mode(self) -> None:
        async for change in self.core.changes():
            self._show_mode(change)

    def _show_conversation(self, title: str) -> None:
        self.set_class(self.conversation is None, "-new")
        self.query_one("#title", Static).update(Content(" ".join(sanitise(title).split())))
        self._list_conversations()

    def _need_title(self) -> None:
        # The title is the first question, which stands right below it as long as it is the only one.
        self.set_class(len(self.query_one(Transcript).turns) > 1, "-titled")

    def _list_conversations(self) -> None:
        try:
            self.query_one(ConversationList).show(self.core.store.conversations(), self.conversation)
        except StorageError as error:
            self._complain(error)

    def _complain(self, error: StorageError) -> None:
        self.notify(sanitise(str(error)), title="Storage", severity="error", markup=False)
