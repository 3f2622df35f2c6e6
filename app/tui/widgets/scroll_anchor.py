"""The place in a conversation that a person reads: the end while text arrives, or else a line that stays."""

from __future__ import annotations

from typing import Any

from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.scrollbar import ScrollBar
from textual.widget import Widget

from app.tui.textual_private import AnchoredScroll
from app.tui.widgets.markdown_view import Place
from app.tui.widgets.message import Answer, Question


class Reading(AnchoredScroll):
    """Follows the end while text arrives, unless the person has scrolled up; then the line that is read stays."""

    def __init__(self) -> None:
        super().__init__()
        self._reading: tuple[Widget, int] | None = None
        """The message at the top of the view, and its distance from the top; None while the end is followed."""
        self._held = False
        """That message stays where it is until somebody scrolls, whatever else moves the view."""
        self._wrapped = 0
        """The width that the messages are placed in."""

    @property
    def _has_end(self) -> bool:
        """Whether the last message here is the conversation's last."""
        return True

    def _messages(self) -> list[Question | Answer]:
        return [widget for widget in self.children if isinstance(widget, Question | Answer)]

    # ---- the place ---------------------------------------------------------------------------------------------------

    def _keep_reading(self) -> None:
        """Before messages come or go: what is read from now on is what is at the top of the view."""
        if self._reading is None and not self.follows_end:
            self._reading = self._at_top()

    def _read_from(self, message: Widget) -> None:
        """Makes this message the first line in view, and keeps it there while others come in above it."""
        self.release_end(until_reached=self._has_end)
        self._reading, self._held = (message, 0), True
        self.refresh(layout=True)

    def _read_instead(self, old: Widget, new: Widget) -> None:
        """Where `old` is what is read, `new` is, which takes its place."""
        if self._reading is not None and self._reading[0] is old:
            self._reading = new, self._reading[1]

    def _read_nothing(self) -> None:
        """All that was here goes."""
        self._reading, self._held = None, False

    def _at_top(self) -> tuple[Widget, int] | None:
        for widget in self._messages():
            region = widget.virtual_region
            if region.bottom > self.scroll_y and region.height:
                return widget, region.y - round(self.scroll_y)
        return None

    # ---- what moves it -----------------------------------------------------------------------------------------------

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Places the messages, so that the line that is read stays where it is on the screen."""
        place = self._place_read(size.width)
        result = super().arrange(size, optimal)
        if self._reading is not None and not self.follows_end:
            widget, distance = self._reading
            region = next((placement.region for placement in result.placements if placement.widget is widget), None)
            if region is not None:
                if place is not None and isinstance(widget, Answer):
                    distance = -widget.prose.row_of(place, region.width - widget.gutter.width)
                    self._reading = widget, distance
                most = max(0, result.spatial_map.total_region.bottom - size.height)
                y = min(max(0, region.y - distance), most)
                if y != self.scroll_y:
                    self.set_reactive(Widget.scroll_y, y)
                    self.set_reactive(Widget.scroll_target_y, y)
                    self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        return result

    def _place_read(self, width: int) -> Place | None:
        """What of an answer is at the top of the view, where everything is about to be wrapped to another width."""
        changed, self._wrapped = width != self._wrapped, width
        if not changed or self._reading is None or self.follows_end:
            return None
        widget, distance = self._reading
        if not isinstance(widget, Answer):
            return None
        return widget.prose.place_at(-distance)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if not self._held:
            # Asking where messages are may arrange them, and that would put the view back to what was read before.
            self._reading = None
        super().watch_scroll_y(old_value, new_value)
        if not self._held:
            self._reading = None if self.follows_end else self._at_top()

    def watch_virtual_size(self, size: Size) -> None:
        # A short conversation that is anchored would hang at the bottom of the window.
        overflows = size.height > self.size.height and self._has_end
        if overflows != self.is_anchored:
            self.anchor(overflows)

    def on_resize(self) -> None:
        self.watch_virtual_size(self.virtual_size)

    def scroll_page_up(self, **options: Any) -> None:
        """Scrolls up by a page, at once: two presses before the next frame are two pages."""
        self.scroll_to(y=self.scroll_y - self.scrollable_content_region.height, immediate=True)

    def scroll_page_down(self, **options: Any) -> None:
        """Scrolls down by a page, at once."""
        self.scroll_to(y=self.scroll_y + self.scrollable_content_region.height, immediate=True)

    def before_scroll(self) -> None:
        self._held = False
