"""Models on this device, and small models of servers: they are listed, added, forgotten and offered, and they learn."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from app.config import Folders, Settings
from app.events import ModeChanged, StandIn
from app.files import size_text
from app.local.catalogue import catalogue
from app.local.registry import LocalModels
from app.remotes.offers import Offer, Told
from app.remotes.registry import Remote, Remotes
from app.tui.screens import dialog
from app.tui.screens.chat.local_offer import ASKED, JOIN, LocalOffer
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.confirm import Confirm
from app.tui.screens.local import LocalScreen
from app.tui.screens.models import ModelsScreen
from app.tui.stand_ins import StandIns
from remote.errors import NotDelivered
from remote.protocol import DrafterOffer
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, shows, wait_until
from tests.app.tui.test_prompt import send
from tests.app.tui.window import Switching, Window, started
from tests.remote.toy_verifier import CARD
from tests.support.gguf_files import byte_level, entries_of, write_vocabulary
from tests.support.patience import PATIENCE_SECONDS


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A device on which LM Studio keeps one model, and a folder of a model was added."""
    for name in ("OLLAMA_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "home/.lmstudio/models/some body/Small/small Q4.gguf"
    file.parent.mkdir(parents=True)
    template = "{% for one in messages %}{{ one.content }}{% endfor %}"
    write_vocabulary(file, {**entries_of(byte_level()), "tokenizer.chat_template": template})
    mine = tmp_path / "mine"
    mine.mkdir()
    folders = Folders.locate({"OUTRIDER_HOME": str(tmp_path)})
    LocalModels(folders).add("mine", mine)
    return folders


def rows(app: Window) -> list[str]:
    """The rows of the list, without those of the catalogue."""
    return [row for row in app.options if "outrider local get" not in row]


async def opened(app: Window, pilot: Pilot[None], count: int) -> None:
    await wait_until(pilot, lambda: shows(app, ChatScreen))
    await press(pilot, *"/local", "enter", until=lambda: shows(app, LocalScreen))
    await wait_until(pilot, lambda: len(rows(app)) == count and "add FILE" in app.text("#said"))


async def test_an_added_model_is_chosen_and_nobody_again(store: Store, folders: Folders, tmp_path: Path) -> None:
    app, (file,) = Switching(ScriptedCore(store), folders), (tmp_path / "home").rglob("*.gguf")
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(app, pilot, 3)
        # The path of a test's folder may take several lines.
        listed = (
            "● nobody\n  questions wait for the server, or fail as the settings say",
            f"  mine\n  {tmp_path / 'mine'}",
            f"  small Q4\n  {size_text(file.stat().st_size)}, found in LM Studio, not added yet",
        )
        assert ["".join(row.split()) for row in rows(app)] == ["".join(row.split()) for row in listed]
        await press(pilot, "down", "enter", until=lambda: app.toasts == ["mine answers while a server is away."])
        assert rows(app)[1].startswith("● mine") and "idle until it is needed" in rows(app)[1]
        assert LocalModels(folders).used == "mine" and app.core.standing_by == StandIn("mine")
        app.core.standing_by = StandIn("mine", "ready", memory=612_000_000)
        await wait_until(pilot, lambda: "ready, 612 MB of memory" in rows(app)[1])
        await press(pilot, "up", "enter", until=lambda: app.toasts[-1] == "Questions wait for the server.")
        assert LocalModels(folders).used is None and app.core.standing_by is None
        await press(pilot, "escape", until=lambda: shows(app, ChatScreen))
        app.core.standing_by = StandIn("mine")
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: rows(app)[-1] == "  mine, on this device  choose another …")
        await press(pilot, *"on this device", until=lambda: len(rows(app)) == 2)
        await press(pilot, "down", "enter", until=lambda: shows(app, LocalScreen))


