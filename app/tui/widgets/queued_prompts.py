"""The queued prompts of the open conversation, below its messages."""

from __future__ import annotations

from collections.abc import Sequence

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.sanitise import sanitise

NOTE = "queued: sent when the server is back"


class QueuedPrompts(Vertical):
    """Lists the prompts that wait for the verifier; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[str] = []

    def on_mount(self) -> None:
        self.display = False

    async def show(self, prompts: Sequence[str]) -> None:
        """Replaces the list in one frame, unless it has not changed."""
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
