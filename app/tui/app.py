"""The Textual application: themes, keys, the command palette, and the chat screen on top of a core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual import on
from textual.app import App, SystemCommand
from textual.notifications import Notify
from textual.screen import Screen

from app.config import Settings
from app.sanitise import sanitise
from app.tui.bindings import EVERYWHERE, checked, rooms_near
from app.tui.clipboard import Copying
from app.tui.core import Core
from app.tui.saved_state import SavedState
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.help import HelpScreen
from app.tui.textual_private import drop_notification, shown_notifications
from app.tui.theme import DARK, LIGHT

if TYPE_CHECKING:
    from textual.command import Provider

    from app.remotes.switcher import RemoteSwitcher


# The palette's own modules are read when it is opened for the first time.


def _actions() -> type[Provider]:
    from app.tui.palette import ActionCommands

    return ActionCommands


def _themes() -> type[Provider]:
    from app.tui.palette import ThemeCommands

    return ThemeCommands


def _conversations() -> type[Provider]:
    from app.tui.palette import ConversationCommands

    return ConversationCommands


class OutriderApp(Copying):
    """Opens at once; whatever is not ready yet shows in the badge of the status bar.

    `desk`: what can be done with remotes; None: nothing. Raises `ConfigError` for what the settings get wrong of its
    keys.
    """

    TITLE = "Outrider"
    BINDINGS = [*EVERYWHERE]
    COMMANDS = App.COMMANDS | {_actions, _themes, _conversations}

    def __init__(self, core: Core, settings: Settings | None = None, desk: RemoteSwitcher | None = None) -> None:
        self.settings = settings or Settings()
        mapped = checked(self.settings.keys)
        super().__init__()
        self.core = core
        self.desk = desk
        self.set_keymap(mapped)
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self._file = core.store.path.with_name("screen.json")
        self.remembered = SavedState.load(self._file)
        known = self.remembered.theme in self.available_themes
        self.theme = self.remembered.theme if known else DARK.name

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda theme: self.remember(theme=theme.name))
        self.push_screen(ChatScreen(self.core, self.settings, panel=self.remembered.panel))
        if self.desk is not None and self.desk.trouble:
            self.notify(sanitise(self.desk.trouble), title="Remotes", severity="error", timeout=15, markup=False)

    @on(ChatScreen.PanelShown)
    def remember_panel(self, event: ChatScreen.PanelShown) -> None:
        self.remember(panel=event.shown)

    def remember(self, **changes: str | bool) -> None:
        """Keeps how the screen looks for the next start."""
        for name, value in changes.items():
            setattr(self.remembered, name, value)
        try:
            self.remembered.save(self._file)
        except OSError as error:  # The database lies in the same folder, and complains of what matters.
            self.log.warning(error)

    def on_notify(self, event: Notify) -> None:
        """Replace an identical toast: a key that is held down would cover the answer."""
        for shown in shown_notifications(self):
            if shown.message == event.notification.message:
                drop_notification(self, shown)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What Textual itself offers and no action of ours does."""
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
            self.push_screen(HelpScreen(rooms_near(self.screen.focused or self.screen)))

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "show_remotes" or self.desk is not None

    def action_show_remotes(self) -> None:
        from app.tui.screens.remotes import RemotesScreen  # Forms are not on the first frame.

        if self.desk is not None and not any(isinstance(screen, RemotesScreen) for screen in self.screen_stack):
            self.push_screen(RemotesScreen(self.desk))
