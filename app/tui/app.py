"""The Textual application: themes, keys, the command palette, and the chat screen on top of a core."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from textual import on
from textual.app import App, SystemCommand
from textual.notifications import Notify
from textual.screen import Screen

from app.config import Settings
from app.files import write_private
from app.reply.assistant import Assistant
from app.sanitise import sanitise
from app.tui.background import begin
from app.tui.bindings import EVERYWHERE, checked, rooms_near
from app.tui.clipboard import copy
from app.tui.notices import excerpt
from app.tui.screens.chat.message_actions import MessageActions
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.help import HelpScreen
from app.tui.stand_ins import StandIns
from app.tui.suspension import has_shell, stop_job
from app.tui.textual_private import FewBytes, PlainCrashes, drop_notification, shown_notifications, write_to_terminal
from app.tui.theme import DARK, LIGHT
from app.tui.widgets.welcome import FirstLook
from storage import Choices
from storage.choices import NONE

if TYPE_CHECKING:
    from textual.command import Provider

    from app.remotes.switcher import RemoteSwitcher


GONE_SECONDS = 0.5
"""Time in which an expired toast must disappear."""


class SavedState(msgspec.Struct, kw_only=True):
    """The screen as it was left. The defaults are those of a first start."""

    theme: str = ""
    panel: bool = False
    look_answered: bool = False
    """Whether the person has answered the question about looking for model servers. They are not asked again."""

    @classmethod
    def load(cls, path: Path) -> SavedState:
        """Read the file. A missing or damaged file counts as a first start."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return cls()

    def save(self, path: Path) -> None:
        """Raises `OSError`."""
        write_private(path, msgspec.json.encode(self).decode())


def _provider(name: str) -> Callable[[], type[Provider]]:
    """A provider of the palette, imported when the palette is first opened."""

    def load() -> type[Provider]:
        from app.tui import palette

        provider: type[Provider] = getattr(palette, name)
        return provider

    return load


