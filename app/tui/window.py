"""The application in a terminal of its own: it paints first, and has the rest begin after that."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.config import Settings
from app.tui.app import OutriderApp
from app.tui.core import Core
from app.tui.screens.chat import ChatScreen

if TYPE_CHECKING:
    from app.remote_desk import Desk


def collect_less() -> None:
    """Keeps garbage collections from stalling the screen for 100 ms.

    What is there now stays, so they need not walk through it. And what is drawn lives for a few frames: by default that
    is old enough to wait for a collection of everything, one a second while an answer streams.
    """
    gc.freeze()
    gc.set_threshold(20_000, 4, 25)


class Window(OutriderApp):
    """`conversation`: id of the one to open. `on_painted` is called once, when the first frame is on the screen."""

    def __init__(
        self,
        core: Core,
        settings: Settings | None = None,
        desk: Desk | None = None,
        *,
        conversation: str | None = None,
        on_painted: Callable[[], None],
    ) -> None:
        super().__init__(core, settings, desk)
        self._conversation = conversation
        self._on_painted = on_painted

    async def on_ready(self) -> None:
        self.call_after_refresh(collect_less)
        self.call_after_refresh(self._on_painted)
        if self._conversation is not None and isinstance(self.screen, ChatScreen):
            await self.screen.open_conversation(self._conversation)

    @property
    def crash(self) -> Exception | None:
        """What the screen died of."""
        return self._exception
