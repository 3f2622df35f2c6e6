"""The open conversation: its turns, the running reply, its queue entries, and what can be done with it.

This module knows no widget. Its methods raise `StorageError` when the store fails, `NotPossible` when there is nothing
to act on, and `ReplyRunning` when the running reply has to end first; `notices.reporting` shows each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from app.attachments.renderer import described
from app.events import Event, Mode
from app.prompts import SUM_UP, WHOLE_TURNS
from app.reply.assistant import Assistant
from app.sanitise import sanitise
from app.system_prompts import SystemPrompt
from app.titles import title_from
from app.tui.running_reply import RunningReply
from app.tui.stored_thread import StoredThread, Summed, read_thread
from app.tui.turn import Cursor, Outcome, Part, Turn, place_questions
from storage import Attachment, Choices, NotFound, Queued, StorageError
from storage.choices import NONE

if TYPE_CHECKING:
    from app.drafting.prompt import Context

NEARLY_FULL = 0.9
"""Share of the context from which a notice says that it is nearly full."""
UNREACHABLE: tuple[Mode, ...] = ("offline", "warming")
"""Modes without a server that answers now."""


class NotPossible(Exception):
    """There is nothing for the action to act on, as the message says."""


class ReplyRunning(Exception):
    """The action has to wait for the end of the running reply."""


class ActionTarget(NamedTuple):
    """The message that an action is about."""

    at: int
    """Place of its turn in the conversation."""
    turn: Turn
    part: Part


class OpenConversation:
    """The state of the open conversation, and every change that a person can make to it.

    At most one reply runs in it at a time. The replies of all conversations are here, because each continues while
    another conversation is open.
    """

    def __init__(self, core: Assistant, first: Choices = NONE) -> None:
        """`first`: what new conversations begin with."""
        self.core = core
        self._first = first
        self._imported = SystemPrompt("")
        self.id: str | None = None
        """None until the first prompt of a new conversation is sent."""
        self.title = ""
        self.choices = first
        """What was chosen for it: the server and the model that answer it, and more."""
        self.fresh: Callable[[], Choices] = Choices
        """The server and the model of a new conversation."""
        self._given = first
        """The choices with which this one began, if it is new."""
        self.turns: list[Turn] = []
        self.replies: dict[str, RunningReply] = {}
        self.ended: dict[str, Outcome] = {}
        """How the last reply of a conversation ended that was not opened since."""
        self.summed = Summed()
        """The part that the model reads as a summary."""
        self.unfolded = False
        """Whether that part is among the turns. Otherwise a line stands for it."""
        self.shading = False
        self._changes: int | None = None
        self._just_read = False
        """Another window may have continued it while it was read, and nobody has looked since."""
        self._context: Context | None = None
        self._reads = 0
        self._nearly_full: set[str] = set()
        """Conversations of which the person knows that they are nearly full."""
        self._deleted: list[str] = []
        """Ids of the messages that were deleted since this conversation was opened, the last one last."""

    @property
    def live(self) -> RunningReply | None:
        return None if self.id is None else self.replies.get(self.id)

    # ---- opening -----------------------------------------------------------------------------------------------------

    async def read(self, conversation_id: str | None, message_id: str | None = None) -> StoredThread | None:
        """Read a conversation from the store, for `open`. Returns None if a later call has overtaken this one.

        `message_id`: a message to find in it, whose branch becomes the shown one.
        """
        self._reads += 1
        number = self._reads
        if conversation_id is None:
            return StoredThread()
        while True:
            running = self.replies.get(conversation_id)
            stored = await asyncio.to_thread(read_thread, self.core.store, conversation_id, message_id)
            if running is None or running is self.replies.get(conversation_id):
                break  # Otherwise a reply has ended meanwhile, and may have been read before it was complete.
        return stored if number == self._reads else None

    def open(self, stored: StoredThread) -> int | None:
        """Make this conversation the open one, with the running reply in its place if it belongs there.

        Returns the place of the turn that was looked for, if any. It is among the turns even if it is summed up.
        """
        if stored.id != self.id:
            self._deleted.clear()
            self.unfolded = False
        elif stored.summed.turns > self.summed.turns:
            self.unfolded = False  # More is summarised. A later event would fold what the person has unfolded since.
        self.summed, found, turns = stored.summed, stored.found, stored.turns
        looked_for = found is not None and found < self.summed.turns
        self.unfolded = self.unfolded or looked_for or 0 < len(turns) <= self.summed.turns
        place_questions(turns)
        if 0 < self.summed.turns <= len(turns):
            turns[self.summed.turns - 1].summary = self.summed.text
        hidden = self.folded
        self.id, self.title, self.turns = stored.id, stored.title, turns[hidden:]
        if stored.id is None:
            self._given = self._beginning()
        self.choices = self._given if stored.id is None else stored.choices
        self._imported = stored.imported
        self.core.follow(self.choices)
        self.ended.pop(stored.id or "", None)
        self._just_read = True
        live = self.live
        if live is not None and live.instead is not None and not live.turn.message:
            self.turns[self._place(live) :] = [live.turn]  # It waits for its turn, and is not stored yet.
        elif live is not None:
            turns = self.turns
            places = (at for at, turn in enumerate(turns) if live.verifies and turn.message == live.verifies)
            at = next(places, len(turns))
            if at == len(turns) and turns and turns[-1].message in ("", live.turn.message):
                at -= 1  # The store has the question, and the answer as far as its last checkpoint.
            turns[at : at + 1] = [live.turn]
        place_questions(self.turns)
        return None if found is None else found - hidden

    @property
    def has_old_turns(self) -> bool:
        return len(self.turns) + self.folded - self.summed.turns > WHOLE_TURNS

    @property
    def folded(self) -> int:
        """How many turns the line stands for that are not among `turns`."""
        return 0 if self.unfolded else self.summed.turns

    @property
    def outdated(self) -> bool:
        """Whether another window has continued it, or changed its summary.

        False while a reply to it runs here, and if the store fails.
        """
        if self.id is None or self.live is not None:
            return False
        shown = next((turn for turn in reversed(self.turns) if turn.message or turn.asked), None)
        store = self.core.store
        try:
            tip = store.conversations.get(self.id).tip_id
            if any(self._has_ended(turn.message) for turn in self._elsewhere):
                return True
            if store.summaries.version(self.id) != self.summed.version:
                return True
        except StorageError:
            return False  # The person's next action reports it.
        return tip is not None and (shown is None or tip not in (shown.message, shown.asked))

    def changed_elsewhere(self) -> bool:
        """Whether another program may have written to the store since the last look or read. Any thread may call it.

        An answer that another program was writing is ended first if that program is gone.
        """
        store, before = self.core.store, None if self._just_read else self._changes
        self._just_read = False
        try:
            ended = bool(self._elsewhere) and bool(store.messages.recover())
            self._changes = store.database.changes()
        except StorageError:
            return False  # The person's next action reports it.
        return ended or before != self._changes

    @property
    def _elsewhere(self) -> list[Turn]:
        """The turns whose answers other programs are writing. Questions that were asked here may follow them."""
        return [turn for turn in self.turns if turn.outcome == "elsewhere"]

    def _has_ended(self, message_id: str) -> bool:
        """Whether an answer is no longer being written. Raises `StorageError`."""
        try:
            return self.core.store.messages.get(message_id).finished
        except NotFound:
            return True

    @property
    def ends_as_stored(self) -> bool:
        """Whether the last turn is also the last one in the store. Raises `NotFound` if the conversation is gone."""
        tip = None if self.id is None else self.core.store.conversations.get(self.id).tip_id
        return tip is None or any(tip in (turn.message, turn.asked) for turn in self.turns[-1:])

    def begin(self, prompt: str) -> str:
        """The id of the open conversation; a new one is created if none is open, named after this prompt."""
        if self.id is None:
            self.title = title_from(prompt)
            self.id = self.core.store.conversations.create(self.title, self.choices).id
        return self.id

    # ---- what is chosen for it ---------------------------------------------------------------------------------------

    @property
    def system(self) -> SystemPrompt:
        """The system prompt of the next answer, as far as known; a default is stored with the first answer."""
        if self.choices.system is None:
            return self._imported
        return SystemPrompt(self.choices.system, self.choices.system_name)

    def choose(self, **chosen: Any) -> None:
        """Apply these of `Choices` from the next answer on. A new conversation stores them when it is begun."""
        choices = self.choices
        if self.id is not None:
            # The first answer stores the default system prompt, and each one a yes to all calls of a tool.
            choices = self.core.store.conversations.get(self.id).choices
        choices = replace(choices, **chosen)
        if self.id is not None:
            self.core.store.conversations.choose(self.id, choices)
        self.choices = choices
        self.core.follow(choices)

    def read_choices(self) -> None:
        """Reread the choices, because the first answer stores the default system prompt with the conversation."""
        if self.id is not None:
            self.choices = self.core.store.conversations.get(self.id).choices

    def renew(self) -> None:
        """Reset the choices to those of a new conversation, if nothing was asked or chosen yet."""
        if self.id is None and self.choices == self._given != self._beginning():
            self._given = self._beginning()
            self.choose(remote=self._given.remote, model=self._given.model)

    def _beginning(self) -> Choices:
        server = self.fresh()
        return replace(self._first, remote=server.remote, model=server.model)

    # ---- replies -----------------------------------------------------------------------------------------------------

    def check_idle(self) -> None:
        """Raise `ReplyRunning` while a reply runs in this conversation."""
        if self.live is not None:
            raise ReplyRunning

    def ask(self, question: str, attachments: Sequence[Attachment] = ()) -> RunningReply:
        """The reply to a question, as every method here that returns one: `start` and `listen` make it run."""
        conversation = self.begin(question)
        self._take_up()
        turn = Turn(question, attachments=tuple(attachments))
        return RunningReply(conversation, turn, self.core.reply(conversation, question, attachments))

    def _take_up(self) -> None:
        """Mark the conversation as continued in the chat, wherever it was begun. It is then listed with the others."""
        with contextlib.suppress(StorageError):  # The reply reports it.
            if self.id is not None:
                self.core.store.conversations.set_origin(self.id, None)

    def edit(self, at: int, question_id: str, text: str, attachments: Sequence[Attachment] = ()) -> RunningReply:
        """The reply to another wording of the question of `turns[at]`."""
        assert self.id is not None
        self._take_up()
        turn, events = Turn(text, attachments=tuple(attachments)), self.core.edit(question_id, text, attachments)
        return RunningReply(self.id, turn, events, instead=question_id, at=at)

    def regenerate(self, target: ActionTarget) -> RunningReply:
        self.check_idle()
        message = target.turn.message or self.message_id(target.turn, "question")
        return self._asked_again(target, message, self.core.regenerate(message))

    def resume(self, target: ActionTarget) -> RunningReply:
        """The rest of an answer that was cut off; its turn must have a message."""
        self.check_idle()
        return self._asked_again(target, target.turn.message, self.core.resume(target.turn.message))

    def _asked_again(self, target: ActionTarget, instead: str, events: AsyncIterator[Event]) -> RunningReply:
        """The reply to the same question, in a new turn."""
        assert self.id is not None
        self._take_up()
        asked = target.turn
        turn = Turn(asked.question, asked.asked, wordings=asked.wordings, attachments=asked.attachments)
        return RunningReply(self.id, turn, events, instead=instead, at=target.at)

    def sum_up(self) -> RunningReply:
        self.check_idle()
        if self.id is None:
            raise NotPossible("There is no conversation to summarise yet.")
        self._take_up()
        before = self._summary_in(self.id)
        return RunningReply(self.id, Turn(SUM_UP), self.core.sum_up(self.id), sums_up=True, summary_before=before)

    def has_summed_more(self, reply: RunningReply) -> bool:
        """Whether a summary, or a part of it, is complete since this reply began. Raises `StorageError`."""
        return self._summary_in(reply.conversation) != reply.summary_before

    def _summary_in(self, conversation_id: str) -> str | None:
        """Id of the summary that counts in a conversation."""
        summary = self.core.store.summaries.of(conversation_id)
        return None if summary is None else summary.answer.id

    def take_summary_back(self) -> bool:
        """Make the model read the messages again that the last summary replaced, in all its parts. Returns whether an
        earlier summary applies now."""
        self.check_idle()
        store = self.core.store
        last = summary = None if self.id is None else store.summaries.of(self.id)
        if last is None:
            raise NotPossible("Nothing is summarised here.")
        while summary is not None and store.summaries.made_together(summary, last):
            store.bin.delete_message(summary.question.id)
            summary = store.summaries.of(last.question.conversation_id)
        return summary is not None

    def send(self, queued: Queued) -> RunningReply:
        turn = Turn(sanitise(queued.text), attachments=queued.attachments)
        events = self.core.send(queued)
        return RunningReply(queued.conversation_id, turn, events, queued.message_id or "", queued.id)

    def verify(self, cursor: Cursor) -> RunningReply | None:
        """The verification of the drafted answer that has the cursor; without a cursor, of the last drafted one.

        Returns None if the answer was queued for it, or removed from the queue again.
        """
        turns = [cursor[0]] if cursor is not None else reversed(self.turns)
        turn = next((turn for turn in turns if turn.verifiable), None)
        if turn is None or self.id is None:
            raise NotPossible("No answer here is waiting to be checked.")
        outbox = self.core.outbox
        if turn.awaiting:
            for queued in self.queued():
                if queued.message_id == turn.message:
                    outbox.unqueue(queued.id)
        elif self.core.status().mode in UNREACHABLE:
            outbox.enqueue_verification(turn.message)
        else:
            self.check_idle()
            again = Turn(turn.question, attachments=turn.attachments)
            return RunningReply(self.id, again, self.core.verify(turn.message), turn.message)
        return None

    def start(self, reply: RunningReply) -> Turn | None:
        """Make it the running reply of its conversation, and show its turn if that is open.

        Returns the turn that it replaced, if it verifies a shown answer.
        """
        self.replies[reply.conversation] = reply
        self.ended.pop(reply.conversation, None)
        if reply.conversation != self.id:
            return None
        replaced: Turn | None = None
        if reply.instead is not None:
            self.turns = [*self.turns[: self._place(reply)], reply.turn]
        else:
            places = (at for at, old in enumerate(self.turns) if reply.verifies and old.message == reply.verifies)
            at = next(places, None)
            if at is None:
                self.turns.append(reply.turn)
            else:
                replaced, self.turns[at] = self.turns[at], reply.turn
        place_questions(self.turns)
        return replaced

    def _place(self, reply: RunningReply) -> int:
        """Where the turn is that a second version replaces. A summary may have folded it, or turns above it, since."""
        places = (at for at, turn in enumerate(self.turns) if reply.instead in (turn.message, turn.asked))
        return next(places, 0 if self.folded else reply.at)

    async def listen(self, reply: RunningReply, tell: Callable[[Event], Awaitable[None]]) -> None:
        """Follow a running reply to its end; each event goes to `tell`. Errors of the reply are not raised."""
        try:
            await reply.listen(tell)
        finally:
            del self.replies[reply.conversation]
            if reply.conversation != self.id:
                self.ended[reply.conversation] = reply.turn.outcome
            reply.ended.set()

    def stop(self, conversation_id: str | None = None) -> None:
        """End the running reply of a conversation, by default of this one. Its text stays."""
        reply = self.live if conversation_id is None else self.replies.get(conversation_id)
        if reply is None:
            return
        try:
            if reply.queued:
                self.core.outbox.unqueue(reply.queued)  # Otherwise it would be retried.
        except NotFound:
            pass  # It is answered already.
        finally:
            self.core.stop(reply.conversation)

    def undo_version(self, reply: RunningReply) -> bool:
        """Show again what a failed second version replaced; returns True if that was another wording of a question."""
        if reply.instead is None:
            return False
        self.core.store.branches.show(reply.instead)
        return self.core.store.messages.get(reply.instead).role == "user"

    # ---- the queue ---------------------------------------------------------------------------------------------------

    def queued(self) -> list[Queued]:
        return [queued for queued in self.core.outbox.queued() if queued.conversation_id == self.id]

    @property
    def has_room(self) -> bool:
        """Whether a question could be answered now. Otherwise it has to wait until another answer has ended."""
        return self.live is None and self.core.has_room(self.id)

    def queued_prompts(self) -> list[tuple[str, bool]]:
        """The queued prompts, and whether each only waits for running answers to end.

        Also marks the answers that wait to be verified.
        """
        queued = self.queued()
        answers = {one.message_id for one in queued}
        for turn in self.turns:
            turn.await_verification(turn.message in answers)
        outbox = self.core.outbox
        return [
            ("\n".join((one.text, *(f"+ {described(file)}" for file in one.attachments))), outbox.follows(one))
            for one in queued
            if one.kind == "ask"
        ]

    def enqueue(self, prompt: str, attachments: Sequence[Attachment] = (), *, follows: bool = False) -> None:
        """Queue a prompt for the verifier; with `follows`, for whoever can answer it once the running answers end."""
        conversation = self.begin(prompt)
        self._take_up()
        self.core.outbox.enqueue(conversation, prompt, attachments, follows=follows)

    def take_back(self) -> tuple[str, tuple[Attachment, ...]]:
        """Remove the last queued prompt from the queue; returns its text and its attachments."""
        prompts = [queued for queued in self.queued() if queued.kind == "ask"]
        if not prompts:
            raise NotPossible("Nothing is queued here.")
        taken = self.core.outbox.unqueue(prompts[-1].id)
        return sanitise(taken.text), taken.attachments

    # ---- messages ----------------------------------------------------------------------------------------------------

    def target(self, cursor: Cursor) -> ActionTarget:
        """The message with the cursor, or else the last answer."""
        turn, part = cursor or (self.turns[-1] if self.turns else None, "answer")
        at = next((at for at, one in enumerate(self.turns) if one is turn), None)
        if turn is None or at is None or self.id is None:
            raise NotPossible("There is no message yet.")
        return ActionTarget(at, turn, part)

    def message_id(self, turn: Turn, part: Part) -> str:
        """The id of a question or an answer; empty if it is not stored yet."""
        if part == "answer":
            return turn.message
        if not turn.asked and turn.message:
            turn.asked = self.core.store.messages.get(turn.message).parent_id or ""
        return turn.asked

    def question_id(self, target: ActionTarget) -> str:
        """The id of the question, which can be edited once it is stored."""
        if not (question := self.message_id(target.turn, "question")):
            raise NotPossible("That question is not stored yet.")
        return question

    def show_version(self, target: ActionTarget, step: int) -> Part:
        """Show the version before or after this one, with what followed it; which part of the turn has changed."""
        self.check_idle()
        # An answer with one version: only the question can be meant.
        part: Part = "question" if target.turn.versions[1] == 1 else target.part
        message = self.message_id(target.turn, part)
        versions = self.core.store.branches.siblings(message) if message else []
        place = next((place for place, one in enumerate(versions) if one.id == message), -1) + step
        if not 0 <= place < len(versions):
            raise NotPossible("There is no further version." if versions[1:] else "There is only this version.")
        self.core.store.branches.show(versions[place].id)
        return part

    async def place_versions(self) -> None:
        """Set for each finished turn which version it is."""
        if self.id is None:
            return
        versions = await asyncio.to_thread(self.core.store.branches.versions, self.id)
        for turn in self.turns if versions else ():
            self.message_id(turn, "question")
        for turn in self.turns:
            if not turn.running:
                turn.place(versions)

    def delete(self, target: ActionTarget) -> bool:
        """Delete a message and what follows it; False if it is not stored."""
        self.check_idle()
        if message := self.message_id(target.turn, target.part):
            self.core.store.bin.delete_message(message)
            self._deleted.append(message)
        return bool(message)

    def undelete(self) -> None:
        if not self._deleted:
            raise NotPossible("Nothing was deleted here.")
        self.check_idle()
        self.core.store.bin.restore_message(self._deleted[-1])
        self._deleted.pop()

    def fork(self, target: ActionTarget) -> str | None:
        """Copy the conversation up to this message; the copy's id, or None if the message is not stored."""
        if self.id is None or not (message := self.message_id(target.turn, target.part)):
            return None
        return self.core.store.branches.duplicate(self.id, message).id

    async def shade(self) -> None:
        """Shade the text that nobody verified, the last answer first."""
        drafted = [turn for turn in self.turns if turn.drafted and turn.message and not turn.running]
        for turn in reversed(drafted):
            message = await asyncio.to_thread(self.core.store.messages.get, turn.message)
            ranges = await asyncio.to_thread(self.core.drafted_spans, message)
            if sanitise(message.text) == turn.text:
                turn.shade(ranges)

    # ---- the context -------------------------------------------------------------------------------------------------

    async def measure(self) -> Context | None:
        """Count the tokens of the conversation, which may take a while.

        Returns the count if the person is to be warned now.
        """
        conversation, context = self.id, None
        if conversation is not None:
            context = await asyncio.to_thread(self.core.context, conversation)
        self._context = context
        if conversation is None or context is None:
            return None
        if context.share < NEARLY_FULL:
            self._nearly_full.discard(conversation)
            return None
        told = conversation in self._nearly_full
        self._nearly_full.add(conversation)
        return None if told else context

    @property
    def context(self) -> Context | None:
        """The context as last counted, plus the running reply's tokens since."""
        context = self._context
        if context is not None and self.live is not None:
            context = context._replace(used=context.used + self.live.written)
        return context
