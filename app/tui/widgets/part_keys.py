"""A hint that lists the keys of the focused part, over as many lines as needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.tui.keymap import hint


def in_lines(parts: Iterable[str], width: int) -> str:
    """Parts of a hint in lines of that many columns, where they fit. No part is broken."""
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}  {part}" if lines[-1] else part
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return "\n".join(filter(None, lines))


class PartKeys(Static):
    """Hidden until `tell`. `keys`: for each class of widget, pairs of an action's id and a word for it."""

    DEFAULT_CSS = "PartKeys { display: none; height: auto; padding: 1 1 0 1; color: $text-muted; }"

    def __init__(self, keys: Mapping[type[Widget], tuple[tuple[str, str], ...]]) -> None:
        super().__init__(markup=False)
        self._keys = keys
        self._parts: list[str] = []

    def tell(self, part: Widget) -> None:
        """Show the keys of a part, as they are mapped now."""
        self._parts = [one for key in self._keys[type(part)] if (one := hint(part, key))]
        self.display = True
        self._lay_out()

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)  # A change of its height while it is laid out is lost.

    def _lay_out(self) -> None:
        # It has no size of its own before it is shown for the first time.
        around = self.parent.content_size.width if isinstance(self.parent, Widget) else 0
        width = self.content_size.width or around - self.gutter.width
        self.update(Content(in_lines(self._parts, width)))
