"""The line at the bottom: the state, the model, the context, and what else there is room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from app.events import MODE_WORDS, ModeChanged, Stats
from app.model_names import short_model
from app.tui.open_conversation import UNREACHABLE
from app.usage import thousands

if TYPE_CHECKING:
    from app.drafting.prompt import Context

QUIET = "$foreground 60%"
WIDE = 90
"""Columns from which the context meter shows both of its numbers, and units are written out."""
PADDING = 2
"""Columns around each part of the bar."""
SHORTEST = 12
"""Columns that the model's name gets in any bar."""
LEAST = ("checked", "streamed")
"""Figures that a narrow bar leaves out; the first one goes first."""
FOR_SHELL = "→ shell"
"""Shown while a command is to be put into the person's shell."""
NEAR, FULL = 0.8, 0.95
"""Shares of the context from which the meter warns."""


class StatusBar(Horizontal):
    """Shows the state as a coloured badge, the model that answers, and how full its context is.

    Figures of the running or last reply and the reason of the state are shown if there is room for all of them. No part
    is cut off: a long name of a model loses its middle.
    """

    def __init__(self) -> None:
        super().__init__()
        self._meter: Context | None = None
        self._proposes = ""
        self._stats: Stats | None = None
        self._writer = ""
        """The model that was named when they came."""
        self._state = ModeChanged("warming", "")
        self._for_shell = False

    def compose(self) -> ComposeResult:
        yield Static(id="badge", markup=False)
        yield Static(id="model", markup=False)
        yield Static(id="figures", markup=False)
        yield Static(id="context", markup=False)
        yield Static(id="for-shell", markup=False)
        yield Static(id="why", markup=False)

    def on_resize(self) -> None:
        self._draw()

    def show_context(self, context: Context | None, proposes: str = "") -> None:
        """Show how full the context is, as a percentage in a narrow bar, or nothing without a conversation.

        `proposes`: the command that makes room, shown next to a context that fills up.
        """
        self._meter, self._proposes = context, proposes
        self._draw()

    def show_for_shell(self, command: str) -> None:
        """Show that the person's shell gets a command when they quit; empty: none."""
        self._for_shell = bool(command)
        self._draw()

    def show_mode(self, mode: ModeChanged) -> None:
        for name in MODE_WORDS:
            self.set_class(name == mode.mode, f"-{name}")
        self._state = mode
        self._draw()

    def show_stats(self, stats: Stats | None) -> None:
        """Show the figures of a reply, or none before the first."""
        self._stats, self._writer = stats, self._state.model
        self._draw()

    def _draw(self) -> None:
        """Give each part its columns, the most important first."""
        state, away = self._state, self._state.mode in UNREACHABLE
        label, width = state.word, self.app.size.width
        meter = Content("") if self._meter is None else context_meter(self._meter, short=width < WIDE)
        if self._meter is not None and self._meter.share >= NEAR and self._proposes:
            meter = Content.assemble(meter, (f" {self._proposes}", "$text-warning"))
        for_shell = FOR_SHELL if self._for_shell else ""
        room = width - sum(_columns(len(part)) for part in (label, meter, for_shell))
        model = shortened(short_model(state.model), max(SHORTEST, room - PADDING))
        room -= _columns(len(model))
        why = state.why.removeprefix(f"{state.model} ")  # It stands before it.
        why = why if len(why) + PADDING <= room or away else ""
        # The speed of one model must not stand next to the name of another.
        stats = self._stats if state.model in ("", self._writer) or not self._writer else None
        told = Content("") if stats is None else figures(stats, room - PADDING, short=width < WIDE)
        if stats is not None and (not told or _columns(len(told)) + len(why) + PADDING > room):
            told = figures(stats, room - PADDING, short=True)
        if away and _columns(len(told)) + len(why) + PADDING > room:
            told = Content("")  # Why nobody answers matters more.
        elif _columns(len(told)) + len(why) + PADDING > room:
            why = ""
        why = shortened(why, room - _columns(len(told)) - PADDING)
        parts: dict[str, str | Content] = {
            "badge": label,
            "model": model,
            "figures": told,
            "context": meter,
            "for-shell": for_shell,
            "why": why,
        }
        for name, text in parts.items():
            for line in self.query(f"#{name}").results(Static):  # There is none while the window closes.
                line.update(Content(text) if isinstance(text, str) else text)
                line.display = bool(len(text)) or name == "why"


def _columns(length: int) -> int:
    """The columns of a part of this many characters; none if it is empty."""
    return length + PADDING if length else 0


def shortened(text: str, room: int) -> str:
    """Shorten a text to `room` columns by cutting out its middle: its end matters as much as its beginning."""
    if len(text) <= room:
        return text
    if room < 2:
        return "…"[: max(0, room)]
    end = (room - 1) // 2
    return f"{text[: room - 1 - end]}…{text[len(text) - end :]}"


def figures(stats: Stats, room: int, *, short: bool) -> Content:
    """The speed and the tokens that are known. `room`: columns; what does not fit is left out. `short`: few letters."""
    parts: list[tuple[str, str, str]] = []
    if stats.tokens_per_second:
        parts.append(("speed", f"{stats.tokens_per_second:.0f}", "tok/s" if short else "tokens/s"))
    if stats.streamed is not None:  # From a server that verifies nothing.
        about = "" if stats.counted else "~"
        parts.append(("streamed", f"{about}{stats.streamed}", "tokens"))
    if stats.verified:
        parts.append(("checked", f"{stats.verified}", "checked" if short else "tokens checked"))
    if stats.drafted:
        alone = not short and not stats.verified and stats.streamed is None
        parts.append(("drafted", f"{stats.drafted}", "tokens drafted" if alone else "drafted"))
    spans = {name: Content.assemble(number, (f" {unit}", QUIET)) for name, number, unit in parts}
    for least in LEAST:
        if sum(len(span) + 2 for span in spans.values()) - 2 > room:
            spans.pop(least, None)
    told = Content("  ").join(spans.values())
    return told if len(told) <= room else Content("")


def context_meter(context: Context, *, short: bool) -> Content:
    style = "$text-error" if context.share >= FULL else "$text-warning" if context.share >= NEAR else ""
    if short:
        return Content.assemble(("ctx ", QUIET), (f"{context.share:.0%}", style))
    return Content.assemble(
        ("context ", QUIET), (thousands(context.used), style), (f"/{thousands(context.limit)}", QUIET)
    )