class OutriderApp(PlainCrashes, FewBytes):
    """The application. It opens at once; the badge of the status bar shows what is not ready yet.

    `switcher`: manages the remotes; without it, the screen of remotes is not available. `first`: what new conversations
    begin with. Raises `ConfigError` for a
    mistake in the keys of the settings.
    """

    TITLE = "Outrider"
    CSS_PATH = Path(__file__).with_name("app.tcss")  # Absolute, for a class that is derived from this one.
    BINDINGS = [*EVERYWHERE]
    COMMANDS = App.COMMANDS | set(map(_provider, ("ActionCommands", "ThemeCommands", "ConversationCommands")))

    def __init__(
        self,
        core: Assistant,
        settings: Settings | None = None,
        switcher: RemoteSwitcher | None = None,
        *,
        first: Choices = NONE,
    ) -> None:
        self.first = first
        self.settings = settings or Settings()
        self.remapped = checked(self.settings.keys)
        """The keys that the person has given to actions, by the id of the binding."""
        super().__init__()
        self.core = core
        self.for_shell = ""
        """The command that the person wants in their shell when they quit; may be empty."""
        self.switcher = switcher
        self.stand_ins = None if switcher is None else StandIns(self.settings, switcher.folders, core)
        self._copied = ""
        self.set_keymap(self.remapped)
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self._file = core.store.path.with_name("screen.json")
        self._saved = SavedState.load(self._file)
        known = self._saved.theme in self.available_themes
        self.theme = self._saved.theme if known else DARK.name

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda theme: self._save(theme=theme.name))
        offer = self.switcher is not None and not self._saved.look_answered and self.switcher.unconfigured
        self.push_screen(
            ChatScreen(
                self.core,
                self.settings,
                panel=self._saved.panel,
                offer_look=offer,
                first=self.first,
                told=None if self.switcher is None else self.switcher.folders.offers,
            )
        )
        if self.switcher is not None and self.switcher.trouble:
            self.notify(sanitise(self.switcher.trouble), title="Servers", severity="error", timeout=15, markup=False)
        if self.stand_ins is not None and (trouble := self.stand_ins.trouble):
            self.notify(sanitise(trouble), title="Local models", severity="warning", timeout=15, markup=False)

    @property
    def _chat(self) -> ChatScreen | None:
        return next((screen for screen in self.screen_stack if isinstance(screen, ChatScreen)), None)

    # ---- saved state -------------------------------------------------------------------------------------------------

    @on(ChatScreen.PanelShown)
    def save_panel(self, event: ChatScreen.PanelShown) -> None:
        self._save(panel=event.shown)

    @on(FirstLook.Answered)
    def end_offer(self) -> None:
        """Record that the question of the first start was answered, and remove it from the screen."""
        self._save(look_answered=True)
        if self._chat is not None:
            self._chat.end_offer()

    def _end_offer_if_configured(self, _: object = None) -> None:
        if self.switcher is not None and not self.switcher.unconfigured:
            self.end_offer()

    def _save(self, **changes: str | bool) -> None:
        for name, value in changes.items():
            setattr(self._saved, name, value)
        try:
            self._saved.save(self._file)
        except OSError as error:  # The database is in the same folder: it reports what matters.
            self.log.warning(error)

    @on(MessageActions.ShellAsked)
    def keep_for_shell(self, event: MessageActions.ShellAsked) -> None:
        self.for_shell = event.command

    # ---- toasts and copies -------------------------------------------------------------------------------------------

    def on_notify(self, event: Notify) -> None:
        """Replace an identical toast, because a key held down would cover the answer with them.

        Sometimes Textual does not redraw the area under a removed toast, so everything is redrawn.
        """
        for toast in [one for one in shown_notifications(self) if one.message == event.notification.message]:
            drop_notification(self, toast)
        self.set_timer(event.notification.time_left + GONE_SECONDS, lambda: self.screen.refresh())

    @property
    def clipboard(self) -> str:
        return self._copied

    def copy_to_clipboard(self, text: str) -> None:
        """Begin to copy a text. Pasting inside the application uses this text."""
        self._copied = text
        begin(self, partial(self._copy, text), group="clipboard")

    async def _copy(self, text: str) -> None:
        try:
            copied = await copy(text, {} if self.is_headless else os.environ)
        except OSError as error:
            said = f"The text could not be copied or saved to a file: {error}. Select a smaller part."
            self.notify(said, severity="error", markup=False)
            return
        if copied.sequence:
            write_to_terminal(self, copied.sequence)
        said = copied.note if copied.file is not None else f"{excerpt(text)}\n{copied.note}".rstrip()
        self.notify(said, title=copied.title, timeout=15 if copied.file is not None else None, markup=False)

    # ---- commands ----------------------------------------------------------------------------------------------------

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Textual's own commands that no action here covers."""
        yield SystemCommand("Theme", "Choose one of all themes", self.action_change_theme)
        yield SystemCommand(
            "Screenshot", "Save this screen as SVG", lambda: self.set_timer(0.1, self.deliver_screenshot)
        )

    def action_show_log(self) -> None:
        from app.tui.screens.log import LogScreen

        if not isinstance(self.screen, LogScreen):
            self.push_screen(LogScreen())

    def action_show_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            commands = self.screen.commands.offered() if isinstance(self.screen, ChatScreen) else []
            self.push_screen(HelpScreen(rooms_near(self.screen.focused or self.screen), commands))

    def action_suspend_process(self) -> None:
        """Stop the whole job, like any program on Ctrl+Z, if there is a shell that can bring it back."""
        if not has_shell():
            self.notify("Outrider cannot be suspended here, because no shell started it.", severity="warning")
            return
        with self.suspend():
            stop_job()

    def action_redraw(self) -> None:
        """Draw every cell: another program may have written on the terminal."""
        self.screen.refresh()

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "pick":
            return self.check_action("models", parameters)
        return action not in ("show_remotes", "show_local", "look_nearby", "models") or self.switcher is not None

    def action_pick(self) -> None:
        """Pick the model of the open conversation, or accept the one on this device that the person is asked about."""
        if not (isinstance(self.screen, ChatScreen) and self.screen.accept_local()):
            self.action_models()

    def action_models(self, words: str = "") -> None:
        """Pick the model of the open conversation. `words`: to search for, or the exact name of a model."""
        if self.switcher is not None and isinstance(self.screen, ChatScreen):
            self.screen.pick_model(self.switcher, words)

    def action_show_remotes(self) -> None:
        from app.tui.screens.remotes import RemotesScreen  # The first frame needs no forms.

        if self.switcher is not None and not any(isinstance(screen, RemotesScreen) for screen in self.screen_stack):
            own = None if self._chat is None else self._chat.conversation.choices.remote
            self.push_screen(RemotesScreen(self.switcher, own), self._end_offer_if_configured)

    def action_show_local(self) -> None:
        from app.tui.screens.local import LocalScreen

        if self.stand_ins is not None and not any(isinstance(screen, LocalScreen) for screen in self.screen_stack):
            self.push_screen(LocalScreen(self.stand_ins))

    @on(FirstLook.Accepted)
    def action_look_nearby(self) -> None:
        """Look for model servers on this device, and show them."""
        from app.tui.screens.nearby import NearbyScreen

        if self.switcher is not None and not any(isinstance(screen, NearbyScreen) for screen in self.screen_stack):
            self.push_screen(NearbyScreen(self.switcher))
