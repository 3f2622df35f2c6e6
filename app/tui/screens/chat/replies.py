"""The running replies on the screen: their turns in the transcript, their figures, and the modes they report."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from textual.message import Message
from textual.widget import Widget

from app.events import (
    Done,
    Event,
    ModeChanged,
    Redrawn,
    RoundEnded,
    Started,
    Stats,
    SystemUnread,
    ToolCalled,
    ToolsLeftOut,
)
from app.sanitise import one_line
from app.ssh import over_ssh
from app.tui.metrics import SessionMetrics
from app.tui.notices import excerpt, tell_cut
from app.tui.open_conversation import OpenConversation
from app.tui.running_reply import RunningReply
from app.tui.screens.chat.message_actions import MessageActions
from app.tui.widgets.panel import Rounds
from app.tui.widgets.prompt import Prompt

FIGURES_SECONDS = 1.0 if over_ssh(os.environ) else 0.25
"""Seconds between draws of a running reply's figures. Each draw lays out the screen, and takes some of the line."""


class Replies:
    """Shows each reply while its conversation is open, on behalf of `view`.

    `metrics` hears every event of every reply.
    """

    @dataclass
    class ModeReported(Message):
        """The reply of the open conversation has changed the mode."""

        mode: ModeChanged

    @dataclass
    class StatsChanged(Message):
        """The reply of the open conversation has new figures, or another one has ended; the metrics have them too."""

        conversation: str
        stats: Stats | None

    class CallAsks(Message):
        """A tool call of the open conversation waits for the person's yes."""

    def __init__(
        self,
        view: Widget,
        conversation: OpenConversation,
        metrics: SessionMetrics,
        messages: MessageActions,
        rounds: Rounds,
        prompt: Prompt,
    ) -> None:
        self._view = view
        self._conversation = conversation
        self._metrics = metrics
        self._messages = messages
        self._rounds = rounds
        self._prompt = prompt

    async def listen(self, reply: RunningReply, stored: Callable[[], Awaitable[None]]) -> None:
        """Show a running reply until it has ended. `stored` is called once its question is in the store."""

        async def hear(event: Event) -> None:
            self._hear(event, reply)
            if isinstance(event, Started):
                await stored()

        figures = self._view.set_interval(FIGURES_SECONDS, lambda: self._report_figures(reply))
        try:
            await self._conversation.listen(reply, hear)
        finally:
            figures.stop()
            self._prompt.answering = self._conversation.live is not None
        self._report_figures(reply)

    def _hear(self, event: Event, reply: RunningReply) -> None:
        """Take in one event. The transcript draws the text in its own time."""
        self._metrics.apply(event, reply.conversation)
        here = reply.conversation == self._conversation.id
        if isinstance(event, ModeChanged) and here:
            self._view.post_message(self.ModeReported(event))
        elif isinstance(event, RoundEnded):
            if event.report is not None and here:
                self._rounds.add(event.report)
            if reply.told is None:
                self._report_figures(reply)
        elif isinstance(event, SystemUnread):
            self._view.notify(str(event), title="System prompt", timeout=15, markup=False)
        elif isinstance(event, ToolCalled) and event.asks:
            if here:
                self._view.post_message(self.CallAsks())
            else:
                said = excerpt(one_line(reply.turn.question))
                self._view.notify(f"{said}\nOpen that conversation to answer.", title="A tool call waits", markup=False)
        elif isinstance(event, ToolsLeftOut):
            self._view.notify(str(event), title="Tools", markup=False)
        elif isinstance(event, Redrawn):
            self._view.notify(str(event), title="Another answer", markup=False)
        elif isinstance(event, Done) and event.cut and here and not reply.sums_up:
            tell_cut(self._messages, event)

    def _report_figures(self, reply: RunningReply) -> None:
        """Draw the rounds and tell the screen of new figures; while a reply runs, only if its conversation is open."""
        here = reply.conversation == self._conversation.id or reply.ended.is_set()
        if self._messages.alive and here and reply.stats is not reply.told:
            reply.told = reply.stats
            self._rounds.draw()
            self._view.post_message(self.StatsChanged(reply.conversation, reply.stats))
