"""The chat screen: conversations at the left, the open one in the middle, the prompt below it."""

from __future__ import annotations

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from app.events import Done, Failed, ModeChanged, Paced, Stats
from app.sanitise import sanitise
from app.tui.core import Core
from app.tui.turn import Turn
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.rounds import Rounds
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.welcome import Welcome
from storage import StorageError

TITLE_LENGTH = 60
WIDE = 110
"""Columns from which the list of conversations has room beside the transcript."""


class ChatScreen(Screen[None]):
    """Holds the one running turn, so that an answer goes on while another conversation is open."""

    CSS_PATH = [
        "chat.tcss",
        "../widgets/message.tcss",
        "../widgets/prompt.tcss",
        "../widgets/rounds.tcss",
        "../widgets/status_bar.tcss",
        "../widgets/transcript.tcss",
        "../widgets/welcome.tcss",
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (72, "-narrow"), (WIDE, "-wide")]
    BINDINGS = [
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
        self._live: tuple[str, Turn] | None = None
        """The conversation and the turn that is being answered."""

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
        self.query_one(StatusBar).show_mode(self.core.status())
        self._watch_mode()
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
                title = self.core.store.conversation(conversation_id).title
                turns = Turn.of_thread(self.core.store.thread(conversation_id))
            except StorageError as error:
                self._complain(error)
                return
        self.conversation = conversation_id
        if self._live and self._live[0] == conversation_id:
            live = self._live[1]
            if turns and turns[-1].message in ("", live.message):
                turns.pop()  # As stored: the question, and the answer as far as its last checkpoint.
            turns.append(live)
        self.query_one(Prompt).earlier = [turn.question for turn in turns if turn.question]
        self._show_conversation(title)
        await self.query_one(Transcript).show(turns)
        self._need_title()

    async def action_new(self) -> None:
        await self.open_conversation(None)
        self.query_one(Prompt).focus()

    def action_stop(self) -> None:
        self.core.stop()

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
            self.notify("An answer is still running; Esc stops it.", severity="warning")
            return
        if self.conversation is None:
            title = " ".join(question.split())
            title = title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 1].rstrip()}…"
            try:
                self.conversation = self.core.store.create_conversation(title).id
            except StorageError as error:
                self._complain(error)
                prompt.write(question)
                return
            self._show_conversation(title)
        turn = Turn(question)
        self._live = (self.conversation, turn)
        prompt.write("")
        prompt.earlier.append(question)
        prompt.answering = True
        await self.query_one(Transcript).add(turn)
        self._need_title()
        self._answer(self.conversation, turn)

    @work(group="reply")
    async def _answer(self, conversation_id: str, turn: Turn) -> None:
        """Feeds one reply's events into its turn; the widgets draw it in their own time."""
        status, prompt, rounds = self.query_one(StatusBar), self.query_one(Prompt), self.query_one(Rounds)
        try:
            async for event in self.core.reply(conversation_id, turn.question):
                turn.apply(event)
                if isinstance(event, ModeChanged):
                    status.show_mode(event)
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
        if turn.outcome == "failed" and not prompt.text and self.conversation == conversation_id:
            prompt.write(turn.question)
        self._list_conversations()

    @work(group="mode")
    async def _watch_mode(self) -> None:
        async for change in self.core.changes():
            self.query_one(StatusBar).show_mode(change)

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
