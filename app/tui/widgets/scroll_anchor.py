"""The line of a conversation that a person reads, while text comes and goes above and below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from app.tui.widgets.markdown_view import TextPlace


class Rewrapped(Protocol):
    """A message in which a text can be found again after it was wrapped to another width."""

    def place_at(self, row: int) -> TextPlace | None:
        """The text in this row; None if the row keeps its number at every width."""

    def row_of(self, place: TextPlace, width: int) -> int:
        """The row of that text in a message that is `width` cells wide."""


Item = TypeVar("Item", bound=Rewrapped)


class ScrollAnchor(Generic[Item]):
    """Remembers which message is at the top of the view and where, so that each layout can put it there again.

    It knows no screen. All lines are counted from the first line of the conversation.
    """

    def __init__(self) -> None:
        self.item: Item | None = None
        """The message at the top of the view; None while the end is followed."""
        self.distance = 0
        """Lines from the top of the view down to the message's first line; negative where that is above the view."""
        self.held = False
        """The message stays until somebody scrolls, whatever else moves the view."""
        self._width = 0
        self._place: TextPlace | None = None

    def take(self, spans: Iterable[tuple[Item, int, int]], top: float) -> None:
        """Anchors the first message that reaches below the line `top`.

        `spans`: each message in order, its first line and the line behind its last.
        """
        self.item = None
        for item, first, end in spans:
            if end > top and end > first:
                self.item, self.distance = item, first - round(top)
                return

    def hold(self, item: Item) -> None:
        """Anchors the first line of a message, and keeps it until somebody scrolls."""
        self.item, self.distance, self.held = item, 0, True

    def replace(self, old: Item, new: Item) -> None:
        """Anchors `new` at the place of `old`, if `old` is the message at the top."""
        if self.item is old:
            self.item = new

    def clear(self) -> None:
        """Anchors nothing."""
        self.item, self.held = None, False

    def before_layout(self, width: int) -> None:
        """Notes the text at the top of the view if all text is about to be wrapped to another width, in cells."""
        changed, self._width = width != self._width, width
        self._place = self.item.place_at(-self.distance) if changed and self.item is not None else None

    def top_after_layout(self, first: int, width: int) -> int:
        """The line to show at the top, now that the message begins at line `first` and is `width` cells wide."""
        if self._place is not None and self.item is not None:
            self.distance = -self.item.row_of(self._place, width)
        return first - self.distance
