"""The Textual application: themes, and the chat screen on top of a core."""

from __future__ import annotations

from textual.app import App
from textual.binding import Binding

from app.tui.core import Core
from app.tui.screens.chat import ChatScreen
from app.tui.screens.help import HelpScreen
from app.tui.theme import DARK, LIGHT


class OutriderApp(App[None]):
    """Opens at once; whatever is not ready yet shows in the badge of the status bar."""

    TITLE = "Outrider"
    BINDINGS = [
        Binding("ctrl+q", "quit", "Quit", id="app.quit", priority=True),
        Binding("f1", "show_help", "Help", id="app.help", priority=True),
        Binding("f2", "toggle_theme", "Light or dark", id="app.theme"),
    ]

    def __init__(self, core: Core) -> None:
        super().__init__()
        self.core = core
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name

    def on_mount(self) -> None:
        self.push_screen(ChatScreen(self.core))

    def action_show_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name
