"""What can be done with a code block: copy it, put it into the person's shell, have it explained."""

from __future__ import annotations

from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.tui.code_blocks import CodeBlock
from app.tui.keymap import hint, key_of
from app.tui.markdown.notes import AnswerNotes, BlockNotes
from app.tui.screens.dialog import Dialog, titled
from app.tui.widgets.markdown_view import MarkdownView

BlockUse = Literal["copy", "shell", "explain"]


class CodeBlockScreen(Dialog[BlockUse | None]):
    """Asks what to do with a code block, which is one of `count`.

    `notes`: what is said about it. `waiting`: it is for the shell already.
    """

    BINDINGS = [
        Binding("c", "use('copy')", "Copy it", id="block.copy"),
        Binding("s", "use('shell')", "Put it into your shell when you quit", id="block.shell"),
        Binding("e", "use('explain')", "Ask what it does", id="block.explain"),
        Binding("escape,q", "dismiss", "Close", id="block.close"),
    ]

    def __init__(self, block: CodeBlock, count: int, notes: BlockNotes, *, waiting: bool) -> None:
        super().__init__()
        self._block = block
        self._count = count
        self._notes = notes
        self._waiting = waiting

    def compose(self) -> ComposeResult:
        block, count = self._block, self._count
        title = "Code block" if count == 1 else f"Code block {block.number} of {count}"
        with titled(Vertical(), title, f"enter choose   {hint(self, ('block.close', 'close'))}"):
            with VerticalScroll(can_focus=False):
                yield MarkdownView(block.fenced, notes=AnswerNotes(((1, self._notes),)), labels=False)
            yield OptionList(*(self._option(use, words) for use, words in self._uses()), compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def _uses(self) -> list[tuple[BlockUse, str]]:
        shell = "Keep it out of my shell" if self._waiting else "Put it into my shell when I quit; it does not run"
        uses: list[tuple[BlockUse, str]] = [("copy", "Copy")]
        if self._block.command:
            uses.append(("shell", shell))
        return [*uses, ("explain", "Ask what it does")]

    def _option(self, use: BlockUse, words: str) -> Option:
        key = key_of(self, f"block.{use}")
        return Option(Content.assemble((f"{key:<3}", "bold"), words), id=use)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        for use, _ in self._uses():
            if use == event.option.id:
                self.dismiss(use)

    def action_use(self, use: BlockUse) -> None:
        if use in dict(self._uses()):
            self.dismiss(use)
        else:
            self.notify("This block holds no command for a shell.", severity="warning")
