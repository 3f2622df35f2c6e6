"""The welcome, shown while no conversation is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Center, Middle, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.tui.widgets.first_look import FirstLook

EXAMPLES = (
    "How do I unpack photos.tar.gz?",
    "Which folders take up the most space?",
    "Make a script executable",
)
GENERAL_EXAMPLES = (
    "Explain in a few sentences how DNS works.",
    "Write a Python function that removes duplicates from a list.",
    "Write a polite note that declines an invitation.",
)
HINT = "shift+tab or a click picks an example · ↑: your last question"
INTRODUCTION = (
    "Ask how to do something on the command line.\n\n"
    "A small model on this device drafts the answer in dimmed text. A larger model "
    "checks the draft, and the text turns solid. Nothing is lost when the connection breaks."
)
GENERAL_INTRODUCTION = (
    "{who} answers here. Ask it anything.\n\n"
    "{dimmed}Every question and every answer is kept on this device, and nothing is lost when the connection breaks."
)
DIMMED = "Dimmed text is a draft that the model has not checked yet. "


class Welcome(Middle):
    """A short introduction and three questions to pick from."""

    def __init__(self) -> None:
        super().__init__()
        self._examples = EXAMPLES

    @dataclass
    class Picked(Message):
        """The person chose an example."""

        question: str

    def compose(self) -> ComposeResult:
        with Center(), Vertical():
            yield Static("O U T R I D E R", id="name", markup=False)
            yield Static(INTRODUCTION, id="introduction", markup=False)
            yield FirstLook()
            yield OptionList(*_options(EXAMPLES), compact=True)
            yield Static(HINT, id="hint", markup=False)

    @property
    def offers_look(self) -> bool:
        """Whether the question of the first start is on the screen."""
        return self.display and self.has_class("-offered")

    def offer_look(self, offered: bool) -> None:
        """Show or hide the question of the first start, in the place of the introduction."""
        self.set_class(offered, "-offered")

    def introduce(self, who: str | None, *, drafts: bool) -> None:
        """Introduce a general model, `who`: its name and its server; None: Shell Guide, which knows shell commands.

        `drafts`: it checks what this device drafts.
        """
        dimmed = DIMMED if drafts else ""
        said = INTRODUCTION if who is None else GENERAL_INTRODUCTION.format(who=who, dimmed=dimmed)
        self.query_one(FirstLook).introduce(who)
        self.query_one("#introduction", Static).update(Content(said))
        examples = EXAMPLES if who is None else GENERAL_EXAMPLES
        if examples != self._examples:
            self._examples = examples
            questions = self.query_one(OptionList)
            questions.clear_options()
            questions.add_options(_options(examples))

    def enter(self) -> None:
        """Move the focus to the last question, which is next to the prompt."""
        questions = self.query_one(OptionList)
        questions.highlighted = len(self._examples) - 1
        questions.focus()

    @on(OptionList.OptionSelected)
    def pick(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Picked(self._examples[event.option_index]))


def _options(examples: Sequence[str]) -> list[Option]:
    return [Option(Content(f"› {example}")) for example in examples]
