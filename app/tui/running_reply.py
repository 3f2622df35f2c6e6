"""A reply that is being written, whichever conversation is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from app.events import Done, Event, Failed, ModeChanged, RoundEnded, Stats
from app.sanitise import sanitise
from app.tui.turn import Turn

log = logging.getLogger("outrider.screen")


@dataclass
class RunningReply:
    """A turn, the events by which it grows, and the purpose of the reply."""

    conversation: str
    turn: Turn
    events: AsyncIterator[Event]
    verifies: str = ""
    """Id of the drafted answer that it verifies and replaces; empty for other replies."""
    queued: str = ""
    """Its id in the queue, if it was sent from there."""
    instead: str | None = None
    """Id of the message that was shown in its place before, if it is a second version (edit, regenerate, continue)."""
    at: int = 0
    """Place of the turn that a second version replaces. The turns after it stay in the other branch."""
    sums_up: bool = False
    """Whether it is a summary of older messages, whose turn goes when it has ended."""
    summary_before: str | None = None
    """Id of the summary that counted before it, if it is one, too."""
    stats: Stats | None = None
    told: Stats | None = None
    """The figures that were last reported to the screen."""
    mode: ModeChanged | None = None
    """Who writes it, as it last reported."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def written(self) -> int:
        """Tokens so far."""
        return 0 if self.stats is None else self.stats.verified + self.stats.drafted

    async def listen(self, tell: Callable[[Event], Awaitable[None]]) -> None:
        """Feed the events into the turn until the reply has ended, and pass each on to `tell`.

        Anything that the reply or `tell` raises becomes the turn's error, because the window must survive it.
        """
        turn = self.turn
        try:
            async for event in self.events:
                turn.apply(event)
                if isinstance(event, (RoundEnded, Done)):
                    self.stats = event.stats
                elif isinstance(event, ModeChanged):
                    self.mode = event
                await tell(event)
        except Exception as error:
            log.error("a reply failed: %s", type(error).__name__)
            turn.apply(Failed(sanitise(f"The answer failed: {error}. Send the question again."), "internal"))
        if turn.running:
            turn.apply(Failed("The answer ended early. Send the question again.", "internal"))
