"""The application in a real terminal: it paints first, and starts the rest after that."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.driver import Driver
from textual.events import Event, InputEvent

from app.config import Settings
from app.reply.assistant import Assistant
from app.tui.app import OutriderApp
from app.tui.screens.chat.screen import ChatScreen
from app.tui.textual_private import error_of
from storage import Choices
from storage.choices import NONE

if TYPE_CHECKING:
    from app.remotes.switcher import RemoteSwitcher


COLLECTIONS = 5
"""Number of middle-generation collections after which a full one is worthwhile."""
QUIET_SECONDS = 1.0
"""Seconds without a key and without a running reply, after which nobody notices a full collection."""


def collect_less() -> None:
    """Keep garbage collections from stalling the screen for 100 ms.

    Objects that exist now stay, so collections skip them. Small collections come often (2 ms each, 10 ms for the middle
    generation). A full one comes by itself only after many minutes without a quiet second.
    """
    gc.freeze()
    gc.set_threshold(1_000, 10, 500)


class TerminalApp(OutriderApp):
    """`conversation`: id of the one to open. `on_painted` is called once, after the first frame."""

    def __init__(
        self,
        core: Assistant,
        settings: Settings | None = None,
        switcher: RemoteSwitcher | None = None,
        *,
        conversation: str | None = None,
        first: Choices = NONE,
        on_painted: Callable[[], None],
    ) -> None:
        super().__init__(core, settings, switcher, first=first)
        self._conversation = conversation
        self._on_painted = on_painted
        self._touched = 0.0

    def get_driver_class(self) -> type[Driver]:
        from app.tui.bracketed_paste import with_whole_pastes  # Only a real terminal needs it.

        return with_whole_pastes(super().get_driver_class())

    async def on_ready(self) -> None:
        self.set_interval(QUIET_SECONDS, self.tidy)
        self.call_after_refresh(collect_less)
        self.call_after_refresh(self._on_painted)
        if self._conversation is not None and isinstance(self.screen, ChatScreen):
            await self.screen.open_conversation(self._conversation)

    def on_terminal_gone(self) -> None:
        """Leave as with the key, so that everything is saved."""
        self.exit()

    async def on_event(self, event: Event) -> None:
        if isinstance(event, InputEvent):
            self._touched = time.monotonic()
        await super().on_event(event)

    def tidy(self) -> None:
        """Collect all garbage, if there may be much and nothing moves. It takes 40 ms."""
        quiet = time.monotonic() - self._touched > QUIET_SECONDS
        answering = any(
            bool(screen.conversation.replies) for screen in self.screen_stack if isinstance(screen, ChatScreen)
        )
        if quiet and not answering and gc.get_count()[2] >= COLLECTIONS:
            gc.collect()

    @property
    def crash(self) -> Exception | None:
        return error_of(self)