async def test_a_found_model_is_added_named_and_forgotten(store: Store, folders: Folders, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    (file,) = (tmp_path / "home").rglob("*.gguf")
    LocalModels(folders).add("small-Q4", tmp_path / "mine")
    async with started(Switching(ScriptedCore(store), folders)) as (app, pilot):
        await opened(app, pilot, 4)
        await pilot.press("end", "enter")
        await wait_until(pilot, lambda: app.clipboard == f"outrider local get {catalogue().models[-1].name}")
        app.clear_notifications()
        app.screen.query_one(OptionList).highlighted = 3
        await press(pilot, "d", until=lambda: app.toasts == ["Only added models can be forgotten; enter adds one."])
        await press(pilot, "enter", until=lambda: app.toasts[-1].startswith("small-Q4-2 answers"))
        assert dict(LocalModels(folders))["small-Q4-2"] == file and len(rows(app)) == 4
        await wait_until(pilot, lambda: rows(app)[-1].startswith("● small-Q4-2"))
        await press(pilot, "d", until=lambda: "found in LM Studio" in rows(app)[-1])
        assert LocalModels(folders).used is None and app.core.standing_by is None and file.exists()


async def test_what_cannot_run_or_has_no_effect_is_said(store: Store, folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "mine").rmdir()
    LocalModels(folders).add("far", tmp_path / ("a" * 300) / "far")
    async with started(Switching(ScriptedCore(store), folders, offline="queue")) as (app, pilot):
        await opened(app, pilot, 4)
        far = next(row for row in rows(app) if row.startswith("  far"))
        assert "its file is not readable (File name too long)" in " ".join(far.split())
        assert "its file is missing" in rows(app)[1]
        await press(pilot, "down", "enter", until=lambda: app.toasted("no model in"))
        (tmp_path / "mine").mkdir()
        await press(pilot, "enter", until=lambda: app.toasted('says offline = "queue"'))
        assert app.core.standing_by is None, "a setting comes first"
        LocalModels(folders).path.write_text("[models")
        await press(pilot, "enter", until=lambda: app.toasted("local.toml is not valid TOML"))


async def test_the_model_proposed_is_the_largest_that_fits(store: Store, folders: Folders, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    (small,) = (tmp_path / "home").rglob("*.gguf")
    for name, size in (("huge.gguf", 1 << 42), ("larger.gguf", 1 << 24)):  # With holes: they take no room.
        with shutil.copyfile(small, small.with_name(name)).open("r+b") as file:
            file.truncate(size)
    write_vocabulary(small.with_name("base.gguf"), {**entries_of(byte_level()), "general.name": "x" * (1 << 25)})
    LocalModels(folders).add("far", tmp_path / ("a" * 300) / "far")
    stand_ins = StandIns(Settings(), folders, ScriptedCore(store))
    assert (found := await stand_ins.candidate()) is not None and found.name == "mine", "the person has added it"
    (tmp_path / "mine/model.safetensors").touch()
    os.truncate(tmp_path / "mine/model.safetensors", 1 << 42)
    assert (found := await stand_ins.candidate()) is not None and found.name == "larger"
    shutil.rmtree(tmp_path / "mine")
    assert (found := await stand_ins.candidate()) is not None and found.name == "larger"


# ---- the question ----------------------------------------------------------------------------------------------------

AWAY = ModeChanged("offline", "nothing listens at office:8000", alone=False)


class Asking(Switching):
    def __init__(self, store: Store, folders: Folders, **settings: object) -> None:
        Remotes(folders).put("office", Remote(url="http://office:8000"))
        super().__init__(ScriptedCore(store), folders, **settings)

    @property
    def asked(self) -> str:
        offer = self.chat.query_one(LocalOffer)
        return str(offer.content).replace(JOIN, " ") if offer.display and offer.region.height else ""

    async def lose(self, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: shows(self, ChatScreen))
        self.scripted.missed, self.scripted.mode = "office", AWAY
        self.scripted.modes.put_nowait(AWAY)
        await wait_until(pilot, lambda: self.text("#badge") == "offline")

    async def settled(self, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: all(one.is_finished for one in self.workers if one.group == "local-offer"))


async def test_it_is_asked_once_and_f5_lets_the_model_answer(store: Store, folders: Folders) -> None:
    async with started(Asking(store, folders), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: shows(app, ChatScreen))
        assert not app.asked and not Told(folders.offers).knows(ASKED)
        await app.lose(pilot)
        await wait_until(pilot, lambda: bool(app.asked))
        assert app.asked == "mine on this device can answer while office is away: f5 yes, esc never"
        assert app.chat.query_one(LocalOffer).region.height == 1 and app.prompt.has_focus
        await press(pilot, *"yes", "f5", until=lambda: app.toasted("mine answers while a server is away"))
        assert not app.asked and app.prompt.text == "yes" and not shows(app, ModelsScreen)
        assert app.scripted.standing_by == StandIn("mine") and LocalModels(folders).used == "mine"
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))


async def test_never_is_remembered_by_every_window(store: Store, folders: Folders) -> None:
    async with started(Asking(store, folders)) as (app, pilot):
        await app.lose(pilot)
        await wait_until(pilot, lambda: bool(app.asked))
        await press(pilot, "escape", until=lambda: not app.asked and app.toasted("/local"))
        assert app.scripted.standing_by is None
    async with started(Asking(store, folders)) as (other, pilot):
        await other.lose(pilot)
        await other.settled(pilot)
        assert not other.asked


