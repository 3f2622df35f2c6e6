"""The form for how the answers of one conversation are sampled. What is left empty is as the settings say."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Input

from app.config import ConfigError, Settings
from app.tui.keymap import hint
from app.tui.screens.dialog import titled
from app.tui.screens.form import Form
from storage import Choices

FIELDS = {
    "temperature": ("Temperature", "0 to 2; 0: always the likeliest word"),
    "top_k": ("Top k", "choose from this many of the likeliest words; 0: all"),
    "top_p": ("Top p", "choose from the likeliest words up to this total probability; at most 1"),
    "seed": ("Seed", "the same number gives the same answer again"),
    "max_tokens": ("Longest answer", "in tokens"),
}
"""Label and hint of each field, by the name of the setting."""
KEYS = (("sampling.save", "keep"), ("sampling.reset", "empty all"), ("sampling.cancel", "cancel"))


def _plain(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class SamplingForm(Form["dict[str, float | int | None] | None"]):
    """Closes with the value of each field, or None. `settings`: what applies where nothing is chosen."""

    BINDINGS = [
        Binding("ctrl+s", "save", "Save it", id="sampling.save", priority=True),
        Binding("ctrl+r", "reset", "Clear all fields, so that the settings apply", id="sampling.reset", priority=True),
        Binding("escape", "dismiss", "Cancel", id="sampling.cancel", priority=True),
        Binding("down", "app.focus_next", "Next field", id="sampling.down"),
        Binding("up", "app.focus_previous", "Previous field", id="sampling.up"),
    ]

    def __init__(self, choices: Choices, settings: Settings) -> None:
        super().__init__()
        self._choices, self._settings = choices, settings

    def compose(self) -> ComposeResult:
        with titled(Vertical(), "Sampling settings of this conversation", hint(self, *KEYS)):
            for name, (label, words) in FIELDS.items():
                chosen, default = getattr(self._choices, name), getattr(self._settings, name)
                says = "" if default is None else f"{_plain(default)}; "
                yield from self.field(name, label, f"{says}{words}", "" if chosen is None else _plain(chosen))

    def on_mount(self) -> None:
        self.query_one("#temperature", Input).focus()

    def action_reset(self) -> None:
        for field in self.query(Input):
            field.value = ""

    def action_save(self) -> None:
        if self.all_right(FIELDS):
            typed = {name: text for name in FIELDS if (text := self.text(name))}
            checked = self._settings.replaced(typed, "the form")
            chosen = {name: getattr(checked, name) if name in typed else None for name in FIELDS}
            self.dismiss(chosen)

    def problem(self, name: str) -> str | None:
        if not (text := self.text(name)):
            return None
        try:
            self._settings.replaced({name: text}, "")
        except ConfigError as error:
            return str(error).removeprefix(": ").removeprefix(f"{name}: ")
        return None
