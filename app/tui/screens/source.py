"""The pages that an answer came from, as they stand in the index that Shell Guide reads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen

from app.config import BUNDLED_DRAFTER, Settings
from app.events import PageSource
from app.tui.keymap import hint
from app.tui.notices import complain
from app.tui.sources import read_sources
from app.tui.widgets.markdown_view import MarkdownView
from models.config import DrafterError


class SourceScreen(ModalScreen[None]):
    """Shows pages with all their examples. `text`: their Markdown."""

    CSS_PATH = "source.tcss"
    BINDINGS = [
        Binding("escape,q", "dismiss", "Close", id="source.close"),
        Binding("c", "copy", "Copy the page", id="source.copy"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll() as panel:
            panel.border_title = "Source"
            panel.border_subtitle = hint(self, ("source.copy", "copy"), ("source.close", "close"))
            yield MarkdownView(self._text)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._text)


async def show_sources(screen: Screen[None], settings: Settings, sources: tuple[PageSource, ...]) -> None:
    """Show these pages over the screen. They are read from the index of the drafter in use, else of the bundled one."""
    folders = (Path(settings.drafter), BUNDLED_DRAFTER)
    try:
        text = await asyncio.to_thread(read_sources, folders, sources)
    except DrafterError as error:
        complain(screen, error, "Source")
    else:
        if screen.is_current:
            screen.app.push_screen(SourceScreen(text))
