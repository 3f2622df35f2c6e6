"""The chat screen: conversations at the left, the open one in the middle, the prompt below it."""

from __future__ import annotations

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from app.tui.screens.queueing import Queueing
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.rounds import Rounds
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.welcome import Welcome

WIDE = 110
"""Columns from which the list of conversations has room beside the transcript."""


class ChatScreen(Queueing):
    """The widgets, what leads from one to another, and the layout for each width."""

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
        Binding("ctrl+n", "new", "New conversation", id="chat.new", priority=True),
        Binding("ctrl+b", "toggle_list", "Conversations", id="chat.list", priority=True),
        Binding("ctrl+y", "copy_code", "Copy the last answer's code", id="chat.copy", priority=True),
        Binding(
            "ctrl+r", "toggle_rounds", "The last rounds: what was drafted, and why", id="chat.rounds", priority=True
        ),
        Binding("question_mark", "app.show_help", "Help", id="chat.help"),
    ]

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
        self.begin_composing()
        self.show_mode(self.core.status())
        self._watch_mode()
        self.work_off()
        self.show_conversation("")
        self.query_one(Prompt).focus()

    def on_unmount(self) -> None:
        self.end_composing()
        self.core.stop()

    def on_resize(self, event: events.Resize) -> None:
        if (event.size.width >= WIDE) != self.has_class("-wide"):
            self.remove_class("-toggled")  # What the person chose holds for the layout it was chosen in.

    @on(Welcome.Picked)
    async def send_example(self, event: Welcome.Picked) -> None:
        self.query_one(Prompt).focus()
        await self.ask(event.question)

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

    async def action_new(self) -> None:
        await self.open_conversation(None)
        self.query_one(Prompt).focus()

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

    @work(group="mode")
    async def _watch_mode(self) -> None:
        async for change in self.core.changes():
            self.show_mode(change)
