"""What comes of a question or an answer that was given: other words, another answer, the rest of one, a fork, nothing.

Everything acts on the message that has the cursor, else on the last one. Nothing is overwritten: what comes is stored
beside what was there, and what was deleted can be brought back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

from textual import work

from app.events import Event
from app.sanitise import sanitise
from app.tui.keymap import key_of
from app.tui.screens.chat.conversation import Running
from app.tui.screens.chat.message_cursor import Pointing
from app.tui.turn import Turn
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.transcript import Part, Transcript
from storage import StorageError


@dataclass
class Again(Running):
    """An answer that comes beside one, or to another wording of a question."""

    instead: str = ""
    """Id of the message that was shown in its place before."""


class Editing(NamedTuple):
    """A question that is being reworded in the prompt."""

    question: str
    """Its id."""
    at: int
    """Its place among the turns."""
    before: str
    """The question as it was."""
    unsent: str
    """What was in the prompt before."""


class MessageActions(Pointing):
    """The keys are in `Transcript.BINDINGS`, so that letters can be typed everywhere else."""

    _editing: Editing | None = None
    _deleted_messages: tuple[str, ...] = ()
    """Ids of the messages that were deleted since this conversation was opened, the last one last."""
    _shading = False

    # ---- answers beside others ---------------------------------------------------------------------------------------

    async def action_edit_question(self) -> None:
        """Its text goes to the prompt; sending it asks it beside the old one, Esc gives up."""
        if (chosen := self.chosen()) is None:
            return
        at, turn, _ = chosen
        try:
            question = self.message_id(turn, "question")
        except StorageError as error:
            self.complain(error)
            return
        if not question:
            self.notify("That question is not stored yet.")
            return
        prompt = self.query_one(Prompt)
        unsent = prompt.full_text if self._editing is None else self._editing.unsent
        self._editing = Editing(question, at, turn.question, unsent)
        prompt.put(turn.question)
        prompt.border_title = f"other words for this question · {key_of(prompt, 'chat.stop')} gives up"
        self.set_focus(prompt)

    @property
    def rewording(self) -> bool:
        return self._editing is not None

    @property
    def typed(self) -> str:
        """With what was in the prompt before other words were put there, which are only worth keeping as far as they
        are others."""
        editing, text = self._editing, super().typed
        if editing is None:
            return text
        return "\n\n".join(part for part in (editing.unsent, text if text != editing.before else "") if part)

    def give_up_editing(self) -> None:
        """The prompt is again what it was; other words that were typed can be recalled."""
        if self._editing is not None:
            prompt = self.query_one(Prompt)
            if prompt.full_text != self._editing.before:
                prompt.keep_in_reach(prompt.full_text)
            prompt.write(self._editing.unsent)
            prompt.border_title = None
            self._editing = None

    def action_stop(self) -> None:
        """Esc: gives up what is nearest."""
        if self._editing is not None:
            self.give_up_editing()
        elif self.query_one(Transcript).has_focus:
            self.set_focus(self.query_one(Prompt))
        else:
            super().action_stop()

    async def ask(self, question: str) -> None:
        editing = self._editing
        if editing is None:
            await super().ask(question)
        elif self.live:
            self.say_busy()
        else:
            self.give_up_editing()
            self.query_one(Prompt).keep_in_reach(question)
            await self._answer_again(
                editing.at, Turn(question), editing.question, self.core.edit(editing.question, question)
            )

    async def action_regenerate(self) -> None:
        if (chosen := self.chosen()) is not None and not self._busy():
            at, turn, _ = chosen
            try:
                message = turn.message or self.message_id(turn, "question")
            except StorageError as error:
                self.complain(error)
                return
            await self._answer_again(at, self._like(turn), message, self.core.regenerate(message))

    async def action_go_on(self) -> None:
        if (chosen := self.chosen()) is not None and not self._busy():
            at, turn, _ = chosen
            if not turn.message:
                key = key_of(self.query_one(Transcript), "message.regenerate")
                self.notify(f"There is nothing of that answer to go on with; the key {key} has it given.")
                return
            await self._answer_again(at, self._like(turn), turn.message, self.core.resume(turn.message))

    def _like(self, turn: Turn) -> Turn:
        return Turn(turn.question, turn.asked, wordings=turn.wordings)

    def _busy(self) -> bool:
        if self.live:
            self.say_busy()
        return self.live is not None

    async def _answer_again(self, at: int, turn: Turn, instead: str, answer: AsyncIterator[Event]) -> None:
        """Shows an answer in the place of `turns[at]` and all that follows, which stays in a branch of its own."""
        assert self.conversation is not None
        self.live = running = Again(self.conversation, turn, instead=instead)
        self.query_one(Prompt).answering = True
        transcript = self.query_one(Transcript)
        await transcript.show([*transcript.turns[:at], turn])
        self.need_title()
        self.follow(running, answer)

    async def settle(self, running: Running) -> None:
        if not isinstance(running, Again):
            await super().settle(running)
        else:
            turn = running.turn
            here = self.conversation == running.conversation
            if turn.outcome == "failed" and not turn.text:
                # Nothing came of it: what was there is shown again, and nothing that was typed is lost.
                self.notify(turn.error, severity="warning", markup=False)
                try:
                    self.core.store.branches.show(running.instead)
                except StorageError as error:
                    self.complain(error)
                if here:
                    if not self.query_one(Prompt).full_text and self._reworded(running):
                        self.query_one(Prompt).put(turn.question)
                    await self.open_conversation(self.conversation)
            await self.show_waiting()
            self.measure()
        if self.conversation == running.conversation:
            await self.place_versions()
            if self._shading:
                self._shade()

    def _reworded(self, running: Again) -> bool:
        try:
            return self.core.store.messages.get(running.instead).role == "user"
        except StorageError:
            return False

    # ---- versions ----------------------------------------------------------------------------------------------------

    async def open_conversation(self, conversation_id: str | None, message_id: str | None = None) -> None:
        if conversation_id != self.conversation:
            self.give_up_editing()
            self._deleted_messages = ()
        await super().open_conversation(conversation_id, message_id)
        await self.place_versions()
        if self._shading:
            self._shade()

    async def place_versions(self) -> None:
        """Says at each message which of its versions it is."""
        if self.conversation is None or not self.alive:
            return
        transcript = self.query_one(Transcript)
        try:
            versions = await asyncio.to_thread(self.core.store.branches.versions, self.conversation)
            for turn in transcript.turns if versions else ():
                self.message_id(turn, "question")
        except StorageError as error:
            self.complain(error)
            return
        for turn in transcript.turns:
            if not turn.running:
                turn.place(versions)
        await transcript.refresh_notes()

    async def action_walk_versions(self, step: int) -> None:
        """Shows the version before or after, with what followed it."""
        if (chosen := self.chosen()) is None or self._busy():
            return
        at, turn, part = chosen
        if part == "answer" and turn.versions[1] == 1:
            part = "question"  # The only one that can be meant.
        try:
            message = self.message_id(turn, part)
            versions = self.core.store.branches.siblings(message) if message else []
            place = next((place for place, one in enumerate(versions) if one.id == message), -1) + step
            if not 0 <= place < len(versions):
                self.notify("There is no other version there." if len(versions) > 1 else "There is only this version.")
                return
            self.core.store.branches.show(versions[place].id)
        except StorageError as error:
            self.complain(error)
            return
        await self._reopen(at, part)

    async def _reopen(self, at: int, part: Part) -> None:
        """Shows the conversation as it is stored now, with the cursor where it was."""
        await self.open_conversation(self.conversation)
        transcript = self.query_one(Transcript)
        if transcript.turns and transcript.has_focus:
            await transcript.choose(min(at, len(transcript.turns) - 1), part)

    # ---- deleting, forking -------------------------------------------------------------------------------------------

    async def action_delete_message(self) -> None:
        if (chosen := self.chosen()) is None or self._busy():
            return
        at, turn, part = chosen
        try:
            message = self.message_id(turn, part)
            if not message:
                return
            self.core.store.bin.delete_message(message)
        except StorageError as error:
            self.complain(error)
            return
        self._deleted_messages = (*self._deleted_messages, message)
        key = key_of(self.query_one(Transcript), "message.undelete")
        self.notify(f"The key {key} brings it back, with the messages in focus.", title="Deleted", timeout=10)
        await self._reopen(at, part)

    async def action_undelete_message(self) -> None:
        if not self._deleted_messages:
            self.notify("Nothing was deleted here.")
        elif not self._busy():
            *rest, message = self._deleted_messages
            try:
                self.core.store.bin.restore_message(message)
            except StorageError as error:
                self.complain(error)
                return
            self._deleted_messages = tuple(rest)
            await self.open_conversation(self.conversation)

    async def action_fork(self) -> None:
        """A conversation of its own that begins with all up to this message."""
        if (chosen := self.chosen()) is None or self.conversation is None:
            return
        _, turn, part = chosen
        try:
            message = self.message_id(turn, part)
            if not message:
                return
            copy = self.core.store.branches.duplicate(self.conversation, message)
        except StorageError as error:
            self.complain(error)
            return
        await self.open_conversation(copy.id)
        self.notify("This is a copy up to that message; the other conversation stays as it is.", title="Forked")
        self.set_focus(self.query_one(Prompt))

    # ---- provenance --------------------------------------------------------------------------------------------------

    async def action_shade(self) -> None:
        """Shades what nobody verified, or takes the shading off."""
        self._shading = not self._shading
        transcript = self.query_one(Transcript)
        if self._shading:
            self._shade()
            if not any(turn.drafted for turn in transcript.turns):
                self.notify("Everything here is verified.")
            return
        for turn in transcript.turns:
            turn.shade(())
        await transcript.refresh_notes()

    @work(group="shading", exclusive=True)
    async def _shade(self) -> None:
        if not self.alive:
            return
        transcript = self.query_one(Transcript)
        drafted = [turn for turn in transcript.turns if turn.drafted and turn.message and not turn.running]
        for turn in reversed(drafted):
            try:
                message = await asyncio.to_thread(self.core.store.messages.get, turn.message)
                ranges = await asyncio.to_thread(self.core.drafted_spans, message)
            except StorageError as error:
                self.complain(error)
                return
            if sanitise(message.text) == turn.text:
                turn.shade(ranges)
        await transcript.refresh_notes()
