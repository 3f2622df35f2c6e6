"""The models on this device, one of which answers while a server is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.config import ConfigError
from app.files import size_text
from app.sanitise import sanitise
from app.tui.keymap import hint, key_of
from app.tui.notices import reporting
from app.tui.screens.dialog import Dialog, titled
from app.tui.screens.rows import below
from app.tui.stand_ins import LocalModel, StandIns, state_of
from models.files import why_absent

if TYPE_CHECKING:
    from app.local.catalogue import Entry

NOBODY = ".nobody"
"""Id of the row that lets no model answer; the others have numbers."""
GET = "outrider local get "
"""Ids of the rows of the catalogue begin with the command that fetches a model."""
LOOK_SECONDS = 0.5
"""Seconds between two checks of the stand-in model's state."""
QUIET = "$foreground 60%"


class LocalScreen(Dialog[None]):
    """Lists what was added at once, and looks for other models, because the person has asked for it."""

    BINDINGS = [
        Binding("enter", "use", "Let it answer while a server is away", id="local.use"),
        Binding("d,delete", "forget", "Forget it; its file stays", id="local.forget"),
        Binding("escape,q", "dismiss", "Close", id="local.close"),
    ]

    def __init__(self, stand_ins: StandIns) -> None:
        super().__init__()
        self._stand_ins = stand_ins
        self._found: list[LocalModel] = []
        self._listed: list[LocalModel] = []
        self._shown = ""
        """What the model that stands in does, as it is on the screen."""

    def compose(self) -> ComposeResult:
        use, forget = ("local.use", "let it answer while offline"), ("local.forget", "forget")
        with titled(Vertical(), "Models on this device", hint(self, use, forget, ("local.close", "close"))):
            yield OptionList(id="list", markup=False, compact=True)
            yield Static(id="said", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self._list()
        self._look()
        self.set_interval(LOOK_SECONDS, self._watch)

    @work(group="look", exclusive=True)
    async def _look(self) -> None:
        self.say("Looking for the models of Ollama, LM Studio, llama.cpp and Hugging Face …", "said")
        try:
            self._found = await self._stand_ins.found()
        except ConfigError:
            return  # It was reported with the list.
        if self.emptied("#list", "#said"):
            return
        self._list()
        here = "" if self._listed else "No model was found here. "
        self.say(f"{here}Other files: outrider local add FILE", "said")

    # ---- actions -----------------------------------------------------------------------------------------------------

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_use()

    @work(group="use", exclusive=True)
    async def action_use(self) -> None:
        """Let the highlighted model answer while a server is away, or nobody. Copy the command that fetches one."""
        row = self._row_id()
        if row.startswith(GET):
            self.app.copy_to_clipboard(row)
            return
        model = self._highlighted()
        with reporting(self, "Local models"):
            notice = await self._stand_ins.use(model)
            self._found = [one for one in self._found if one is not model]
            self._list()
            now = self._stand_ins.now
            said = "Questions wait for the server." if now is None else f"{now.name} answers while a server is away."
            self.notify(sanitise(notice or said), severity="warning" if notice else "information", markup=False)

    @work(group="use", exclusive=True)
    async def action_forget(self) -> None:
        """Forget the highlighted model, if it was added."""
        model = self._highlighted()
        if model is None or model.program:
            self.notify(f"Only added models can be forgotten; {key_of(self, 'local.use')} adds one.", markup=False)
            return
        with reporting(self, "Local models"):
            await self._stand_ins.forget(model.name)
        self._list()
        self._look()

    def on_resize(self) -> None:
        self._list()

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def _list(self) -> None:
        """List what was added, as it is stored now, what was found, and what could be fetched."""
        options = self.query_one(OptionList)
        with reporting(self, "Local models"):
            self._listed = [*self._stand_ins.added(), *self._found]
        now = self._stand_ins.now
        self._shown = self._state()
        at = options.highlighted
        options.clear_options()
        rows = [self._row("nobody", "questions wait for the server, or fail as the settings say", now is None)]
        used = [now is not None and not one.program and one.name == now.name for one in self._listed]
        rows += [self._row(one.name, self._about(one), mark) for one, mark in zip(self._listed, used)]
        options.add_options([Option(row, id=str(number - 1) if number else NOBODY) for number, row in enumerate(rows)])
        offered = self._stand_ins.offered([one.name for one in self._listed])
        for one in offered:
            options.add_option(Option(self._row(GET + one.name, _to_fetch(one), False), id=GET + one.name))
        if at is None:
            options.highlighted = used.index(True) + 1 if True in used else 0
        else:
            options.highlighted = min(at, options.option_count - 1)

    def _row(self, name: str, about: str, used: bool) -> Content:
        head = Content.assemble(("● " if used else "  ", "$success"), (sanitise(name), "bold"))
        return below(head, sanitise(about), QUIET, self.app.size.width)

    def _about(self, model: LocalModel) -> str:
        size = "" if model.size is None else size_text(model.size)
        if model.program:
            return f"{size}, found in {model.program}, not added yet"
        if (why := why_absent(model.path)) is not None:
            return f"its file is {why}: {model.path}"
        now = self._stand_ins.now
        state = state_of(now) if now is not None and now.name == model.name else ""
        return ", ".join(part for part in (state, size, str(model.path)) if part)

    def _state(self) -> str:
        now = self._stand_ins.now
        return "" if now is None else f"{now.name}: {state_of(now)}"

    def _watch(self) -> None:
        if self._state() != self._shown:
            self._list()

    def _row_id(self) -> str:
        option = self.query_one(OptionList).highlighted_option
        return NOBODY if option is None or option.id is None else option.id

    def _highlighted(self) -> LocalModel | None:
        """The highlighted model, if it is on this device."""
        return self._listed[int(self._row_id())] if self._row_id().isdecimal() else None


def _to_fetch(model: Entry) -> str:
    size = f"{size_text(model.size)}, {size_text(model.memory)} of memory, {model.licence}"
    return f"{size}, {model.good_for}; enter copies the command"