async def test_it_is_not_asked_of_who_has_chosen_or_needs_none(store: Store, folders: Folders) -> None:
    needs_none: list[tuple[StandIn | None, str | None]] = [(StandIn("mine"), "office"), (None, None), (None, "office")]
    for offline, cases in (("queue", needs_none[2:]), (None, needs_none)):
        async with started(Asking(store, folders, offline=offline)) as (app, pilot):
            await wait_until(pilot, lambda: shows(app, ChatScreen))
            for at, (app.scripted.standing_by, app.scripted.missed) in enumerate(cases):
                if at == 2:  # No model is left.
                    LocalModels(folders).remove("mine")
                    next(folders.config.parent.rglob("*.gguf")).unlink()
                app.scripted.modes.put_nowait(ModeChanged("offline", f"away {at}", alone=False))
                await wait_until(pilot, lambda: app.text("#why") == f"away {at}")  # noqa: B023
                await app.settled(pilot)
                assert not app.asked and not Told(folders.offers).knows(ASKED)


# ---- small models: what they learn, and the offers of servers --------------------------------------------------------


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_pair: Path) -> list[asyncio.subprocess.Process]:
    """Those that the test starts, with a home and a drafter of their own."""
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OUTRIDER_DRAFTER", str(tiny_pair / "drafter"))
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return started


async def test_it_says_what_was_learnt_or_went_wrong_and_ends_with_the_window(
    store: Store, processes: list[asyncio.subprocess.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await send(app, pilot, "/learn deep")
        await send(app, pilot, "/learn deep")
        assert "You can keep asking" in app.toasts[0] and "learning already" in app.toasts[1]
        await wait_until(pilot, lambda: app.toasted("There are no new answers to learn from."))
        assert [one.returncode for one in processes] == [0]
        with monkeypatch.context() as wrong:
            wrong.setenv("OUTRIDER_MAX_TOKENS", "many")
            await send(app, pilot, "/learn", lambda: "max_tokens" in app.toasts[-1].lower())
        await send(app, pilot, "/learn", lambda: len(processes) == 3)
    assert await asyncio.wait_for(processes[2].wait(), PATIENCE_SECONDS) != 0


ONLINE = ModeChanged("hosted", "answered by Model-8B at office", model="org/Model-8B", checks=False)


async def test_each_offer_is_asked_about_once_and_an_answer_that_was_not_meant_for_the_prompt_is_obeyed(
    store: Store, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = ScriptedCore(store)
    walk = (
        (1, "n", None, "Later: outrider drafter fetch office"),
        (2, "y", None, "The small model has been downloaded"),
        (3, "y", NotDelivered("the disk has no room for it"), "To resume: outrider drafter fetch office"),
    )
    async with started(Switching(core, folders)) as (app, pilot):
        for number, key, trouble, said in walk:
            core.trouble = trouble
            drafter = DrafterOffer(digest=bytes([number]) * 32, size=212_400_000, licence="apache-2.0")
            offer = Offer(msgspec.structs.replace(CARD, target="org/Model-8B", drafter=drafter), "office")
            core.offer = offer
            core.modes.put_nowait(ONLINE)
            await wait_until(pilot, lambda: isinstance(app.screen, Confirm) and bool(app.screen.query("Static")))
            question = str(app.screen.query_one("Static").render())
            assert "office offers a small model for org/Model-8B: 212 MB, licence apache-2.0." in question
            monkeypatch.setattr(dialog, "QUIET_SECONDS", 1e9)
            await pilot.press("y", "n", "q", "enter")
            await pilot.pause()
            assert isinstance(app.screen, Confirm), number
            monkeypatch.setattr(dialog, "QUIET_SECONDS", 0)
            await press(pilot, key, until=lambda: app.toasted(said))  # noqa: B023
            assert core.fetched == (number > 1), number
            core.offer = offer
            core.modes.put_nowait(ONLINE)
            core.modes.put_nowait(ONLINE)
            await wait_until(pilot, core.modes.empty)
            await wait_until(pilot, lambda: all(one.is_finished for one in app.chat.workers if one.group == "offer"))
            assert not isinstance(app.screen, Confirm), number
        await wait_until(pilot, lambda: app.toasted("the disk has no room for it"))


async def test_what_is_new_of_the_small_models_here_is_told_once(store: Store, folders: Folders) -> None:
    core = ScriptedCore(store, mode=ONLINE)
    core.told = [("retired", "The small model for tiny is not used.")]
    async with started(Switching(core, folders), (120, 40)) as (first, pilot):
        await wait_until(pilot, lambda: first.toasted("tiny is not used"))
    async with started(Switching(core, folders), (120, 40)) as (again, pilot):
        await wait_until(pilot, lambda: not any(one.group == "news" for one in again.screen.workers))
        assert not again.toasted("tiny is not used")
