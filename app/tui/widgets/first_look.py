"""The question of the first start: whether to look for model servers on this device. It takes no key that is typed."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

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
        """Name the model that answers; None: Shell Guide."""
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
