"""The question whether a model on this device may answer while a server is away: one line, asked once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual import work
from textual.content import Content
from textual.widgets import Static

from app.config import ConfigError
from app.sanitise import sanitise
from app.tui.keymap import key_of
from app.tui.notices import reporting
from app.tui.stand_ins import LocalModel, StandIns
from app.tui.widgets.status_bar import shortened

ASKED = "a local model"
"""Under this name it is recorded that the person was asked."""
JOIN = "\N{NO-BREAK SPACE}"
"""The keys stay on one line."""
MOST_NAME = 24
"""Characters of the names, so that the question fits into a line."""


class LocalOffer(Static):
    """Hidden until there is something to ask. It takes no focus, and nothing waits for the answer."""

    def __init__(self) -> None:
        super().__init__(id="local-offer", markup=False)
        self._model: LocalModel | None = None
        self._stand_ins: StandIns | None = None
        self._looked = False
        """Whether this window has looked for a model, which may read much of the disk."""

    @property
    def asks(self) -> bool:
        return self._model is not None

    def consider(self, stand_ins: StandIns, told: Path) -> None:
        """Ask if a model could answer now and nobody does, unless the person was asked or has chosen before."""
        if stand_ins.now is not None:
            self._end()
        elif not self._looked and (server := stand_ins.missed_by) is not None:
            self._looked, self._stand_ins = True, stand_ins
            self._ask(stand_ins, told, server)

    @work(group="local-offer")
    async def _ask(self, stand_ins: StandIns, file: Path, server: str) -> None:
        from app.remotes.offers import Told  # The first frame needs no wire.

        told = Told(file)
        if await asyncio.to_thread(told.knows, ASKED):
            return
        try:
            model = await stand_ins.candidate()
        except ConfigError:
            return  # `/local` reports it.
        if model is None or stand_ins.now is not None or not self.is_attached:
            return
        if await asyncio.to_thread(told.first, ASKED):
            self._model = model
            names = [shortened(sanitise(name), MOST_NAME) for name in (model.name, server)]
            yes, never = key_of(self, "app.models"), key_of(self, "chat.stop")
            words = "{} on this device can answer while {} is away: ".format(*names)
            self.update(Content.assemble(words, (yes, "bold"), f"{JOIN}yes,{JOIN}", (never, "bold"), f"{JOIN}never"))
            self.display = True

    @work(group="local-offer")
    async def accept(self) -> None:
        """Let the model answer, starting with the questions that wait."""
        model, stand_ins = self._model, self._stand_ins
        self._end()
        if model is None or stand_ins is None:
            return
        with reporting(self, "Local models"):
            notice = await stand_ins.use(model)
            said = f"{model.name} answers while a server is away. /local changes that."
            self.notify(sanitise(notice or said), markup=False)

    def decline(self) -> None:
        self._end()
        self.notify("You won't be asked again. Use /local to let a model answer.")

    def _end(self) -> None:
        self._model, self.display = None, False
