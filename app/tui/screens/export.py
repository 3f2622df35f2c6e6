"""Where an export goes and as what: one conversation or all of them."""

from __future__ import annotations

from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.archive.exporter import Format
from app.tui.keymap import hint
from app.tui.widgets.conversation_list import one_line

FORMATS: tuple[tuple[Format, str], ...] = (
    ("md", "Markdown, to read and to paste"),
    ("html", "HTML, one page for any browser"),
    ("json", "JSON, everything there is, to import again"),
)


class Chosen(NamedTuple):
    format: Format
    everything: bool


class ExportScreen(ModalScreen[Chosen | None]):
    """Asks what to write. `title`: of the conversation; None: there is none, so all of them or nothing."""

    CSS_PATH = "export.tcss"
    BINDINGS = [Binding("escape", "dismiss", "Close", id="export.close")]

    def __init__(self, title: str | None, folder: str) -> None:
        super().__init__()
        self._title = title
        self._folder = folder
        self._choices: list[Chosen] = []

    def compose(self) -> ComposeResult:
        options: list[Option] = []
        for everything in (False, True):
            if everything or self._title is not None:
                name = "All conversations" if everything else one_line(self._title or "") or "Untitled"
                options.append(Option(Content.styled(name, "bold"), disabled=True))
                for format, words in FORMATS:
                    self._choices.append(Chosen(format, everything))
                    options.append(Option(Content(f"  {words}"), id=str(len(self._choices) - 1)))
        with Vertical() as panel:
            panel.border_title = "Export"
            panel.border_subtitle = f"enter write   {hint(self, ('export.close', 'close'))}"
            yield OptionList(*options, compact=True)
            yield Static(Content(f"into {self._folder}"), markup=False)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[int(event.option.id or 0)])
