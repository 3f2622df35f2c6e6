"""The chat screen: conversations at the left, the open one in the middle, figures at the right and below."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen

from app.config import BUNDLED_TARGET, Settings
from app.events import ModeChanged
from app.files import current_folder
from app.model_names import short_model
from app.remotes.registry import BUNDLED
from app.reply.assistant import Assistant
from app.sanitise import sanitise
from app.tui.background import begin
from app.tui.completion import completion_of_paths
from app.tui.keymap import key_of
from app.tui.metrics import SessionMetrics
from app.tui.notices import excerpt, reporting
from app.tui.open_conversation import UNREACHABLE, OpenConversation
from app.tui.screens.chat.choices import (
    ask_about_call,
    choose_sampling,
    choose_system,
    choose_tools,
    keep_model,
    sampling_text,
    server_now,
    tell_if_gone,
)
from app.tui.screens.chat.commands import PromptCommands
from app.tui.screens.chat.conversation import ConversationView
from app.tui.screens.chat.listings import Listings
from app.tui.screens.chat.message_actions import MessageActions
from app.tui.screens.chat.replies import Replies
from app.tui.slash import completion_of_commands
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.message import AnswerView
from app.tui.widgets.panel import WIDTH as PANEL
from app.tui.widgets.panel import Panel
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.sidebar import Sidebar
from app.tui.widgets.status_bar import StatusBar, shortened
from app.tui.widgets.transcript import QueuedPrompts
from app.tui.widgets.welcome import FirstLook
from storage import Choices, Conversation, StorageError
from storage.choices import NONE

if TYPE_CHECKING:
    from app.remotes.switcher import RemoteSwitcher

LOOK_SECONDS = 2.0
"""Seconds between checks for changes by other windows."""
LEAVING_SECONDS = 4.0
"""Seconds within which a second Ctrl+C quits."""

NAME = 24
"""Characters of a model's name in the hint below the prompt."""
NARROW = 72
"""Minimum columns for margins around the transcript, and for opening the list of conversations next to it."""
WIDE = 110
"""Minimum columns for keeping that list open."""
BESIDE = 100
"""Minimum columns for showing the panel next to the transcript instead of over it."""


