"""The chat screen: conversations at the left, the open one in the middle, the prompt below it."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from app.config import Settings
from app.tui.core import Core
from app.tui.screens.chat.list_actions import Organising
from app.tui.screens.chat.message_actions import MessageActions
from app.tui.widgets.panel import WIDTH as PANEL
from app.tui.widgets.panel import Panel
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.rounds import Rounds
from app.tui.widgets.sidebar import Sidebar
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.welcome import Welcome

NARROW = 72
"""Columns from which the transcript has margins, and the list of conversations room beside it for a while."""
WIDE = 110
"""Columns from which that list stays."""
BESIDE = 100
"""Columns from which the panel stands beside the transcript; else it lies over it."""


class ChatScreen(MessageActions, Organising):
    """The widgets, what leads from one to another, and the layout for each width."""

    CSS_PATH = [
        "screen.tcss",
        "../../widgets/message.tcss",
        "../../widgets/panel.tcss",
        "../../widgets/prompt.tcss",
        "../../widgets/rounds.tcss",
        "../../widgets/sidebar.tcss",
        "../../widgets/status_bar.tcss",
        "../../widgets/transcript.tcss",
        "../../widgets/queued_prompts.tcss",
        "../../widgets/welcome.tcss",
    ]
    BINDINGS = [
        Binding("ctrl+n", "new", "New conversation", id="chat.new", priority=True),
        Binding("ctrl+y", "copy_code", "Copy the last answer's code", id="chat.copy", priority=True),
        Binding(
            "ctrl+r", "toggle_rounds", "The last rounds: what was drafted, and why", id="chat.rounds", priority=True
        ),
        Binding("f3", "toggle_panel", "Figures of drafting and verifying", id="chat.panel", priority=True),
        Binding("question_mark", "app.show_help", "Help", id="chat.help"),
    ]

    @dataclass
    class PanelShown(Message):
        """The person wants the panel, or does not."""

        shown: bool

    def __init__(self, core: Core, settings: Settings, *, panel: bool = False) -> None:
        super().__init__(core, settings)
        self._panel_first = panel

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"):
            yield Sidebar()
            with Vertical(id="main"):
                yield Static(id="title", markup=False)
                yield Welcome()
                yield Transcript()
                yield Rounds()
                yield Prompt()
            yield Panel()
        yield StatusBar()

    def on_mount(self) -> None:
        self.begin_composing()
        self.show_mode(self.core.status())
        self._watch_mode()
        self.work_off()
        self.show_conversation("")
        self.query_one(Panel).show(self._panel_first)
        self.set_focus(self.query_one(Prompt))
        self.watch(self.app, "app_focus", self._come_back, init=False)

    def _come_back(self, focused: bool) -> None:
        if focused and self.alive:
            self.list_conversations()
            self._look_up()

    @work(group="look-up", exclusive=True)
    async def _look_up(self) -> None:
        """Shows what another window did, as soon as the terminal says that the person is back at this one."""
        await self.catch_up()

    def on_unmount(self) -> None:
        self.end_composing()
        self.core.stop()

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out(event.size.width)

    def on_screen_resume(self) -> None:
        self._lay_out(self.app.size.width)  # What lay over it has heard of a new size, and this has not.

    def _lay_out(self, width: int) -> None:
        """Says in classes what there is room for: `-slim`, `-narrow` or `-wide`; the panel takes its part of it."""
        panel = self.query_one(Panel)
        beside = panel.display and width >= BESIDE
        self.set_class(panel.display and not beside, "-over")
        room = width - PANEL if beside else width
        layout = "-wide" if room >= WIDE else "-narrow" if room >= NARROW else "-slim"
        if not self.has_class(layout):
            self.remove_class("-toggled")  # What the person chose holds for the layout it was chosen in.
            for name in ("-slim", "-narrow", "-wide"):
                self.set_class(name == layout, name)
            self.focus_what_is_shown()

    def action_toggle_panel(self) -> None:
        self._show_panel(not self.query_one(Panel).display)

    def _show_panel(self, shown: bool) -> None:
        self.query_one(Panel).show(shown)
        self._lay_out(self.size.width)
        self.post_message(self.PanelShown(shown))

    @on(Welcome.Picked)
    async def send_example(self, event: Welcome.Picked) -> None:
        self.set_focus(self.query_one(Prompt))
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

    async def action_new(self) -> None:
        await self.open_conversation(None)
        self.set_focus(self.query_one(Prompt))

    def action_toggle_rounds(self) -> None:
        self.query_one(Rounds).toggle()

    def action_copy_code(self) -> None:
        turns = self.query_one(Transcript).turns
        code = turns[-1].code if turns else ""
        if code:
            self.app.copy_to_clipboard(code)
        else:
            self.notify("The last answer has no code block.", severity="warning")

    @work(group="mode")
    async def _watch_mode(self) -> None:
        async for change in self.core.changes():
            self.show_mode(change)
            self.measure()  # Another verifier may read more, or less.
