"""The pages that an answer came from, read from Shell Guide's index."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import Screen

from app.config import BUNDLED_DRAFTER, Settings
from app.events import PageSource
from app.sanitise import sanitise
from app.tui.keymap import hint
from app.tui.notices import complain
from app.tui.screens.dialog import Dialog, titled
from app.tui.widgets.markdown_view import MarkdownView
from models.config import DrafterError

if TYPE_CHECKING:
    from models.guide.pages import Page

OWN_EXAMPLE = "The answer is based on one of Outrider's own examples, which is not on this page."


class SourceScreen(Dialog[None]):
    """Shows pages with all their examples. `text`: their Markdown."""

    BINDINGS = [
        Binding("escape,q", "dismiss", "Close", id="source.close"),
        Binding("c", "copy", "Copy the page", id="source.copy"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with titled(VerticalScroll(), "Source", hint(self, ("source.copy", "copy"), ("source.close", "close"))):
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


def read_sources(folders: Iterable[Path], sources: Sequence[PageSource]) -> str:
    """The pages as Markdown, with their licence; a page that no index in these folders has is said to be missing.

    Raises `DrafterError` if an index cannot be read.
    """
    from models.guide.pages import FILE, Pages

    found: dict[PageSource, Page] = {}
    licences: dict[str, None] = {}
    for path in dict.fromkeys(folder / FILE for folder in folders):
        if path.is_file() and len(found) < len(sources):
            pages = Pages.open(path)
            try:
                for source in sources:
                    if source not in found and (page := pages.page(source.page, source.platform)) is not None:
                        found[source] = page
                        licences[pages.licence] = None
            finally:
                pages.close()
    parts: list[str] = []
    for source in sources:
        parts.append(f"# {source.page} ({source.platform})")
        parts += _paragraphs(found[source]) if source in found else ["This page is not in the index on this device."]
        parts += [OWN_EXAMPLE] if source in found and source.by == "outrider" else []
    return sanitise("\n\n".join([*parts, *(["---"] if licences else []), *licences]))


def _paragraphs(page: Page) -> Iterator[str]:
    if page.description:
        yield page.description
    yield "\n".join(f"- {example.task}\\\n  {_code(example.command)}" for example in page.examples)


def _code(command: str) -> str:
    """Inline code, whatever backticks are in it."""
    marks = "`"
    while marks in command:
        marks += "`"
    space = " " if len(marks) > 1 else ""
    return f"{marks}{space}{command}{space}{marks}"
