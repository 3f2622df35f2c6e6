"""The question whether a model on this device may answer while a server is away."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from app.config import Folders, Settings
from app.events import ModeChanged, StandIn
from app.local.registry import LocalModels
from app.remotes.offers import Told
from app.remotes.registry import Remote, Remotes
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.chat.local_offer import ASKED, JOIN, LocalOffer
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.models import ModelsScreen
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, shows, wait_until
from tests.app.tui.test_local import folders
from tests.app.tui.window import Window, started

__all__ = ["folders"]
AWAY = ModeChanged("offline", "nothing listens at office:8000", alone=False)


class Asking(Window):
    """A window whose server is away, or will be."""

    def __init__(self, store: Store, folders: Folders, **settings: object) -> None:
        Remotes(folders).put("office", Remote(url="http://office:8000"))
        self.scripted = ScriptedCore(store)
        chosen = Settings().replaced(settings, "a test")
        super().__init__(self.scripted, chosen, RemoteSwitcher(chosen, folders, self.scripted))

    @property
    def offer(self) -> LocalOffer:
        return self.chat.query_one(LocalOffer)

    @property
    def asked(self) -> str:
        """The question, if it is on the screen."""
        return str(self.offer.content).replace(JOIN, " ") if self.offer.display and self.offer.region.height else ""

    async def lose(self, pilot: Pilot[None]) -> None:
        """The server goes away."""
        await wait_until(pilot, lambda: shows(self, ChatScreen))
        self.scripted.missing, self.scripted.mode = "office", AWAY
        self.scripted.modes.put_nowait(AWAY)
        await wait_until(pilot, lambda: self.text("#badge") == "offline")

    async def settled(self, pilot: Pilot[None]) -> None:
        """The work of asking is over."""
        await wait_until(pilot, lambda: all(one.is_finished for one in self.workers if one.group == "local-offer"))


async def test_it_is_asked_once_and_f5_lets_the_model_answer(store: Store, folders: Folders) -> None:
    async with started(Asking(store, folders), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: shows(app, ChatScreen))
        assert not app.asked and not Told(folders.offers).knows(ASKED)
        await app.lose(pilot)
        await wait_until(pilot, lambda: bool(app.asked))
        assert app.asked == "mine on this device can answer while office is away: f5 yes, esc never"
        assert app.offer.region.height == 1 and app.prompt.has_focus
        await press(pilot, *"yes", "f5", until=lambda: app.toasted("mine answers while a server is away"))
        assert not app.asked and app.prompt.text == "yes" and not shows(app, ModelsScreen)
        assert app.scripted.stand_in == StandIn("mine") and LocalModels(folders).used == "mine"
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))


async def test_a_file_that_cannot_be_looked_at_is_not_offered(store: Store, folders: Folders, tmp_path: Path) -> None:
    LocalModels(folders).add("far", tmp_path / ("a" * 300) / "far.gguf")
    async with started(Asking(store, folders)) as (app, pilot):
        await app.lose(pilot)
        await wait_until(pilot, lambda: app.asked.startswith("mine on this device"))


async def test_never_is_remembered_by_every_window(store: Store, folders: Folders) -> None:
    app, other = Asking(store, folders), Asking(store, folders)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.lose(pilot)
        await wait_until(pilot, lambda: bool(app.asked))
        await press(pilot, "escape", until=lambda: not app.asked and app.toasted("/local"))
        assert app.scripted.stand_in is None
    async with other.run_test(size=(100, 30)) as pilot:
        await other.lose(pilot)
        await other.settled(pilot)
        assert not other.asked


@pytest.mark.parametrize(
    ("settings", "chosen", "missing", "models"),
    [
        ({"offline": "queue"}, None, "office", True),
        ({}, StandIn("mine"), "office", True),
        ({}, None, None, True),
        ({}, None, "office", False),
    ],
)
async def test_it_is_not_asked_of_who_has_chosen_or_needs_none(
    store: Store,
    folders: Folders,
    settings: dict[str, str],
    chosen: StandIn | None,
    missing: str | None,
    models: bool,
) -> None:
    if not models:
        LocalModels(folders).remove("mine")
        for file in folders.config.parent.rglob("*.gguf"):
            file.unlink()
    async with started(Asking(store, folders, **settings)) as (app, pilot):
        await wait_until(pilot, lambda: shows(app, ChatScreen))
        app.scripted.stand_in, app.scripted.missing = chosen, missing
        app.scripted.modes.put_nowait(AWAY)
        await wait_until(pilot, lambda: app.text("#badge") == "offline")
        await app.settled(pilot)
        assert not app.asked and not Told(folders.offers).knows(ASKED)


async def test_a_choice_elsewhere_ends_the_question(store: Store, folders: Folders, tmp_path: Path) -> None:
    async with started(Asking(store, folders)) as (app, pilot):
        await app.lose(pilot)
        await wait_until(pilot, lambda: bool(app.asked))
        app.scripted.stand_in = StandIn("mine")
        app.scripted.modes.put_nowait(AWAY)
        await wait_until(pilot, lambda: not app.asked)
