"""Prompts of the open conversation that wait for the target, after everything that was said."""

from __future__ import annotations

from collections.abc import Sequence

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.sanitise import sanitise

NOTE = "queued: sent when the verifier is back"


class QueuedPrompts(Vertical):
    """Hidden while nothing waits."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[str] = []

    def on_mount(self) -> None:
        self.display = False

    async def show(self, prompts: Sequence[str]) -> None:
        """Replaces what is shown, in one frame; the same prompts stay as they are."""
        if list(prompts) == self._shown:
            return
        self._shown = list(prompts)
        self.display = bool(prompts)
        lines = [
            line
            for prompt in prompts
            for line in (
                Static(Content(sanitise(prompt)), classes="prompt", markup=False),
                Static(NOTE, classes="note", markup=False),
            )
        ]
        with self.app.batch_update():
            await self.remove_children()
            await self.mount_all(lines)
