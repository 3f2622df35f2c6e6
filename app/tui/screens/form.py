"""A form of text fields. A mistake is shown below its field when the field is left, and when the form is saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual import events, on
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from app.tui.screens.dialog import Dialog, Result


class Form(Dialog[Result]):
    """Subclasses compose `field` for each of their fields, and say in `problem` what is wrong with one."""

    def problem(self, name: str) -> str | None:
        """What is wrong with the text of a field, or None if nothing is."""
        raise NotImplementedError

    def field(self, name: str, label: str, hint: str, value: str = "", *, secret: bool = False) -> Iterator[Widget]:
        """A line with a label and a field, whose `hint` is shown while it is empty."""
        yield Horizontal(
            Static(label, classes="label", markup=False),
            Input(value, placeholder=hint, password=secret, compact=True, id=name),
            classes="field",
        )
        yield Static(id=f"{name}-problem", classes="problem", markup=False)

    def text(self, name: str) -> str:
        """What is typed into a field."""
        return self.query_one(f"#{name}", Input).value.strip()

    def all_right(self, names: Iterable[str]) -> bool:
        """Show what is wrong with each of these fields, and go to the first invalid one. Returns True if none is."""
        wrong = [name for name in names if self._judge(name)]
        if wrong:
            self.query_one(f"#{wrong[0]}", Input).focus()
        return not wrong

    def _judge(self, name: str) -> bool:
        problem = self.problem(name)
        self.say(problem, f"{name}-problem")
        return problem is not None

    @on(Input.Changed)
    def correct(self, event: Input.Changed) -> None:
        """Hide a problem as soon as it is solved. A new one is shown when the field is left."""
        name = event.input.id or ""
        if self.query_one(f"#{name}-problem", Static).display and self.problem(name) is None:
            self.say(None, f"{name}-problem")

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        left = event.widget
        if isinstance(left, Input) and left.id and left.value.strip():
            self._judge(left.id)

    @on(Input.Submitted)
    def go_on(self) -> None:
        self.focus_next()
