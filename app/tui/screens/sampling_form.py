"""The form for how the answers of one conversation are sampled. What is left empty is as the settings say."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from app.config import ConfigError, Settings
from app.sanitise import sanitise
from app.tui.keymap import hint
from storage import Choices

FIELDS = {
    "temperature": ("Temperature", "0 to 2; 0: always the likeliest word"),
    "top_k": ("Top k", "choose from this many of the likeliest words; 0: all"),
    "top_p": ("Top p", "take the likeliest up to this total chance; at most 1"),
    "seed": ("Seed", "the same whole number gives the same answer"),
    "max_tokens": ("Longest answer", "in tokens"),
}
"""Label and hint of each field, by the name of the setting."""
KEYS = (("sampling.save", "keep"), ("sampling.reset", "empty all"), ("sampling.cancel", "cancel"))


def _plain(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class SamplingForm(ModalScreen[Choices | None]):
    """Closes with the choices as they are from now on, or None. `settings`: what counts where nothing is chosen."""

    CSS_PATH = "system.tcss"
    BINDINGS = [
        Binding("ctrl+s", "save", "Keep it", id="sampling.save", priority=True),
        Binding("ctrl+r", "reset", "Empty all fields, so that the settings count", id="sampling.reset", priority=True),
        Binding("escape", "cancel", "Cancel", id="sampling.cancel", priority=True),
        Binding("down", "app.focus_next", "Next field", id="sampling.down"),
        Binding("up", "app.focus_previous", "Previous field", id="sampling.up"),
    ]

    def __init__(self, choices: Choices, settings: Settings) -> None:
        super().__init__()
        self._choices, self._settings = choices, settings

    def compose(self) -> ComposeResult:
        with Vertical() as panel:
            panel.border_title = "How words are chosen in this conversation"
            panel.border_subtitle = hint(self, *KEYS)
            for name in FIELDS:
                yield from self._line(name)

    def _line(self, name: str) -> Iterator[Widget]:
        label, words = FIELDS[name]
        chosen, default = getattr(self._choices, name), getattr(self._settings, name)
        says = "" if default is None else f"{_plain(default)}; "
        value = "" if chosen is None else _plain(chosen)
        yield Horizontal(
            Static(label, classes="label", markup=False),
            Input(value, placeholder=f"{says}{words}", compact=True, id=name),
            classes="field",
        )
        yield Static(id=f"{name}-problem", classes="problem", markup=False)

    def on_mount(self) -> None:
        self.query_one("#temperature", Input).focus()

    @on(Input.Submitted)
    def go_on(self) -> None:
        self.focus_next()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if isinstance(event.widget, Input) and event.widget.id:
            self._tell(event.widget.id)

    @on(Input.Changed)
    def correct(self, event: Input.Changed) -> None:
        """Hide a problem as soon as it is solved. A new one is shown when the field is left."""
        name = event.input.id or ""
        if self.query_one(f"#{name}-problem", Static).display and self._problem(name) is None:
            self._tell(name)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_reset(self) -> None:
        for field in self.query(Input):
            field.value = ""

    def action_save(self) -> None:
        wrong = [name for name in FIELDS if self._tell(name)]
        if wrong:
            self.query_one(f"#{wrong[0]}", Input).focus()
            return
        typed = {name: text for name in FIELDS if (text := self._text(name))}
        checked = self._settings.replaced(typed, "the form")
        chosen = {name: getattr(checked, name) if name in typed else None for name in FIELDS}
        self.dismiss(msgspec.structs.replace(self._choices, **chosen))

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def _problem(self, name: str) -> str | None:
        """What is wrong with the text of a field; None: nothing."""
        if not (text := self._text(name)):
            return None
        try:
            self._settings.replaced({name: text}, "")
        except ConfigError as error:
            return str(error).removeprefix(": ").removeprefix(f"{name}: ")
        return None

    def _tell(self, name: str) -> bool:
        """Show what is wrong with a field, or that nothing is; whether something is."""
        problem = self._problem(name)
        line = self.query_one(f"#{name}-problem", Static)
        line.update(Content(sanitise(problem or "")))
        line.display = problem is not None
        return problem is not None
