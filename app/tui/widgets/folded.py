"""What is folded above an answer: the model's thoughts and its tool calls, a line each until a click unfolds it."""

from __future__ import annotations

import json
from typing import Literal

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from app.sanitise import one_line, sanitise
from app.tui.turn import Turn
from storage import Call

MOST_SHOWN = 20_000
"""Characters that are drawn of arguments, of a result, and of the end of the thoughts. An export has all of them."""
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


class Folded(Vertical):
    """What a model did before the text of an answer. A click unfolds it; the turn remembers whether it is unfolded."""

    def __init__(self, turn: Turn, kind: Literal["thoughts", "calls"]) -> None:
        super().__init__(classes=kind)
        self.turn, self._flag = turn, f"{kind}_unfolded"

    @property
    def unfolded(self) -> bool:
        return bool(getattr(self.turn, self._flag))

    def toggle(self) -> None:
        setattr(self.turn, self._flag, not self.unfolded)
        self.draw()

    def on_click(self, event: events.Click) -> None:
        if not self.screen.selections:  # Else words were marked to be copied.
            event.stop()
            self.toggle()

    def draw(self) -> None:
        """Draw what has come."""
        raise NotImplementedError


class Thoughts(Folded):
    """A model's thoughts: a line that says for how long it has been thinking, and the dimmed text."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn, "thoughts")
        self._label = Static(markup=False, classes="label")
        self._text = Static(markup=False, classes="text")
        self._drawn = -1

    def compose(self) -> list[Static]:
        self.draw()
        return [self._label, self._text]

    def draw(self) -> None:
        turn, unfolded = self.turn, self.unfolded
        seconds = f" for {turn.thought_seconds:.0f} s" if turn.thought_seconds >= 1 else ""
        thinking = turn.running and not turn.text
        self._label.update(f"{'▾' if unfolded else '▸'} {'Thinking' if thinking else 'Thought'}{seconds}")
        self._text.display = unfolded
        if unfolded and self._drawn != len(turn.thoughts):
            self._drawn = len(turn.thoughts)
            cut = "… " if self._drawn > MOST_SHOWN else ""
            self._text.update(Content(cut + turn.thoughts[-MOST_SHOWN:].strip()))


class ToolCalls(Folded):
    """The tool calls: one line for each, and its arguments and its result."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn, "calls")
        self._lines = Static(markup=False)

    def compose(self) -> list[Static]:
        self.draw()
        return [self._lines]

    def draw(self) -> None:
        unfolded, parts = self.unfolded, []
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
    return _visible(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def _visible(text: str) -> str:
    return text if sanitise(text) == text else sanitise(json.dumps(text))


def shown(text: str) -> str:
    """A text from outside, cleaned and bounded."""
    more = f"\n… only the first {MOST_SHOWN:,} characters; an export has all" if len(text) > MOST_SHOWN else ""
    return sanitise(text[:MOST_SHOWN]).rstrip("\n") + more


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
