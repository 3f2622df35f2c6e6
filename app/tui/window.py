"""The application in a terminal of its own: it paints first, and has the rest begin after that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.tui.app import OutriderApp
from app.tui.core import Core


class Window(OutriderApp):
    """`on_painted` is called once, when the first frame is on the screen."""

    def __init__(
        self, core: Core, keys: Mapping[str, str | Mapping[str, str]] | None = None, *, on_painted: Callable[[], None]
    ) -> None:
        super().__init__(core, keys)
        self._on_painted = on_painted

    def on_ready(self) -> None:
        self.call_after_refresh(self._on_painted)
