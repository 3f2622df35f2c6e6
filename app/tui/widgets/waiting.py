"""Prompts of the open conversation that wait for the target, after everything that was said."""

from __future__ import annotations

from collections.abc import Sequence

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.sanitise import sanitise

NOTE = "queued: sent when the verifier is back"


class Waiting(Vertical):
    """Hidden while nothing waits."""

    def on_mount(self) -> None:
        self.display = False

    async def show(self, prompts: Sequence[str]) -> None:
        """Replaces what is shown."""
        self.display = bool(prompts)
        await self.remove_children()
        for prompt in prompts:
            await self.mount(
                Static(Content(sanitise(prompt)), classes="prompt", markup=False),
                Static(NOTE, classes="note", markup=False),
            )
