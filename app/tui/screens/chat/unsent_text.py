"""What is typed: kept with its conversation until it is sent, whatever happens; recalled; lent to an editor."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import TextArea

from app.config import Settings
from app.sanitise import sanitise
from app.tui.core import Core
from app.tui.editor import EditorFailed, edit
from app.tui.unsent import UnsentTexts
from app.tui.widgets.prompt import Prompt
from storage import StorageError

SAVE_SECONDS = 0.5
"""From a change of what is typed to its file: what a kill can take."""
RECALLED = 1000
"""Questions from before this start that can be recalled."""


class Composing(Screen[None]):
    """Knows the prompt, and in which conversation it is written."""

    def __init__(self, core: Core, settings: Settings) -> None:
        super().__init__()
        self.core = core
        self.settings = settings
        self.conversation: str | None = None
        """Id of the open conversation; None until the first prompt of a new one is sent."""
        self._unsent = UnsentTexts(core.store.path)
        self._save: Timer | None = None

    def begin_composing(self) -> None:
        """Brings back what was typed before, and what was asked."""
        self._prompt = self.query_one(Prompt)  # It can still be read when it has left the screen.
        self.take_unsent()
        self._remember()

    def end_composing(self) -> None:
        """Saves what is typed."""
        self.keep_unsent()
        self._unsent.close()

    @on(TextArea.Changed, "Prompt")
    def save_soon(self) -> None:
        if self._save is None:
            self._save = self.set_timer(SAVE_SECONDS, self.keep_unsent)

    @property
    def typed(self) -> str:
        """What must not be lost of what is typed here."""
        return self._prompt.full_text

    def keep_unsent(self) -> None:
        """What is typed belongs to the open conversation, and is in its file from now on."""
        if self._save is not None:
            self._save.stop()
            self._save = None
        try:
            self._unsent.write(self.conversation, self.typed)
        except OSError as error:
            self._complain_of_files(error)

    def take_unsent(self) -> None:
        """The prompt shows what was typed in the open conversation before."""
        try:
            self._prompt.write(sanitise(self._unsent.read(self.conversation)))
        except OSError as error:
            self._complain_of_files(error)

    def forget_unsent(self) -> None:
        """What was typed without a conversation has got one now, and is stored there."""
        try:
            self._unsent.write(None, "")
        except OSError as error:
            self._complain_of_files(error)

    def _complain_of_files(self, error: OSError) -> None:
        self.notify(
            f"What is typed cannot be kept for the next start: {error.strerror}. Sending works.",
            severity="warning",
            markup=False,
        )

    @work(group="asked")
    async def _remember(self) -> None:
        try:
            asked = await asyncio.to_thread(self.core.store.messages.asked, RECALLED)
            self._prompt.remember(asked)
            await asyncio.to_thread(self._unsent.sweep, self._conversations)
        except (StorageError, OSError):
            return  # Whatever is done next will say so.

    def _conversations(self) -> list[str]:
        store = self.core.store
        return [one.id for one in (*store.conversations.all(), *store.bin.conversations())]

    @on(Prompt.EditorWanted)
    @work(group="editor", exclusive=True)
    async def edit_outside(self) -> None:
        """Lends the prompt to $VISUAL or $EDITOR."""
        self.keep_unsent()
        try:
            text = await edit(self.app, self._prompt.full_text)
        except EditorFailed as error:
            self.notify(str(error), title="Editor", severity="error", timeout=15, markup=False)
        else:
            self._prompt.put(text)
        self._prompt.focus()

    def complain(self, error: StorageError) -> None:
        self.notify(sanitise(str(error)), title="Storage", severity="error", markup=False)
