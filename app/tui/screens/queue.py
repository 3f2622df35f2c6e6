"""The queue for the verifier: view it, change a prompt, move it, remove it."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.prompts import trimmed
from app.reply.assistant import Assistant
from app.sanitise import one_line, sanitise
from app.tui.keymap import hint
from app.tui.notices import complain, reporting
from app.tui.screens.dialog import Dialog, titled
from app.tui.widgets.folding_text_area import FoldingTextArea
from storage import Queued, StorageError

QUIET = "$foreground 75%"
KEYS = (("queue.edit", "change"), ("queue.earlier", "earlier"), ("queue.later", "later"), ("queue.remove", "take out"))


class Rewording(FoldingTextArea):
    """The text of one queued prompt, while it is being changed."""

    BINDINGS = [
        Binding("enter", "keep", "Save the new text", id="queue.keep", priority=True),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="queue.newline", priority=True),
        Binding("escape", "drop", "Keep the old text", id="queue.drop", priority=True),
    ]

    class Ended(Message):
        """The person is done with the text."""

    def __init__(self) -> None:
        super().__init__("")
        self.cursor_blink = False
        self.queued: Queued | None = None

    def action_keep(self) -> None:
        self.post_message(self.Ended())

    def action_newline(self) -> None:
        self.insert("\n")

    def action_drop(self) -> None:
        if self.queued is not None:
            self.text = sanitise(self.queued.text)
        self.post_message(self.Ended())


class QueueScreen(Dialog[str | None]):
    """Closes with the id of a conversation to open, or None. `removed`: texts of prompts that were taken out."""

    BINDINGS = [
        Binding("e", "reword", "Edit its text", id="queue.edit"),
        Binding("shift+up,k", "move(-1)", "Send it earlier", id="queue.earlier"),
        Binding("shift+down,j", "move(1)", "Send it later", id="queue.later"),
        Binding("d,delete", "remove", "Remove it; Up in the prompt recalls it", id="queue.remove"),
        Binding("escape,q", "dismiss", "Close", id="queue.close"),
    ]

    def __init__(self, core: Assistant) -> None:
        super().__init__()
        self._core = core
        self._queued: list[Queued] = []
        self.removed: list[str] = []

    def compose(self) -> ComposeResult:
        with titled(Vertical(), "Queue: sent when the server can answer", hint(self, ("queue.close", "close"))):
            yield OptionList(compact=True)
            yield Rewording()
            yield Static(f"enter open   {hint(self, *KEYS)}", id="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one(Rewording).display = False
        self._show(None)
        self.query_one(OptionList).focus()

    def _show(self, highlighted: str | None) -> None:
        """List the current entries: another window or the verifier may have taken some."""
        with reporting(self, "Queue"):
            self._queued = self._core.outbox.queued()
            titles = {one.id: one_line(one.title) for one in self._core.store.conversations.all()}
            options = self.query_one(OptionList)
            before = options.highlighted or 0
            options.set_options([_option(queued, titles) for queued in self._queued])
            if not self._queued:
                options.add_option(Option(Content.styled("Nothing waits.", QUIET), disabled=True))
                return
            ids = [queued.id for queued in self._queued]
            options.highlighted = ids.index(highlighted) if highlighted in ids else min(before, len(ids) - 1)

    @property
    def _chosen(self) -> Queued | None:
        at = self.query_one(OptionList).highlighted
        return self._queued[at] if at is not None and at < len(self._queued) else None

    @on(OptionList.OptionSelected)
    def open(self) -> None:
        if self._chosen is not None:
            self.dismiss(self._chosen.conversation_id)

    def action_reword(self) -> None:
        queued = self._chosen
        if queued is None or queued.kind != "ask":
            self.notify("An answer that waits to be checked has no text to change." if queued else "Nothing waits.")
            return
        box = self.query_one(Rewording)
        box.queued = queued
        box.text = sanitise(queued.text)
        box.move_cursor(box.document.end)
        box.display = True
        box.focus()

    @on(Rewording.Ended)
    def keep(self) -> None:
        """Store the new text. If the old one was sent meanwhile, the new one can be recalled in the prompt."""
        box = self.query_one(Rewording)
        queued, text = box.queued, trimmed(box.full_text)
        box.queued, box.display = None, False
        self.query_one(OptionList).focus()
        if queued is None or not text or text == trimmed(sanitise(queued.text)):
            return
        try:
            self._core.store.queue.edit(queued.id, text)
        except StorageError as error:
            self.removed.append(text)
            complain(self, error, "Queue")
        self._show(queued.id)

    def action_move(self, step: int) -> None:
        at = self.query_one(OptionList).highlighted
        if at is None or not 0 <= at + step < len(self._queued):
            return
        moved = self._queued[at].id
        with reporting(self, "Queue"):
            self._core.store.queue.swap(moved, self._queued[at + step].id)
        self._show(moved)

    def action_remove(self) -> None:
        queued = self._chosen
        if queued is None:
            return
        with reporting(self, "Queue"):
            self._core.outbox.unqueue(queued.id)
            if queued.kind == "ask":
                self.removed.append(sanitise(queued.text))
        self._show(None)


def _option(queued: Queued, titles: dict[str, str]) -> Option:
    """An entry of the list: the text, and the conversation that it belongs to."""
    what = one_line(queued.text) or "an answer"
    title = titles.get(queued.conversation_id) or "Untitled"
    where = "begins a conversation" if title == what else f"in {title}"
    if queued.kind == "verify":
        where = f"its answer is to be checked, {where}"
    if queued.attachments:
        count = len(queued.attachments)
        where = f"with {count} files, {where}" if count > 1 else f"with 1 file, {where}"
    return Option(Content.assemble(what, "\n", (f"  {where}", QUIET)), id=queued.id)
