"""One question and its answer, running or stored, as the transcript shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from app.events import Done, Event, Failed, ReplyText, Started
from app.sanitise import sanitise
from app.tui.blocks import code_blocks
from storage import Message

Outcome = Literal["running", "done", "stopped", "failed"]


@dataclass
class Turn:
    """Grows while its reply runs; widgets watch `revision` and draw when it has changed."""

    question: str
    reply: ReplyText = field(default_factory=ReplyText)
    message: str = ""
    """Id of the answer's message, once there is one."""
    outcome: Outcome = "running"
    error: str = ""
    cut: bool = False
    """The answer ran into the length limit."""
    provenance: tuple[bool, ...] = ()
    """Per token of the finished answer: True where the target verified it."""
    revision: int = 0

    @property
    def running(self) -> bool:
        return self.outcome == "running"

    @property
    def text(self) -> str:
        return self.reply.solid + self.reply.ghost

    @property
    def drafted(self) -> int:
        """Tokens of the finished answer that nobody verified."""
        return self.provenance.count(False)

    @property
    def note(self) -> str:
        """What a reader of the finished answer must know about it; empty where there is nothing to say."""
        parts = []
        if self.drafted:
            share = "" if self.drafted == len(self.provenance) else f": {self.drafted} of {len(self.provenance)} tokens"
            parts.append(f"drafted offline, not verified{share}")
        if self.outcome == "stopped":
            parts.append("stopped")
        if self.cut:
            parts.append("cut at the length limit")
        if self.outcome == "failed" and not self.error:
            parts.append("failed before it was complete")
        return " · ".join(parts)

    @property
    def code(self) -> str:
        """The answer's last code block, or nothing."""
        return (code_blocks(self.text) or [""])[-1]

    def apply(self, event: Event) -> None:
        self.reply.apply(event)
        if isinstance(event, Started):
            self.message = event.message
        elif isinstance(event, Done):
            self.outcome = "stopped" if event.stopped else "done"
            self.cut = event.reason == "length"
            self.provenance = event.provenance
            if not self.drafted:
                self.reply.ghost = ""  # Guesses of a round that was never answered are not part of what is stored.
        elif isinstance(event, Failed):
            self.outcome, self.error = "failed", event.message
        self.revision += 1

    @classmethod
    def of_thread(cls, thread: Iterable[Message]) -> list[Turn]:
        """Pairs each stored question with its answer. Stored text may come from an import: it is sanitised here."""
        turns: list[Turn] = []
        for message in thread:
            if message.role == "user":
                turns.append(cls(sanitise(message.text), outcome="stopped"))
            elif message.role == "assistant":
                if not turns or turns[-1].message:
                    turns.append(cls(""))
                turn = turns[-1]
                turn.message, turn.provenance = message.id, tuple(message.provenance)
                turn.outcome = message.status if message.status in ("done", "failed") else "stopped"
                turn.reply.solid = sanitise(message.text)
        return turns
