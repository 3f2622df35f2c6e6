"""The open conversation on the screen: its messages, the prompt below them, the replies, and the queue.

The replies of other conversations continue meanwhile. When one of them ends, a toast says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

from textual import events, on, work
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

from app.prompts import trimmed
from app.sanitise import one_line
from app.tui.background import begin
from app.tui.keymap import key_of
from app.tui.metrics import SessionMetrics
from app.tui.notices import complain, excerpt, reporting, say_busy
from app.tui.open_conversation import OpenConversation
from app.tui.running_reply import RunningReply
from app.tui.screens.chat.local_offer import LocalOffer
from app.tui.screens.chat.message_actions import MessageActions
from app.tui.screens.chat.prompt_text import PromptText, QuestionEdit
from app.tui.screens.chat.question_files import PromptFiles, QuestionFiles
from app.tui.screens.chat.replies import Replies
from app.tui.stored_thread import StoredThread
from app.tui.widgets.completing_text_area import Completions
from app.tui.widgets.panel import Rounds
from app.tui.widgets.prompt import GENERAL_PLACEHOLDER, PLACEHOLDER, Prompt
from app.tui.widgets.system_line import SystemLine
from app.tui.widgets.transcript import SummaryLine
from app.tui.widgets.welcome import Welcome
from storage import Attachment, NotFound, StorageError

INCOMPLETE_SUMMARY = "The summary is not complete, so the model reads the same as before."
PARTIAL_SUMMARY = (
    "Only the first messages are summarised. The model still reads the others in full; /compact summarises them."
)


class ConversationView(Vertical):
    """Shows an `OpenConversation` and runs its replies. `metrics` hears every event of every reply."""

    class Grown(Message):
        """The conversation takes more or less of the context."""

    class Chosen(Message):
        """The choices for the conversation may have changed."""

    class ListChanged(Message):
        """The list of conversations is out of date."""

    def __init__(self, conversation: OpenConversation, metrics: SessionMetrics) -> None:
        super().__init__(id="main")
        self._conversation = conversation
        self._title = Static(id="title", markup=False)
        self.welcome = Welcome()
        self.messages = MessageActions(conversation)
        self.prompt = Prompt()
        self.rounds = Rounds()
        self.local_offer = LocalOffer()
        self.system = SystemLine()
        self._file_lines = PromptFiles()
        self.files = QuestionFiles(self.prompt, self._file_lines, conversation)
        self.text = PromptText(self.prompt, conversation, self.files.keep)
        self._metrics = metrics
        self._catching_up = asyncio.Lock()
        self._replies = Replies(self, conversation, metrics, self.messages, self.rounds, self.prompt)

    def compose(self) -> Iterator[Widget]:
        yield self._title
        yield self.welcome
        yield self.system
        yield self.messages
        yield self.rounds
        yield self.local_offer
        yield self._file_lines
        yield self.prompt.completions
        yield self.prompt

    def introduce(self, who: str | None, *, drafts: bool) -> None:
        """Say who answers, while no conversation is open; see `Welcome.introduce`."""
        self.welcome.introduce(who, drafts=drafts)
        self.prompt.placeholder = PLACEHOLDER if who is None else GENERAL_PLACEHOLDER

    def on_mount(self) -> None:
        self.text.take()
        begin(self, self.text.recall, group="asked")
        self._show_head()
        self._send_queued()

    @property
    def alive(self) -> bool:
        """Whether the window is not closing. Its parts are removed before work in threads is cancelled."""
        return self.messages.alive and self.prompt.is_attached

    # ---- opening -----------------------------------------------------------------------------------------------------

    async def open(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Show a conversation as it is stored, with its running reply if it has one. None: a new conversation.

        `message_id`: the message to show it at, on whichever branch that is.
        """
        if conversation_id != self._conversation.id:
            self.text.end_edit()
        with reporting(self):
            stored = await self._conversation.read(conversation_id, message_id)
            if stored is not None and self.alive:
                await self._show(stored)

    async def _show(self, stored: StoredThread) -> None:
        if stored.id != self._conversation.id:
            self.text.keep()
            found = self._conversation.open(stored)
            self.files.keep((), "")
            self.text.take()
        else:
            found = self._conversation.open(stored)
        self._show_head()
        await self.messages.show(found)
        if (live := self._conversation.live) is not None and live.turn.asking is not None:
            self.post_message(Replies.CallAsks())
        if self.alive:
            self._show_changes()
            await self.messages.show_versions()

    async def catch_up(self) -> None:
        """Show the conversation as it is stored, if another window has continued it."""
        async with self._catching_up:  # One that was cancelled could leave undrawn what it has read.
            if self._conversation.outdated:
                await self.open(self._conversation.id)

    async def look_again(self) -> None:
        """Show the conversation as it is stored; if it is already shown, the scroll position stays."""
        try:
            same = self._conversation.ends_as_stored
        except NotFound:
            await self.open(None)  # It was begun for a prompt that was removed from the queue.
        except StorageError as error:
            complain(self, error)
        else:
            await (self._show_queued() if same else self.open(self._conversation.id))

    def rename(self, title: str) -> None:
        self._conversation.title = title
        self._show_head()

    @on(MessageActions.Reopened)
    def _show_reopened(self) -> None:
        self._show_head()
        self._show_changes()

    def _show_head(self) -> None:
        # Classes on the screen would have the styles of everything on it computed again, which takes 25 ms.
        self.welcome.display = self._conversation.id is None
        self.messages.display = self._conversation.id is not None
        tags = "".join(f"  #{one_line(tag)}" for tag in self._conversation.choices.tags)
        self._title.update(Content.assemble(one_line(self._conversation.title), (tags, "$text-muted")))
        self.prompt.answering = self._conversation.live is not None
        self._metrics.shown = self._conversation.id or ""
        self.show_choices()
        self.post_message(self.ListChanged())

    def show_choices(self) -> None:
        """Show the system prompt."""
        self.system.show(self._conversation.system, key_of(self, "chat.system_line"))
        self.post_message(self.Chosen())

    def _show_changes(self) -> None:
        self._show_title()
        self.prompt.verifiable = any(turn.verifiable for turn in self._conversation.turns[-1:])
        self.post_message(self.Grown())

    def _show_title(self) -> None:
        # The title repeats the first question, which is right below it while there is only one.
        self._title.set_class(len(self._conversation.turns) > 1, "-needed")

    # ---- replies -----------------------------------------------------------------------------------------------------

    @on(Prompt.Submitted)
    async def send(self, event: Prompt.Submitted) -> None:
        if (files := await self._read_files(event)) is not None:
            await self._ask(event.text, files)

    @on(Welcome.Picked)
    async def send_example(self, event: Welcome.Picked) -> None:
        self.screen.set_focus(self.prompt)
        await self._ask(event.question)

    @on(MessageActions.ExplainAsked)
    async def explain(self, event: MessageActions.ExplainAsked) -> None:
        self.text.end_edit()  # Otherwise the question would be sent as another wording of an earlier one.
        self.screen.set_focus(self.prompt)
        await self._ask(event.question)

    async def _read_files(self, event: Prompt.Submitted | Prompt.Kept) -> Sequence[Attachment] | None:
        """The files that a prompt names, or None if it is not sent now, after a notice."""
        place = self._place
        again = type(event)(event.text, event.typed)
        files = await self.files.read(event.typed, partial(self._send_again, again, place))
        if place == self._place:
            return files
        said = "You left the conversation while files were being read. The question is still in its prompt."
        self.notify(said, title="Not sent", severity="warning")
        return None

    def _send_again(self, event: Prompt.Submitted | Prompt.Kept, place: tuple[str | None, QuestionEdit | None]) -> None:
        """Send a prompt whose pages have been fetched, unless the person has moved on."""
        if place == self._place:
            self.prompt.post_message(event)

    @property
    def _place(self) -> tuple[str | None, QuestionEdit | None]:
        """Where a prompt would be sent. It may change during every `await`."""
        return self._conversation.id, self.text.edit

    async def _ask(self, question: str, files: Sequence[Attachment] = ()) -> None:
        """Send a prompt with its files, or an edited question. It stays in the prompt if that is impossible now.

        A prompt is queued if another answer has to end first, here or of the same server.
        """
        conversation, edit, place = self._conversation, self.text.edit, self._place
        if conversation.live is None and edit is None:
            await self.catch_up()  # The question follows what is stored.
        if place != self._place:
            return
        room = False
        with reporting(self):
            room = conversation.has_room
        if edit is not None and conversation.live is not None:
            say_busy(self)
        elif edit is None and not room:
            await self._enqueue(question, files, follows=True)
        elif edit is not None:
            self.text.end_edit()
            self.prompt.keep_in_reach(question)
            await self._run(conversation.edit(edit.at, edit.question, question, files))
        elif self._begin(question):
            self.prompt.take_off(question)
            self.prompt.keep_in_reach(question)
            self.files.keep((), "")
            await self._run(conversation.ask(question, files))

    def _begin(self, prompt: str) -> bool:
        """Make sure that a conversation is open. False, with the prompt kept, if none can be stored."""
        if self._conversation.id is None:
            try:
                self._conversation.begin(prompt)
            except StorageError as error:
                complain(self, error)
                if trimmed(self.prompt.full_text) != prompt:
                    self.prompt.put(prompt)
                return False
            self._show_head()
        return True

    async def verify(self) -> None:
        """Have a drafted answer verified now, or when the verifier is back. A second call cancels that."""
        reply: RunningReply | None = None
        with reporting(self):
            reply = self._conversation.verify(self.messages.cursor)
        if reply is None:
            await self._show_queued()
        else:
            await self._run(reply)

    async def sum_up(self) -> None:
        with reporting(self):
            await self._run(self._conversation.sum_up())

    @on(SummaryLine.Clicked)
    async def fold_summed(self) -> None:
        conversation = self._conversation
        unfolds = conversation.unfolded = not conversation.unfolded
        await self.open(conversation.id)
        if unfolds and not conversation.unfolded:  # A newer summary was read, which is folded at first.
            conversation.unfolded = True
            await self.open(conversation.id)
        if conversation.unfolded and 0 < conversation.summed.turns <= len(conversation.turns):
            self.messages.transcript.go_to(conversation.summed.turns - 1)

    async def take_summary_back(self) -> None:
        """Make the model read the messages again that the last summary replaced, in all its parts."""
        with reporting(self):
            earlier = self._conversation.take_summary_back()
            await self.open(self._conversation.id)
            more = "Only the last summary was undone. An earlier one remains; /compact undo undoes it, too."
            self.notify(more if earlier else "The model reads the original messages again.")

    def stop(self) -> None:
        """End the running reply of this conversation. Its text stays."""
        with reporting(self):
            self._conversation.stop()

    async def _run(self, reply: RunningReply) -> None:
        await self._show_reply(reply)
        self._follow(reply)

    async def _show_reply(self, reply: RunningReply) -> None:
        await self.messages.start(reply)
        self._show_started()

    def _show_started(self) -> None:
        self.prompt.answering = self._conversation.live is not None
        self._show_title()
        self.post_message(self.ListChanged())

    @on(MessageActions.ReplyStarted)
    def hear_reply(self, event: MessageActions.ReplyStarted) -> None:
        self._show_started()
        self._follow(event.reply)

    @work(group="reply")
    async def _follow(self, reply: RunningReply) -> None:
        await self._listen(reply)

    async def _listen(self, reply: RunningReply) -> None:
        """Show a reply until it has ended, in the background."""
        await self._replies.listen(reply, partial(self._forget_question, reply))
        if self.alive:
            with reporting(self):
                self._conversation.read_choices()  # The first answer has kept the default system prompt.
            await self.catch_up()  # Meanwhile an answer of another window may have ended, which was not drawn.
            self.show_choices()
            await self._settle(reply)
            self._tell_ended(reply)
            self.post_message(self.ListChanged())
            if reply.turn.outcome == "done":
                self._entitle(reply.conversation)

    @work(group="title")
    async def _entitle(self, conversation: str) -> None:
        """Show the title that the model gives a new conversation, if it gives one."""
        with suppress(StorageError):  # It may be deleted by now, and nobody waits for a title.
            title = await self._conversation.core.entitle(conversation)
            if title is not None and self.alive:
                if conversation == self._conversation.id:
                    self.rename(title)
                self.post_message(self.ListChanged())

    async def _forget_question(self, reply: RunningReply) -> None:
        """The question is in the store, so its unsent copy is no longer needed."""
        if reply.conversation == self._conversation.id:
            if self.alive:
                self.show_choices()
            self.post_message(self.Grown())
            self.text.keep()
            self.text.forget_new()
            await self._show_queued()

    def _tell_ended(self, reply: RunningReply) -> None:
        """Say that the answer of another conversation has ended, unless the person stopped it."""
        turn = reply.turn
        if reply.conversation == self._conversation.id or turn.outcome == "stopped":
            return
        done = turn.outcome == "done"
        words = "summarised" if reply.sums_up else "answered"
        self.notify(
            "\n".join(part for part in (excerpt(one_line(turn.question)), turn.error) if part),
            title=words.capitalize() if done else f"Not {words}",
            severity="information" if done else "warning",
            markup=False,
        )

    async def _settle(self, reply: RunningReply) -> None:
        """Show what is stored of an ended reply, if it differs from what is shown."""
        turn, conversation = reply.turn, self._conversation
        here = conversation.id == reply.conversation
        again = False
        if reply.sums_up:
            if here and (turn.error or turn.cut or turn.outcome != "done"):
                with reporting(self):
                    partial_one = conversation.has_summed_more(reply)
                    why = turn.error or ("" if partial_one else INCOMPLETE_SUMMARY)
                    said = " ".join(filter(None, [why, PARTIAL_SUMMARY if partial_one else ""]))
                    self.notify(said, severity="warning", markup=False)
            elif here:
                self.notify("From now on, the model reads a summary of the older messages. /compact show shows them.")
            again = True
        elif reply.instead is not None:
            if turn.outcome == "failed" and not turn.text:
                self._undo_version(reply, here)
                again = True
        elif reply.verifies or reply.queued:
            if turn.error and here:
                self.notify(turn.error, severity="warning", markup=False)
            again = turn.outcome != "done" or turn not in conversation.turns[-1:]
        elif turn.queued:
            if here:
                self.notify(turn.error, severity="warning", markup=False)
            again = not turn.text  # The question is a queued prompt now, below everything that was said.
        elif turn.outcome == "failed" and here and not (turn.text or self.prompt.text):
            self.prompt.put_back(turn.question)
        if again and here:
            await self.open(conversation.id)
        await self._show_queued()
        self.post_message(self.Grown())
        if conversation.id == reply.conversation:
            await self.messages.show_versions()

    def _undo_version(self, reply: RunningReply, here: bool) -> None:
        """A second version failed: show again what was there, and keep everything that was typed."""
        if here:
            self.notify(reply.turn.error, severity="warning", markup=False)
        with reporting(self):
            edited = self._conversation.undo_version(reply)
            if edited and here and not self.prompt.full_text:
                self.prompt.put_back(reply.turn.question)

    # ---- the queue ---------------------------------------------------------------------------------------------------

    async def _show_queued(self) -> None:
        await self.messages.show_queued()
        if self.alive:
            self.prompt.verifiable = any(turn.verifiable for turn in self._conversation.turns[-1:])

    @on(Prompt.Kept)
    async def enqueue(self, event: Prompt.Kept) -> None:
        if self.text.edit is not None:
            said = "An edited question cannot be queued. Send it now, or ask it as a new question."
            self.notify(said, severity="warning")
            return
        if (files := await self._read_files(event)) is not None:
            await self._enqueue(event.text, files)

    async def _enqueue(self, text: str, files: Sequence[Attachment], *, follows: bool = False) -> None:
        if self._begin(text):
            with reporting(self):
                self._conversation.enqueue(text, files, follows=follows)
                self.files.keep((), "")
                self.prompt.take_off(text)
                self.prompt.keep_in_reach(text)
                self.text.keep()
                self.text.forget_new()
                await self._show_queued()
                self.messages.transcript.scroll_end(animate=False)

    @on(Prompt.Recalled)
    async def take_back(self) -> None:
        if self.text.edit is None:
            with reporting(self):
                prompt, files = self._conversation.take_back()
                await self.look_again()
                self.prompt.put(prompt)
                self.files.keep(files, prompt)
                self.text.keep()
            await self._show_queued()

    @work(group="queue")
    async def _send_queued(self) -> None:
        async for queued in self._conversation.core.due():
            if queued.conversation_id not in self._conversation.replies:
                reply = self._conversation.send(queued)
                await self._show_reply(reply)
                self._follow(reply)

    # ---- messages and the prompt -------------------------------------------------------------------------------------

    @on(MessageActions.EditAsked)
    def edit_question(self, event: MessageActions.EditAsked) -> None:
        target = event.target
        self.text.begin_edit(event.question_id, target.at, target.turn.question, target.turn.attachments)
        self.screen.set_focus(self.prompt)

    @on(MessageActions.ForkAsked)
    async def fork(self, event: MessageActions.ForkAsked) -> None:
        with reporting(self):
            if event.target.turn not in self._conversation.turns:
                return  # The copy is open already: the key was pressed twice.
            if (copy := self._conversation.fork(event.target)) is not None:
                await self.open(copy)
                self.notify("This is a copy up to that message; the other conversation stays as it is.", title="Forked")
                self.screen.set_focus(self.prompt)

    @on(events.DescendantFocus, "Transcript")
    def enter_messages(self) -> None:
        self.prompt.beside = self.messages.hint

    @on(events.DescendantBlur, "Transcript")
    def leave_messages(self) -> None:
        self.prompt.beside = ()

    @on(events.DescendantFocus, "Prompt")
    def drop_cursor(self) -> None:
        self.messages.transcript.let_go()

    @on(Prompt.Paged)
    def page(self, event: Prompt.Paged) -> None:
        transcript = self.messages.transcript
        (transcript.scroll_page_up if event.pages < 0 else transcript.scroll_page_down)()

    @on(Prompt.Ended)
    def go_to_end(self, event: Prompt.Ended) -> None:
        transcript = self.messages.transcript
        (transcript.scroll_home if event.first else transcript.scroll_end)()

    @on(Prompt.Left)
    def offer_examples(self) -> None:
        if self._conversation.id is None:
            self.welcome.enter()

    # In a wide window, the mouse wheel also works outside the column.

    def on_mouse_scroll_up(self) -> None:
        self.messages.transcript.scroll_up(animate=False)

    def on_mouse_scroll_down(self) -> None:
        self.messages.transcript.scroll_down(animate=False)

    @on(TextArea.Changed, "Prompt")
    def keep_soon(self) -> None:
        self.text.keep_soon()
        if not self.prompt.text and self.text.edit is None:
            self.files.keep((), "")  # What is typed next is another question.
        self.files.look_soon()

    @on(PromptFiles.Removed)
    def take_out_file(self, event: PromptFiles.Removed) -> None:
        self.files.take_out(event.raw)
        self.screen.set_focus(self.prompt)

    @on(Completions.Chosen)
    def complete(self, event: Completions.Chosen) -> None:
        self.prompt.take(event.at)

    @on(Prompt.ImageWanted)
    @work(group="paste", exclusive=True)
    async def paste(self) -> None:
        """Attach the image in the clipboard, or paste what was copied in this window."""
        await self._paste_image(or_copied=True)

    @work(group="paste", exclusive=True)
    async def action_paste_image(self) -> None:
        await self._paste_image(or_copied=False)

    async def _paste_image(self, *, or_copied: bool) -> None:
        from app.tui.clipboard_image import NoImage, clipboard_image, kept_image  # Not needed at the start.

        try:
            image = await clipboard_image()
            path = await asyncio.to_thread(kept_image, image, self._conversation.core.store.path)
        except NoImage as reason:
            if not (or_copied and self.prompt.paste_copied()):
                self.notify(str(reason), title="No image", severity="warning", markup=False)
        except OSError as error:
            said = f"The image cannot be saved ({error.strerror}). Free some space, or name an image file with @."
            self.notify(said, severity="error", markup=False)
        else:
            self.prompt.attach(path)
            self.screen.set_focus(self.prompt)

    @on(Prompt.EditorWanted)
    @work(group="editor", exclusive=True)
    async def open_editor(self) -> None:
        await self.text.open_editor()
