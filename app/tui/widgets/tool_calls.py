"""The tool calls of an answer: one line for each above its text, which unfolds to the arguments and the result."""

from __future__ import annotations

import json

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.sanitise import one_line, sanitise
from app.tui.turn import Turn
from storage import Call

MOST_SHOWN = 20_000
"""Characters of arguments and of a result that are drawn. An export has all of them."""
MOST_ARGUMENT = 60
STATES = {
    "asked": "not made",
    "running": "runs …",
    "done": "done",
    "failed": "failed",
    "refused": "refused",
    "unknown": "may have run",
}
"""Outcome of a call, as shown."""


class ToolCalls(Vertical):
    """The calls of `turn`, folded."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(classes="calls")
        self.turn = turn
        self._lines = Static(markup=False)

    def compose(self) -> list[Static]:
        self.draw()
        return [self._lines]

    def toggle(self) -> None:
        """Unfolds or folds the calls; the turn remembers which, for when the answer is mounted again."""
        self.turn.calls_unfolded = not self.turn.calls_unfolded
        self.draw()

    def on_click(self, event: events.Click) -> None:
        if not self.screen.selections:  # Else words were marked to be copied.
            event.stop()
            self.toggle()

    def draw(self) -> None:
        unfolded, parts = self.turn.calls_unfolded, []
        for called in self.turn.calls:
            call = called.call
            state = "waits for your yes" if called.asks and self.turn.running else STATES[call.state]
            parts.append(f"{'▾' if unfolded else '▸'} {line_of(call)} · {state}")
            if unfolded:
                parts.append(_indented(shown("\n".join(map("".join, arguments_of(call))))))
                parts += [_indented(shown(call.result))] if call.result else []
        self._lines.update(Content("\n".join(parts)))


def line_of(call: Call) -> str:
    """The tool and its first argument, in one line."""
    name = f"{call.server}/{call.tool}" if call.server else call.tool
    first = ""
    try:
        arguments = json.loads(call.arguments)
        if isinstance(arguments, dict) and arguments:
            first = next(iter(arguments.values()))
            first = first if isinstance(first, str) else json.dumps(first, ensure_ascii=False)
    except (ValueError, RecursionError):
        first = call.arguments
    first = one_line(first[: 4 * MOST_ARGUMENT])
    cut = first[:MOST_ARGUMENT] + "…" * (len(first) > MOST_ARGUMENT)
    return f"{one_line(name)} {cut}".strip()


def arguments_of(call: Call) -> list[tuple[str, str]]:
    """The name and the value of each argument, with whatever a terminal would hide spelt out.

    Without a name: all of them, if they are no object. Further lines of a value are indented.
    """
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return [("", _visible(call.arguments))]
    rows = [(f"{_visible(name)}: ", _written(value).replace("\n", "\n  ")) for name, value in arguments.items()]
    return rows or [("", "(no arguments)")]


def _written(value: object) -> str:
    """A value as text if it is one, else as JSON."""
    return _visible(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def _visible(text: str) -> str:
    return text if sanitise(text) == text else sanitise(json.dumps(text))


def shown(text: str) -> str:
    """A text from outside, cleaned and bounded."""
    more = f"\n… only the first {MOST_SHOWN:,} characters; an export has all" if len(text) > MOST_SHOWN else ""
    return sanitise(text[:MOST_SHOWN]).rstrip("\n") + more


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