class ChatScreen(Screen[None]):
    """Combines the widgets, lays them out for each width, and has the keys that act regardless of the focus."""

    CSS_PATH = [
        "screen.tcss",
        "../../widgets/message.tcss",
        "../../widgets/panel.tcss",
        "../../widgets/prompt.tcss",
        "../../widgets/sidebar.tcss",
        "../../widgets/status_bar.tcss",
        "../../widgets/system_line.tcss",
        "../../widgets/transcript.tcss",
        "../../widgets/welcome.tcss",
    ]
    BINDINGS = [
        Binding("ctrl+n", "new", "New conversation", id="chat.new", priority=True),
        Binding("ctrl+y", "copy_code", "Copy the last answer's code", id="chat.copy", priority=True),
        Binding("f9", "toggle_rounds", "Statistics of the last rounds", id="chat.rounds", priority=True),
        Binding("f3", "toggle_panel", "Panel: statistics of drafting and checking", id="chat.panel", priority=True),
        Binding("question_mark", "app.show_help", "Help", id="chat.help"),
        Binding("alt+up", "move_cursor(-1)", "Select the previous message", id="message.previous"),
        Binding("alt+down", "move_cursor(1)", "Select the next message", id="message.next"),
        Binding("f7", "show_queue", "Queue: what waits for the server", id="chat.queue", priority=True),
        Binding(
            "ctrl+t",
            "verify",
            "Have the model check the drafted answer; offline: queue it",
            id="chat.verify",
            priority=True,
        ),
        Binding("escape", "escape", "Stop the answer, keep its text", id="chat.stop"),
        Binding("ctrl+b", "toggle_list", "Conversations", id="chat.list", priority=True),
        Binding("ctrl+f", "search", "Search in all conversations", id="chat.search", priority=True),
        Binding("alt+s", "system", "System prompt: choose, write, library", id="chat.system", priority=True),
        Binding("alt+u", "toggle_system", "Unfold the system prompt", id="chat.system_line", priority=True),
        Binding("alt+p", "sampling", "Sampling settings of this conversation", id="chat.sampling", priority=True),
        Binding("f6", "export", "Export this conversation, or all", id="chat.export", priority=True),
    ]

    @dataclass
    class PanelShown(Message):
        """The person wants the panel, or does not."""

        shown: bool

    def __init__(
        self,
        core: Assistant,
        settings: Settings,
        *,
        panel: bool = False,
        offer_look: bool = False,
        first: Choices = NONE,
        told: Path | None = None,
    ) -> None:
        """`first`: what new conversations begin with. `offer_look`: ask once to look for servers on this device.

        `told`: file of the small models that were already offered, or None to never ask about one.
        """
        super().__init__()
        self.conversation = OpenConversation(core, first)
        self._core = core
        self._settings = settings
        self._panel_first = panel
        self._offer_look = offer_look
        self._told = told
        self._offering = False
        """Whether the person is being asked about a small model, or it is being fetched."""
        metrics = SessionMetrics()
        self._sidebar = Sidebar(self.conversation)
        self._view = ConversationView(self.conversation, metrics)
        self.commands = PromptCommands(self, self._view, self._sidebar, self.conversation, settings)
        self._listings = Listings(self._view.prompt, self.conversation)
        self._panel = Panel(metrics)
        self._status = StatusBar()
        self._looking = False
        """Whether a check for changes by other windows is in progress."""
        self._mode_reported = False
        """Whether the shown mode is the one that a reply reported."""
        self._figures_of: tuple[str | None, ...] = ()
        """The conversation, the server and the model whose figures the status bar shows."""
        self.leaving = False
        """Whether Ctrl+C was pressed a moment ago with nothing to copy, clear or stop."""

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"):
            yield self._sidebar
            yield self._view
            yield self._panel
        yield self._status

    def on_mount(self) -> None:
        if (switcher := self._switcher) is not None:
            self.conversation.fresh = lambda: switcher.fresh
            self.conversation.renew()
        prompt, commands = self._view.prompt, self.commands
        prompt.commands = commands.offered
        prompt.servers, listings = self._listings.servers, self._listings
        words = completion_of_commands(commands.offered, commands.values, commands.about)
        prompt.providers += [listings.after_slash(words), listings.after_at(completion_of_paths(current_folder()))]
        self._show_mode(self._core.status())
        self._watch_mode()
        self._tell_news()
        self._panel.show(self._panel_first)
        self._view.welcome.offer_look(self._offer_look)
        self.set_focus(self._view.prompt)
        self.watch(self.app, "app_focus", self._come_back, init=False)
        self.set_interval(LOOK_SECONDS, self._look_around)
        self.set_interval(LOOK_SECONDS, self._watch_stand_in)

    def on_unmount(self) -> None:
        self._view.text.close()
        self._core.stop()

    @property
    def _alive(self) -> bool:
        """The window is not closing."""
        return self.is_attached and self._view.alive and self._status.is_attached and self._sidebar.is_attached

    # ---- escape ------------------------------------------------------------------------------------------------------

    def action_escape(self) -> None:
        """Escape: end or leave one thing, the first of these that there is.

        What has the focus hears the key first, by its own binding:
        1. a screen over this one closes (`help.close`, `log.close`, `queue.close`, `export.close`, ...),
        2. the name that is edited in the list stays the old one (`rename.drop`),
        3. the search is cleared, and the list has the focus (`search.clear`),
        4. the list is left for the prompt (`list.leave`),
        5. the completions above the prompt close (`prompt.close`).
        Then this method is called (`chat.stop`):
        6. the edit of a question is given up,
        7. the messages are left for the prompt,
        8. the question of the first start is answered with "not now", if nothing is typed,
        9. the running reply of the open conversation is stopped; its text stays,
        10. the question about a model on this device is answered with "never".
        """
        if self._view.text.edit is not None:
            self._view.text.end_edit()
        elif self._view.messages.transcript.has_focus:
            self.set_focus(self._view.prompt)
        elif self._view.welcome.offers_look and not self._view.prompt.text:
            self.post_message(FirstLook.Answered())
        elif self._view.local_offer.asks and self.conversation.live is None:
            self._view.local_offer.decline()
        else:
            self._view.stop()

    def end_offer(self) -> None:
        self._view.welcome.offer_look(False)

    @on(Prompt.Cancelled)
    def cancel(self) -> None:
        """Ctrl+C in an empty prompt."""
        if self.conversation.live:
            self.action_escape()
        else:
            self._quit_at_once_more()

    def _quit_at_once_more(self) -> None:
        """Quit if this was called a moment ago; otherwise say how to quit."""
        if self.leaving:
            begin(self, partial(self.run_action, "app.quit"))
            return
        self.leaving = True
        self.set_timer(LEAVING_SECONDS, self._stay)
        key = key_of(self._view.prompt, "prompt.cancel").capitalize()
        self.notify(f"Press {key} again to quit.", timeout=LEAVING_SECONDS)

    def _stay(self) -> None:
        self.leaving = False

    def action_copy_text(self) -> None:
        """Ctrl+C outside the prompt: copy what is selected, else stop the reply."""
        if self.get_selected_text():
            super().action_copy_text()
        elif self.conversation.live:
            self._view.stop()
        else:
            self.cancel()

    # ---- the open conversation ---------------------------------------------------------------------------------------

    async def open_conversation(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Show a conversation at a message if one is given, or a new conversation if `conversation_id` is None."""
        await self._view.open(conversation_id, message_id)
        if (switcher := self._switcher) is not None:
            tell_if_gone(self, self.conversation, switcher)

    def accept_local(self) -> bool:
        """Answer yes if the person is being asked to let a model on this device answer. Returns whether they are."""
        asked = self._view.local_offer.asks
        if asked:
            self._view.local_offer.accept()
        return asked

    @property
    def _switcher(self) -> RemoteSwitcher | None:
        return getattr(self.app, "switcher", None)

    async def action_new(self) -> None:
        await self.open_conversation(None)
        self.set_focus(self._view.prompt)

    async def action_move_cursor(self, step: int) -> None:
        await self._view.messages.move_cursor(step)

    async def action_verify(self) -> None:
        await self._view.verify()

    def action_copy_code(self) -> None:
        self._view.messages.copy_last_code()

    def action_toggle_rounds(self) -> None:
        self._view.rounds.toggle()

    def on_click(self, event: events.Click) -> None:
        if event.widget is not None and self.query_one(QueuedPrompts) in event.widget.ancestors_with_self:
            self.action_show_queue()

    @work(group="queue-screen", exclusive=True)
    async def action_show_queue(self) -> None:
        from app.tui.screens.queue import QueueScreen

        screen = QueueScreen(self._core)
        chosen = await self.app.push_screen_wait(screen)
        for text in screen.removed:
            self._view.prompt.keep_in_reach(text)
        if chosen not in (None, self.conversation.id):
            await self._view.open(chosen)
        else:
            await self._view.look_again()

    # ---- what is chosen for the conversation -------------------------------------------------------------------------

    @work(group="choices", exclusive=True)
    async def action_system(self, given: str = "") -> None:
        """Choose the system prompt. `given`: a name of the library, a text, or `none`; empty: ask."""
        await choose_system(self, self.conversation, given)
        self._view.show_choices()

    def action_toggle_system(self) -> None:
        self._view.system.toggle()

    @work(group="choices", exclusive=True)
    async def action_tools(self) -> None:
        await choose_tools(self, self.conversation)

    @on(Replies.CallAsks)
    def ask_about_call(self, event: Replies.CallAsks) -> None:
        begin(self, partial(ask_about_call, self, self.conversation), group="calls")

    @work(group="choices", exclusive=True)
    async def action_sampling(self) -> None:
        await choose_sampling(self, self.conversation, self._settings)
        self._view.show_choices()

    @on(ConversationView.Chosen)
    def show_sampling(self) -> None:
        if self._alive:
            self._drop_figures()
            self._introduce(self._core.status())
            self._panel.show_sampling(sampling_text(self.conversation))
            self.measure()

    # ---- screens over the chat ---------------------------------------------------------------------------------------

    @on(Prompt.SearchWanted)
    @work(group="asked", exclusive=True)
    async def search_asked(self) -> None:
        """Put a prompt that was sent before into the prompt again."""
        from app.tui.screens.recall import RecallScreen

        prompt = self._view.prompt
        chosen = await self.app.push_screen_wait(RecallScreen(prompt.earlier))
        if chosen is not None:
            prompt.put(chosen)
        self.set_focus(prompt)

    @work(group="models", exclusive=True)
    async def pick_model(self, switcher: RemoteSwitcher, words: str) -> None:
        """Let the person pick who answers the open conversation, and perhaps new ones."""
        from app.tui.screens.models import ModelsScreen

        now = server_now(self.conversation, switcher)
        picked = await self.app.push_screen_wait(ModelsScreen(switcher, now, self._core.standing_by, words))
        if picked == "local":
            await self.run_action("app.show_local")
        elif picked is not None:
            keep_model(self, self.conversation, switcher, picked)
            self._show_mode(self._core.status())
            self._drop_figures()
        self.set_focus(self._view.prompt)

    def _come_back(self, focused: bool) -> None:
        """Show another window's changes as soon as the terminal reports that this one has the focus."""
        if focused:
            self._catch_up()

    @work(group="look-around")
    async def _look_around(self) -> None:
        """Show another window's changes, for windows side by side and terminals that do not report focus."""
        if self._looking:
            return  # One that is cancelled would forget what it has found.
        self._looking = True
        try:
            if await asyncio.to_thread(self.conversation.changed_elsewhere):
                self._catch_up()
        finally:
            self._looking = False

    def _catch_up(self) -> None:
        if self._alive:
            self._sidebar.refresh_list()
            begin(self, self._view.catch_up, group="look-up")

    @on(MessageActions.ShellAsked)
    def show_for_shell(self, event: MessageActions.ShellAsked) -> None:
        """Show what the person's shell gets when they quit.

        The message is passed on to the application, which stores it.
        """
        self._status.show_for_shell(event.command)
        if event.command:
            when = f"When you quit ({key_of(self, 'app.quit')})"
            said = f"{when}, this command is put into your shell, but not run:\n{excerpt(event.command)}"
            self.notify(said, title="For your shell", timeout=10, markup=False)
        else:
            self.notify("No command will be put into your shell.")

    @on(Prompt.Named)
    @work(group="fill")
    async def fill_in(self, event: Prompt.Named) -> None:
        await self._listings.fill(event.wanted, event.text)

    @on(Prompt.Commanded)
    async def obey(self, event: Prompt.Commanded) -> None:
        await self.commands.run(event.typed, event.text)

    @on(AnswerView.SourcesAsked)
    @work(group="sources", exclusive=True)
    async def show_sources(self, event: AnswerView.SourcesAsked) -> None:
        from app.tui.screens.page_sources import show_sources

        await show_sources(self, self._settings, event.sources)

    # ---- the list ----------------------------------------------------------------------------------------------------

    def action_toggle_list(self) -> None:
        self._sidebar.toggle()
        # Immediately, as everywhere here: the next letters are meant for it, and may arrive in the same burst.
        self.set_focus(self._sidebar.conversations if self._sidebar.display else self._view.prompt)

    def action_search(self) -> None:
        self._sidebar.search()

    @on(Sidebar.Left)
    def leave_list(self) -> None:
        """Go back to the prompt, and close a list that covers it."""
        if not self.has_class("-wide"):
            self.remove_class("-toggled")
        self.set_focus(self._view.prompt)

    @on(ConversationList.Opened)
    async def open(self, event: ConversationList.Opened) -> None:
        await self.open_conversation(event.conversation_id, event.message_id)
        if not event.stays:
            self._sidebar.end_search()
            self.leave_list()

    @on(Sidebar.TitleChanged)
    def rename(self, event: Sidebar.TitleChanged) -> None:
        self._view.rename(event.title)

    @on(ConversationView.ListChanged)
    def refresh_list(self) -> None:
        if self._alive:
            self._sidebar.refresh_list()

    def action_export(self) -> None:
        with reporting(self):
            open_one = self.conversation.id
            self._export(None if open_one is None else self._core.store.conversations.get(open_one))

    @on(Sidebar.ExportAsked)
    def export_one(self, event: Sidebar.ExportAsked) -> None:
        self._export(event.conversation)

    @work(group="export")
    async def _export(self, conversation: Conversation | None) -> None:
        from app.tui.screens.export import export  # What writes files is not needed at the start.

        await export(self, self._core.store, self._settings, conversation)

    # ---- figures -----------------------------------------------------------------------------------------------------

    @work(group="news")
    async def _tell_news(self) -> None:
        news = await self._core.news()
        if news and self._told is not None:
            from app.tui.screens.chat.small_models import tell_news  # What fetches is not needed at the start.

            await tell_news(self, news, self._told)

    @work(group="mode")
    async def _watch_mode(self) -> None:
        async for change in self._core.changes(lambda: self.conversation.live is not None):
            self._mode_reported = False
            self._show_mode(change)
            self.measure()  # Another verifier may read more, or less.

    @on(Replies.ModeReported)
    def show_reported_mode(self, event: Replies.ModeReported) -> None:
        if self._alive:
            self._mode_reported = True
            self._show_mode(event.mode)

    @work(group="offer")
    async def _offer_drafter(self) -> None:
        """Ask about the small model that the server offers, if it offers one."""
        from app.tui.screens.chat.small_models import offer_drafter  # What fetches is not needed at the start.

        offer = self._core.offer
        if self._told is None or offer is None or self._offering:
            return
        self._offering = True
        try:
            await offer_drafter(self, self._core, offer, self._told)
        finally:
            self._offering = False

    def _show_mode(self, mode: ModeChanged) -> None:
        if self._core.offer is not None:
            self._offer_drafter()
        self._status.show_mode(mode)
        self._panel.show_mode(mode)
        self._view.prompt.offline = self._here(mode) if mode.mode == "offline" and mode.alone else ""
        self._introduce(mode)
        if self._told is not None and (stand_ins := getattr(self.app, "stand_ins", None)) is not None:
            self._view.local_offer.consider(stand_ins, self._told)

    def _watch_stand_in(self) -> None:
        """Show in the panel what the model on this device does, which nothing reports."""
        if self._panel.display:
            self._panel.show_stand_in(self._core.standing_by)

    def _here(self, mode: ModeChanged) -> str:
        """Who answers on this device while the server is away, in words."""
        local = self._core.standing_by
        return shortened(local.name, NAME) if local is not None and local.name == mode.model else "the small model"

    def _introduce(self, mode: ModeChanged) -> None:
        self._view.introduce(self._stranger(mode), drafts=mode.checks and mode.mode not in UNREACHABLE)

    def _stranger(self, mode: ModeChanged) -> str | None:
        """Name the model and the server of the open conversation, or return None for Shell Guide."""
        server = self.conversation.choices.remote or (None if self._switcher is None else self._switcher.now)
        named = "" if mode.mode in UNREACHABLE else mode.model
        if server in (None, BUNDLED):
            target = Path(self._settings.target)
            return None if target == BUNDLED_TARGET else f"{target.name}, on this device,"
        model = short_model(named or self.conversation.choices.model or "")
        if model == BUNDLED_TARGET.name:
            return None
        return f"{model}, on the server {sanitise(server)}," if model else f"The model of the server {sanitise(server)}"

    @on(Replies.StatsChanged)
    def show_stats(self, event: Replies.StatsChanged) -> None:
        """Show the new figures of the open conversation's answer, or count those of another one that has ended."""
        if self._alive:
            if event.conversation == self.conversation.id:
                self._status.show_stats(event.stats)
            self._status.show_context(self.conversation.context, self._makes_room)
            self._panel.draw()

    def _drop_figures(self) -> None:
        """Clear the figures of another conversation, or of another server."""
        opened, choices = self.conversation, self.conversation.choices
        default = None if self._switcher is None else self._switcher.now
        shown = opened.id, choices.remote or default, choices.model
        if shown != self._figures_of:
            self._figures_of = shown
            live = opened.live
            self._status.show_stats(None if live is None else live.stats)
            if live is not None and live.mode is not None:
                self._mode_reported = True
                self._show_mode(live.mode)
            elif self._mode_reported:
                self._mode_reported = False
                self._show_mode(self._core.status())

    @on(ConversationView.Grown)
    @work(exclusive=True, group="context")
    async def measure(self) -> None:
        """Count the tokens of the conversation, and warn once when it nearly fills the context."""
        try:
            nearly_full = await self.conversation.measure()
        except StorageError:
            return  # The person's next action reports it.
        if self._alive:
            self._status.show_context(self.conversation.context, self._makes_room)
            if nearly_full is not None:
                also = f" {self._makes_room} summarises its older messages." if self._makes_room else ""
                self.notify(
                    f"This conversation is nearly full ({nearly_full.used:,} of {nearly_full.limit:,} tokens).{also} "
                    f"{key_of(self, 'chat.new').capitalize()} starts a new conversation.",
                    severity="warning",
                )

    @property
    def _makes_room(self) -> str:
        """The command that makes room in the context, or nothing if it would make none."""
        guide = self._stranger(self._core.status()) is None  # It answers single questions, and sums up nothing.
        return "/compact" if self.conversation.has_old_turns and not guide else ""

    # ---- layout ------------------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out(event.size.width)

    def on_screen_resume(self) -> None:
        self.conversation.renew()
        self._drop_figures()
        self._lay_out(self.app.size.width)  # A screen over this one has heard of a new size, and this one has not.

    def _lay_out(self, width: int) -> None:
        """Set the class for the available width: `-slim`, `-narrow` or `-wide`, without the panel's width."""
        beside = self._panel.display and width >= BESIDE
        self.set_class(self._panel.display and not beside, "-over")
        room = width - PANEL if beside else width
        layout = "-wide" if room >= WIDE else "-narrow" if room >= NARROW else "-slim"
        if not self.has_class(layout):
            self.remove_class("-toggled")  # The person's choice applies to the layout in which it was made.
            for name in ("-slim", "-narrow", "-wide"):
                self.set_class(name == layout, name)
            if self.focused is None or (self._sidebar in self.focused.ancestors and not self._sidebar.display):
                self.set_focus(self._view.prompt)

    def action_toggle_panel(self) -> None:
        shown = not self._panel.display
        self._panel.show(shown)
        self._watch_stand_in()
        self._lay_out(self.size.width)
        self.post_message(self.PanelShown(shown))
