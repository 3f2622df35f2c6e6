"""The export of one conversation or of all: asks for the format and writes a new file, never replacing one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.archive.errors import ArchiveError
from app.archive.exporter import every_conversation, export_conversations, export_folder
from app.archive.formats import Format
from app.config import Folders, Settings
from app.sanitise import one_line, sanitise
from app.tui.keymap import hint
from app.tui.notices import complain
from app.tui.screens.dialog import Dialog, titled
from storage import Conversation, StorageError, Store

FORMATS: tuple[tuple[Format, str], ...] = (
    ("md", "Markdown, to read and to paste"),
    ("html", "HTML, one page for any browser"),
    ("json", "JSON, complete, to import again"),
)


class ExportChoice(NamedTuple):
    format: Format
    everything: bool


class ExportScreen(Dialog[ExportChoice | None]):
    """Asks what to write. `title`: of the open conversation, or None to offer only all conversations."""

    BINDINGS = [Binding("escape", "dismiss", "Close", id="export.close")]

    def __init__(self, title: str | None, folder: str) -> None:
        super().__init__()
        self._title = title
        self._folder = folder
        self._choices: list[ExportChoice] = []

    def compose(self) -> ComposeResult:
        options: list[Option] = []
        for everything in (False, True):
            if everything or self._title is not None:
                name = "All conversations" if everything else one_line(self._title or "") or "Untitled"
                options.append(Option(Content.styled(name, "bold"), disabled=True))
                for format, words in FORMATS:
                    self._choices.append(ExportChoice(format, everything))
                    options.append(Option(Content(f"  {words}"), id=str(len(self._choices) - 1)))
        with titled(Vertical(), "Export", f"enter write   {hint(self, ('export.close', 'close'))}"):
            yield OptionList(*options, compact=True)
            yield Static(Content(f"into {self._folder}"), id="hint", markup=False)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[int(event.option.id or 0)])


async def export(screen: Screen[None], store: Store, settings: Settings, conversation: Conversation | None) -> None:
    """Ask for the format, write the file, and say where it is. `conversation`: offered in addition to all of them."""
    folder = export_folder(Folders.locate())
    title = None if conversation is None else conversation.title
    choice = await screen.app.push_screen_wait(ExportScreen(title, str(folder)))
    if choice is None:
        return

    def write() -> Path:
        ids = every_conversation(store) if choice.everything or conversation is None else [conversation.id]
        return export_conversations(store, ids, choice.format, settings=settings, branches=choice.everything)

    await _tell(screen, write)


async def write_export(
    screen: Screen[None],
    store: Store,
    settings: Settings,
    conversation: Conversation,
    format: Format,
    path: Path | None = None,
) -> None:
    """Write one conversation to a file or a folder, by default the one for exports, and say where it is."""
    await _tell(screen, lambda: export_conversations(store, [conversation.id], format, path, settings=settings))


async def _tell(screen: Screen[None], write: Callable[[], Path]) -> None:
    """Write in a thread, and report where the file is, or why there is none."""
    try:
        path = await asyncio.to_thread(write)
    except StorageError as error:
        complain(screen, error)
    except (ArchiveError, OSError) as error:
        complain(screen, error, "Export")
    else:
        screen.notify(sanitise(str(path)), title="Exported", timeout=15, markup=False)
