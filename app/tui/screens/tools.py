"""Which MCP servers' tools are offered to the model in one conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual import on
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.sanitise import one_line
from app.tui.keymap import hint
from app.tui.screens.dialog import Dialog, titled


class ToolsScreen(Dialog[tuple[str, ...]]):
    """Closes with the servers whose tools are offered. `servers`: name and place of each."""

    BINDINGS = [
        Binding("escape,q", "done", "Close", id="tools.close"),
        Binding("space", "turn", "Turn the server's tools on or off", id="tools.turn"),
    ]

    def __init__(self, servers: Sequence[tuple[str, str]], chosen: Sequence[str]) -> None:
        super().__init__()
        self._servers, self._chosen = servers, set(chosen)

    def compose(self) -> Iterator[Widget]:
        keys = hint(self, ("tools.turn", "on or off"), ("tools.close", "done"))
        with titled(Vertical(), "Tools of this conversation", keys):
            yield OptionList(*self._rows(), compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def _rows(self) -> list[Option]:
        return [
            Option(Content(f"{'●' if name in self._chosen else '○'} {name}  {one_line(place)}"))
            for name, place in self._servers
        ]

    @on(OptionList.OptionSelected)
    def turn(self, event: OptionList.OptionSelected) -> None:
        self._chosen ^= {self._servers[event.option_index][0]}
        options = self.query_one(OptionList)
        options.set_options(self._rows())
        options.highlighted = event.option_index

    def action_turn(self) -> None:
        self.query_one(OptionList).action_select()

    def action_done(self) -> None:
        self.dismiss(tuple(name for name, _ in self._servers if name in self._chosen))
