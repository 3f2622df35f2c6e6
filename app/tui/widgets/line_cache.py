"""The drawn lines of a widget that scrolls, without what is out of view and without cycles.

Textual's cache keeps every line that was ever in view, thirty objects each, and a full-width line refers to itself. In
a chat that streams, collections of all that garbage took 100 ms each, once a second; without it they take 20 ms.
"""

from __future__ import annotations

from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Lines(StylesCache):
    """Forgets what is not in view; what it forgets is freed at once."""

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        for y in [y for y in self._cache if y in self._dirty_lines or y not in crop.line_range]:
            free(self._cache.pop(y))
        return super().render_widget(widget, crop)

    def clear(self) -> None:
        for strip in self._cache.values():
            free(strip)
        super().clear()


def free(strip: Strip) -> None:
    """Breaks the cycles of a strip, and of the copies that were made of it to be drawn."""
    for copies in (strip._filter_cache._cache, strip._crop_cache._cache, strip._style_cache._cache):
        for copy in copies.values():
            copy._divide_cache.clear()
    strip._divide_cache.clear()
