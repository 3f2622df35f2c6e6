"""The model picker: all models of all servers, as their lists arrive, with a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from app.remotes.registry import BUNDLED
from app.sanitise import sanitise
from app.tui.keymap import hint
from app.tui.notices import reporting
from app.tui.screens.dialog import Dialog, titled

if TYPE_CHECKING:
    from app.events import StandIn
    from app.remotes.choice import Server
    from app.remotes.models import OfferedModel, ServerModels
    from app.remotes.switcher import RemoteSwitcher

QUIET = "$foreground 60%"
LOCAL = ".local"
"""Id of the row for the model on this device; those of servers' models have a line break."""
WHILE_AWAY = "While a server is away"
SHOWN = 500
"""Maximum number of models in the list. Searching finds the others: some services have thousands."""


@dataclass(frozen=True)
class PickedModel:
    model: OfferedModel
    only_here: bool = False
    """Whether it is only for the open conversation, not for new ones."""


class ModelsScreen(Dialog[PickedModel | Literal["local"] | None]):
    """Closes with the picked model, or None, or with "local" for the models on this device.

    `words`: to search for, or the exact name of a model, or of a server for the model that it was added with.

    An exact name that only one server has is picked without a key, as soon as all servers have answered.
    `now`: who answers the open conversation. `stand_in`: the model on this device that does while its server is away.
    """

    BINDINGS = [
        Binding("down", "move(1)", "Next model", id="models.down", priority=True),
        Binding("up", "move(-1)", "Previous model", id="models.up", priority=True),
        Binding("enter", "pick(False)", "Use it for this conversation and new ones", id="models.pick", priority=True),
        Binding("ctrl+s", "pick(True)", "Use it for this conversation only", id="models.only", priority=True),
        Binding("escape", "dismiss", "Close", id="models.close", priority=True),
    ]

    def __init__(self, switcher: RemoteSwitcher, now: Server, stand_in: StandIn | None, words: str = "") -> None:
        super().__init__()
        self._stand_in = stand_in
        self._switcher, self._now, self._words = switcher, now, words
        self._servers: list[str] = []
        self._listed: dict[str, ServerModels] = {}
        self._found: dict[str, OfferedModel] = {}
        """The models in the list, by the id of their row."""

    def compose(self) -> ComposeResult:
        only = ("models.only", "for this conversation only")
        keys = hint(self, ("models.pick", "from now on"), only, ("models.close", "close"), between=" · ")
        with titled(Vertical(), "Models", keys):
            yield Input(self._words, placeholder="Words from its name, its server, or what it can do", compact=True)
            models = OptionList(markup=False, compact=True)
            models.can_focus = False  # The words are typed while the list is moved through.
            yield models

    def on_mount(self) -> None:
        self._ask_servers()

    @work(group="models", exclusive=True)
    async def _ask_servers(self) -> None:
        """Show the list of each server as soon as it is there."""
        with reporting(self, "Models"):
            self._servers = self._switcher.servers()
            self._fill()
            async for listed in self._switcher.models(self._servers):
                self._listed[listed.server] = listed
                self._fill()
            if self.emptied("OptionList", "Input"):
                return
            name = self._words.strip()
            same = self._switcher.named(list(self._listed.values()), name) if name else []
            if len(same) == 1 and self.query_one(Input).value == self._words:
                self.close(PickedModel(same[0]))

    # ---- what is shown -----------------------------------------------------------------------------------------------

    @on(Input.Changed)
    def _fill(self) -> None:
        """List what matches the words, server by server; the highlight stays on its model."""
        if self.emptied("OptionList", "Input"):
            return
        models = self.query_one(OptionList)
        before = models.highlighted_option
        words = self.query_one(Input).value.casefold().split()
        self._found, rows = {}, list[Option]()
        for server in self._servers:
            rows += self._rows(server, words)
        here = "nobody" if self._stand_in is None else f"{self._stand_in.name}, on this device"
        if all(word in f"{WHILE_AWAY} {here}".casefold() for word in words):
            shown = Content.assemble("  ", (sanitise(here), "bold"), ("  choose another …", QUIET))
            rows += [_head(WHILE_AWAY, ""), Option(shown, id=LOCAL)]
        models.set_options(rows or [Option(Content("No model has these words."), disabled=True)])
        ids = [option.id for option in models.options]
        wanted = before.id if before is not None and before.id in self._found else self._first(ids)
        models.highlighted = ids.index(wanted) if wanted is not None else None

    def _first(self, ids: list[str | None]) -> str | None:
        """The row of the model that answers now, else the first model."""
        now = (key for key, model in self._found.items() if self._answers(model))
        return next(now, None) or next((key for key in ids if key in self._found), None)

    def _rows(self, server: str, words: list[str]) -> list[Option]:
        """The rows of one server: its name, and why it has no models or those that match."""
        listed = self._listed.get(server)
        name = "Bundled with Outrider" if server == BUNDLED else sanitise(server)
        if listed is None:
            return [] if words else [_head(name, "asking …")]
        if listed.trouble:
            return [] if words else [_head(name, sanitise(listed.trouble))]
        rows: list[Option] = []
        for at, model in enumerate(listed.models):
            said = f"{server} {model.shown} {model.about}".casefold()
            if len(self._found) < SHOWN and all(word in said for word in words):
                key = f"{server}\n{at}"
                self._found[key] = model
                rows.append(Option(self._row(model), id=key))
        return [_head(name, ""), *rows] if rows else []

    def _row(self, model: OfferedModel) -> Content:
        mark = "● " if self._answers(model) else "  "
        return Content.assemble((mark, "$success"), (model.shown, "bold"), ("  " + model.about, QUIET))

    def _answers(self, model: OfferedModel) -> bool:
        server, name = self._now
        return model.server == server and (model.checks or (name is not None and model.is_named(name)))

    # ---- keys --------------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        models = self.query_one(OptionList)
        (models.action_cursor_down if step > 0 else models.action_cursor_up)()

    def action_pick(self, only_here: bool) -> None:
        option = self.query_one(OptionList).highlighted_option
        self._pick(None if option is None else option.id, only_here)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._pick(event.option_id, False)

    def _pick(self, row: str | None, only_here: bool) -> None:
        if row == LOCAL:
            self.dismiss("local")
        elif row in self._found:
            self.dismiss(PickedModel(self._found[row], only_here))


def _head(server: str, said: str) -> Option:
    """The row above the models of a server."""
    return Option(Content.assemble((server, "bold $text-primary"), ("  " + said if said else "", QUIET)), disabled=True)
