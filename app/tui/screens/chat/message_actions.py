"""The messages of the open conversation, and what keys do with one of them: edit, regenerate, continue, fork, delete.

A key acts on the message with the cursor, or else on the last answer. Nothing is overwritten: a new version is stored
next to the old one, and deleted messages can be restored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from textual import work
from textual.actions import SkipAction
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from app.tui.block_notes import notes_of_block
from app.tui.code_blocks import CodeBlock, code_blocks
from app.tui.keymap import hint, key_of
from app.tui.notices import reporting
from app.tui.open_conversation import ActionTarget, OpenConversation
from app.tui.running_reply import RunningReply
from app.tui.turn import Cursor, Part, Turn
from app.tui.widgets.message import AnswerView
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.transcript import NOTE, QueuedPrompts, SummaryLine, Transcript

HINT = (
    ("chat.stop", "back"),
    ("message.copy", "copy"),
    ("message.edit", "edit"),
    ("message.regenerate", "again"),
    ("message.use_block", "use code"),
    ("message.verify", "check"),
    ("message.delete", "delete"),
    ("app.help", "keys"),
)
"""The most useful keys while a message has the cursor."""


class MessageActions(Vertical):
    """The transcript with its keys, which act while it has the focus: letters can be typed everywhere else."""

    BINDINGS = [
        Binding(
            "enter",
            "use_block",
            "Use a code block of the answer, or show the files of the question",
            id="message.use_block",
        ),
        Binding("tab", "choose_block(1)", "Select the next code block", id="message.next_block"),
        Binding("shift+tab", "choose_block(-1)", "Select the previous code block", id="message.previous_block"),
        Binding("c", "copy_message", "Copy the message", id="message.copy"),
        Binding("e", "edit_question", "Edit the question", id="message.edit"),
        Binding("r", "regenerate", "Regenerate the answer", id="message.regenerate"),
        Binding("left_square_bracket", "show_version(-1)", "Previous version", id="message.before"),
        Binding("right_square_bracket", "show_version(1)", "Next version", id="message.after"),
        Binding("g", "resume", "Continue an incomplete answer", id="message.go_on"),
        Binding("v", "screen.verify", "Have the model check the drafted answer", id="message.verify"),
        Binding("p", "shade", "Shade unchecked text", id="message.shade"),
        Binding("w", "show_withdrawn", "Show the drafted words that the model rejected", id="message.withdrawn"),
        Binding("t", "show_thoughts", "Show the model's thoughts", id="message.thoughts"),
        Binding("o", "show_calls", "Show the tool calls and their results", id="message.calls"),
        Binding("s", "show_sources", "Show the page the answer is based on", id="message.source"),
        Binding("f", "fork", "Fork: a new conversation from here", id="message.fork"),
        Binding("d", "delete_message", "Delete the message and everything after it", id="message.delete"),
        Binding("u", "undelete_message", "Undo the deletion", id="message.undelete"),
        *(Binding(str(n), f"copy_block({n})", f"Copy code block {n}", id=f"message.block{n}") for n in range(1, 10)),
    ]

    @dataclass
    class ReplyStarted(Message):
        """A second version of an answer is shown, and its events are to be heard."""

        reply: RunningReply

    @dataclass
    class EditAsked(Message):
        """The person wants to ask a question in other words."""

        target: ActionTarget
        question_id: str

    @dataclass
    class ForkAsked(Message):
        """The person wants a new conversation that begins with all messages up to this one."""

        target: ActionTarget

    @dataclass
    class ExplainAsked(Message):
        """The person wants a code block explained."""

        question: str

    @dataclass
    class ShellAsked(Message):
        """The person wants a command in their shell when they quit; an empty one cancels this."""

        command: str

    class Reopened(Message):
        """The conversation was read from the store again."""

    def __init__(self, conversation: OpenConversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._for_shell = ""
        """The command that the person wants in their shell when they quit."""
        self.transcript = Transcript()

    def compose(self) -> Iterator[Widget]:
        yield self.transcript

    @property
    def alive(self) -> bool:
        """Whether the window is not closing. Its parts are removed before work in threads is cancelled."""
        return self.is_attached and bool(self.query(QueuedPrompts))

    @property
    def cursor(self) -> Cursor:
        return self.transcript.cursor

    @property
    def hint(self) -> tuple[str, ...]:
        """The hint below the prompt while a message has the cursor."""
        return tuple(part for action in HINT if (part := hint(self, action)))

    # ---- what is shown -----------------------------------------------------------------------------------------------

    async def show(self, found: int | None = None) -> None:
        """Show the open conversation; `found`: place of the turn to begin at, else its end."""
        summed, unfolded = self._conversation.summed, self._conversation.unfolded
        for line in self.transcript.query(SummaryLine):
            line.tell(summed.messages, unfolded=unfolded)
        await self.transcript.show(self._conversation.turns)
        if found is not None and found >= 0:
            self.transcript.go_to(found)
        await self.show_queued()

    async def start(self, reply: RunningReply) -> None:
        """Make it the running reply of its conversation, and show its turn if that is open."""
        old = self._conversation.start(reply)
        if reply.conversation != self._conversation.id:
            return
        if reply.instead is not None:
            await self.transcript.show(self._conversation.turns)
        elif old is not None:
            await self.transcript.replace(old, reply.turn)
        else:
            await self.transcript.add(reply.turn)

    async def show_queued(self) -> None:
        """Show the prompts that wait, and mark the answers that do."""
        prompts: list[tuple[str, str]] | None = None
        if self.alive:
            with reporting(self):
                ends = "this answer ends" if self._conversation.live is not None else "another answer has ended"
                follows = (
                    f"queued: asked when {ends} · {key_of(self.screen.query_one(Prompt), 'prompt.keep')} takes it back"
                )
                queued = self._conversation.queued_prompts()
                prompts = [(prompt, follows if waits else NOTE) for prompt, waits in queued]
                await self.transcript.refresh_notes()
        if prompts is not None and self.alive:
            await self.query_one(QueuedPrompts).show(prompts)

    async def show_versions(self) -> None:
        """Number the versions of each message, and shade unverified text if shading is on."""
        if self.alive:
            with reporting(self):
                await self._conversation.place_versions()
                await self.transcript.refresh_notes()
        if self._conversation.shading:
            self._shade()

    @work(group="shading", exclusive=True)
    async def _shade(self) -> None:
        if self.alive:
            with reporting(self):
                await self._conversation.shade()
                await self.transcript.refresh_notes()

    async def _reopen(self, cursor: tuple[int, Part] | None = None) -> None:
        """Show the conversation as it is stored now, with the cursor at this place if the messages have the focus."""
        with reporting(self):
            stored = await self._conversation.read(self._conversation.id)
            if stored is not None and self.alive:
                self._conversation.open(stored)
                await self.show()
                self.post_message(self.Reopened())
                await self.show_versions()
        if cursor is not None and self.transcript.turns and self.transcript.has_focus:
            at, part = cursor
            await self.transcript.choose(min(at, len(self.transcript.turns) - 1), part)

    # ---- the cursor --------------------------------------------------------------------------------------------------

    async def move_cursor(self, step: int) -> None:
        if self._conversation.turns:
            self.screen.set_focus(self.transcript, scroll_visible=False)
            await self.transcript.move_cursor(step)

    def _target(self) -> ActionTarget:
        return self._conversation.target(self.cursor)

    # ---- copying -----------------------------------------------------------------------------------------------------

    def action_copy_message(self) -> None:
        with reporting(self):
            _, turn, part = self._target()
            self.app.copy_to_clipboard(turn.text if part == "answer" else turn.question)

    def action_copy_block(self, number: int) -> None:
        with reporting(self):
            codes = self._target().turn.codes
            if number <= len(codes):
                self.app.copy_to_clipboard(codes[number - 1])
            else:
                count = f"{len(codes)} code blocks" if len(codes) != 1 else "one code block"
                self.notify(f"That answer has {count if codes else 'no code block'}.", severity="warning")

    def copy_last_code(self) -> None:
        turns = self._conversation.turns
        if code := turns[-1].code if turns else "":
            self.app.copy_to_clipboard(code)
        else:
            self.notify("The last answer has no code block.", severity="warning")

    # ---- code blocks -------------------------------------------------------------------------------------------------

    async def action_choose_block(self, step: int) -> None:
        """Choose a code block of the message with the cursor; after the last one, the key moves the focus."""
        if self.cursor is None:
            raise SkipAction
        with reporting(self):
            target = self._target()
            number = max(0, self.transcript.block + step) if self.transcript.block or step > 0 else -1
            if not 0 < number <= len(target.turn.codes):
                raise SkipAction
            await self.transcript.choose_block(target.at, number)

    def action_use_block(self) -> None:
        with reporting(self):
            _, turn, part = self._target()
            if part == "question" and turn.attachments:
                self.transcript.toggle(turn, "files")
                return
            blocks = code_blocks(turn)
            number = self.transcript.block or len(turn.codes)
            block = next((one for one in blocks if one.number == number), None)
            if block is not None:
                self._use(block, turn)
            elif turn.codes:
                self.notify("That code block is still being written.", severity="warning")
            else:
                self.notify("That answer has no code block.", severity="warning")

    @work(group="code-block", exclusive=True)
    async def _use(self, block: CodeBlock, turn: Turn) -> None:
        from app.tui.screens.code_block import CodeBlockScreen

        waiting = bool(block.command) and block.command == self._for_shell
        whole = "\n".join(turn.codes)
        notes = await asyncio.to_thread(notes_of_block, turn.request, block, None if turn.running else whole)
        match await self.app.push_screen_wait(CodeBlockScreen(block, len(turn.codes), notes, waiting=waiting)):
            case "copy":
                self.app.copy_to_clipboard(block.code)
            case "shell":
                self._for_shell = "" if waiting else block.command
                self.post_message(self.ShellAsked(self._for_shell))
            case "explain":
                self.post_message(self.ExplainAsked(block.question))

    def action_show_sources(self) -> None:
        with reporting(self):
            sources = self._target().turn.sources
            if sources:
                self.post_message(AnswerView.SourcesAsked(sources))
            else:
                self.notify("That answer cites no page. Only answers of Shell Guide do, and not all of them.")

    # ---- versions ----------------------------------------------------------------------------------------------------

    def action_edit_question(self) -> None:
        with reporting(self):
            target = self._target()
            self.post_message(self.EditAsked(target, self._conversation.question_id(target)))

    async def action_regenerate(self) -> None:
        with reporting(self):
            await self._answer_again(self._conversation.regenerate(self._target()))

    async def action_resume(self) -> None:
        with reporting(self):
            target = self._target()
            self._conversation.check_idle()
            if not target.turn.message:
                key = key_of(self, "message.regenerate")
                self.notify(f"That answer has no text to continue. Press {key} for a new answer.")
                return
            await self._answer_again(self._conversation.resume(target))

    async def _answer_again(self, reply: RunningReply) -> None:
        await self.start(reply)  # At once: the next key must find it running.
        self.post_message(self.ReplyStarted(reply))

    async def action_show_version(self, step: int) -> None:
        with reporting(self):
            target = self._target()
            part = self._conversation.show_version(target, step)
            await self._reopen((target.at, part))

    # ---- deleting, forking -------------------------------------------------------------------------------------------

    async def action_delete_message(self) -> None:
        with reporting(self):
            target = self._target()
            if self._conversation.delete(target):
                key = key_of(self, "message.undelete")
                self.notify(f"Press {key} on a message to bring it back.", title="Deleted", timeout=10)
                await self._reopen((target.at, target.part))

    async def action_undelete_message(self) -> None:
        with reporting(self):
            self._conversation.undelete()
            await self._reopen()

    def action_fork(self) -> None:
        with reporting(self):
            self.post_message(self.ForkAsked(self._target()))

    # ---- what nobody verified ----------------------------------------------------------------------------------------

    async def action_shade(self) -> None:
        conversation = self._conversation
        conversation.shading = not conversation.shading
        if not conversation.shading:
            for turn in conversation.turns:
                turn.shade(())
            await self.transcript.refresh_notes()
            return
        self._shade()
        if not any(turn.drafted for turn in conversation.turns):
            self.notify("Nothing here is an unchecked draft.")

    def action_show_thoughts(self) -> None:
        with reporting(self):
            if not self.transcript.toggle(self._target().turn, "thoughts"):
                self.notify("The model showed no thoughts for that answer.")

    def action_show_calls(self) -> None:
        """Show what the answer's tool calls were asked and gave, or fold them again."""
        with reporting(self):
            if not self.transcript.toggle(self._target().turn, "calls"):
                self.notify("The model called no tools for that answer.")

    def action_show_withdrawn(self) -> None:
        with reporting(self):
            if not self.transcript.toggle(self._target().turn, "withdrawn"):
                self.notify("The model rejected no words of that answer.")
