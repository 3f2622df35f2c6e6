"""The text in the prompt: kept with its conversation until it is sent, and set aside while a question is edited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from textual.timer import Timer

from app.editor import EditorFailed
from app.sanitise import sanitise
from app.tui.keymap import key_of
from app.tui.open_conversation import OpenConversation
from app.tui.suspension import edit
from app.tui.unsent import UnsentTexts
from app.tui.widgets.prompt import Prompt
from storage import Attachment, StorageError

SAVE_SECONDS = 0.5
"""Seconds from a change until it is saved, which a kill can lose."""
RECALLED = 1000
"""Maximum number of questions recalled from earlier sessions."""


class QuestionEdit(NamedTuple):
    question: str
    """Its id."""
    at: int
    """Place of its turn."""
    before: str
    """The question as it was asked."""
    unsent: str
    """The text that was in the prompt before."""


class PromptText:
    """Saves and restores what is typed. `prompt` can still be read when it has left the screen."""

    def __init__(
        self,
        prompt: Prompt,
        conversation: OpenConversation,
        keep_files: Callable[[Sequence[Attachment], str], None],
    ) -> None:
        """`keep_files` is called with the files of the question in the prompt, and with its text."""
        self._prompt = prompt
        self._conversation = conversation
        self._files = UnsentTexts(conversation.core.store.path)
        self._keep_files = keep_files
        self._timer: Timer | None = None
        self.edit: QuestionEdit | None = None

    # ---- its file ----------------------------------------------------------------------------------------------------

    @property
    def typed(self) -> str:
        """The text that must not be lost. During an edit: the text that was set aside, and the edit if it differs."""
        text = self._prompt.full_text
        if self.edit is None:
            return text
        return "\n\n".join(part for part in (self.edit.unsent, text if text != self.edit.before else "") if part)

    def keep_soon(self) -> None:
        """Save the text after a moment."""
        if self._timer is None:
            self._timer = self._prompt.set_timer(SAVE_SECONDS, self.keep)

    def keep(self) -> None:
        """Save the text as that of the open conversation."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        with self._reporting():
            self._files.write(self._conversation.id, self.typed)

    def take(self) -> None:
        """Show the text that was typed in the open conversation before."""
        with self._reporting():
            self._prompt.write(sanitise(self._files.read(self._conversation.id)))

    def forget_new(self) -> None:
        """Drop the text that was typed without a conversation: it has got one now, and is stored there."""
        with self._reporting():
            self._files.write(None, "")

    def close(self) -> None:
        """Save the text. Text without a conversation is for the next window."""
        self.keep()
        self._files.close()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._prompt.notify(
                f"The text in the prompt cannot be saved ({error.strerror}) and is lost when you quit. "
                "You can still send it.",
                severity="warning",
                markup=False,
            )

    # ---- earlier questions -------------------------------------------------------------------------------------------

    async def recall(self) -> None:
        """Make earlier questions available in the prompt, and remove texts of conversations that are gone for good."""
        store = self._conversation.core.store

        def ids() -> list[str]:
            return [one.id for one in (*store.conversations.all(), *store.bin.conversations())]

        try:
            self._prompt.remember(await asyncio.to_thread(store.messages.asked, RECALLED))
            await asyncio.to_thread(self._files.sweep, ids)
        except (StorageError, OSError):
            return  # The person's next action reports it.

    def begin_edit(self, question_id: str, at: int, question: str, files: Sequence[Attachment] = ()) -> None:
        """Put a question into the prompt, with its original `files`.

        Sending it asks it next to the old one; `end_edit` gives up.
        """
        prompt = self._prompt
        unsent = prompt.full_text if self.edit is None else self.edit.unsent
        self.edit = QuestionEdit(question_id, at, question, unsent)
        prompt.put(question)
        self._keep_files(files, question)
        prompt.border_title = f"edit this question · {key_of(prompt, 'chat.stop')} cancels"

    def end_edit(self) -> None:
        """Bring back the text that was set aside. The edit can be recalled if it differs from the question."""
        if self.edit is not None:
            prompt = self._prompt
            if prompt.full_text != self.edit.before:
                prompt.keep_in_reach(prompt.full_text)
            prompt.write(self.edit.unsent)
            self._keep_files((), "")
            prompt.border_title = None
            self.edit = None

    async def open_editor(self) -> None:
        """Lend the prompt to $VISUAL or $EDITOR."""
        prompt = self._prompt
        self.keep()
        try:
            text = await edit(prompt.app, prompt.full_text)
        except EditorFailed as error:
            prompt.notify(str(error), title="Editor", severity="error", timeout=15, markup=False)
        else:
            prompt.put(text)
        prompt.focus()
