"""A tool call that waits for consent: shown in full, over the chat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.events import ToolCalled
from app.sanitise import one_line, sanitise
from app.tui.keymap import hint
from app.tui.screens.dialog import Dialog, titled
from app.tui.widgets.folded import arguments_of

if TYPE_CHECKING:
    from app.reply.call_desk import Decision

AGAIN = "This call may have run already: the program or the connection ended in the middle of it."


class ToolCallScreen(Dialog["Decision | None"]):
    """Closes with what the person says, or None to stop the answer."""

    BINDINGS = [
        Binding("y", "say('yes')", "Make the call", id="call.yes"),
        Binding("n", "say('no')", "Refuse it", id="call.no"),
        Binding("a", "say('always')", "Make it, and later calls of this tool in this conversation", id="call.always"),
        Binding("escape", "say('')", "Stop the answer", id="call.stop"),
    ]

    def __init__(self, called: ToolCalled) -> None:
        super().__init__(unasked=True)
        self.called = called

    def compose(self) -> Iterator[Widget]:
        call, called = self.called.call, self.called
        said = f"{sanitise(call.server)} declares it: {', '.join(map(sanitise, called.said))}" if called.said else ""
        keys = [("call.yes", "yes"), ("call.no", "no"), ("call.always", "always here")]
        if called.again:
            keys = [("call.yes", "run it again"), ("call.no", "tell the model")]
        with titled(Vertical(), "Call a tool?", hint(self, *keys, ("call.stop", "stop"))):
            yield Static(Content.styled(one_line(f"{call.server} / {call.tool}"), "bold"), markup=False)
            if said:
                yield Static(Content.styled(" ".join(said.split()), "$text-muted"), markup=False)
            if called.again:
                yield Static(Content.styled(AGAIN, "$text-warning"), markup=False)
            with VerticalScroll():
                rows = [Content.assemble((name, "bold"), value) for name, value in arguments_of(call)]
                yield Static(Content("\n").join(rows), markup=False)  # A value is never bold, as a name is.

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_say(self, decision: Decision) -> None:
        if decision == "always" and self.called.again:
            return
        self.dismiss(decision or None)
