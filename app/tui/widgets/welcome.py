"""The welcome, shown while no conversation is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Center, Horizontal, Middle, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.tui.keymap import key_of

SHELL_GUIDE = "Shell Guide, the model on this device, knows the command line."
EXPLANATION = (
    "{model}\n"
    "Nothing leaves this device unless you add a server.\n"
    "Do you run Ollama, LM Studio, llama.cpp or vLLM here?"
)


class FirstLook(Vertical):
    """Three lines, and the keys for yes and not now. A click on a key's words answers too."""

    class Accepted(Message):
        """The person clicked the words for the look."""

    class Answered(Message):
        """The person looks, or does not want it now. They are not asked again."""

    def compose(self) -> ComposeResult:
        yield Static(EXPLANATION.format(model=SHELL_GUIDE), id="explanation", markup=False)
        with Horizontal():
            yield Static(self._choice("app.look", "look for them"), id="look", markup=False)
            yield Static(self._choice("chat.stop", "not now"), id="decline", markup=False)

    def introduce(self, who: str | None) -> None:
        """Name the model that answers, or Shell Guide if `who` is None."""
        model = SHELL_GUIDE if who is None else f"{who} answers here."
        self.query_one("#explanation", Static).update(EXPLANATION.format(model=model))

    def _choice(self, action: str, words: str) -> Content:
        return Content.assemble((key_of(self, action), "bold"), f" {words}")

    def on_click(self, event: events.Click) -> None:
        clicked = None if event.widget is None else event.widget.id
        if clicked == "look":
            self.post_message(self.Accepted())
        elif clicked == "decline":
            self.post_message(self.Answered())


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
        """Show or hide the question of the first start instead of the introduction."""
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
