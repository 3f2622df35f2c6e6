"""`/learn` in the chat: another process learns, and a notice says how it went."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.config import Folders, Settings
from app.events import ModeChanged
from app.remotes.offers import Offer
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.confirm import Confirm
from remote.errors import NotDelivered
from remote.protocol import DrafterOffer
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, wait_until
from tests.app.tui.test_prompt_commands import send
from tests.app.tui.window import Window, started
from tests.remote.toy_verifier import CARD
from tests.support.patience import PATIENCE_SECONDS


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
        await wait_until(pilot, lambda: app.toasted("There is nothing new to learn from."))
        assert [one.returncode for one in processes] == [0]
        with monkeypatch.context() as wrong:
            wrong.setenv("OUTRIDER_MAX_TOKENS", "many")
            await send(app, pilot, "/learn", lambda: "max_tokens" in app.toasts[-1].lower())
        await send(app, pilot, "/learn", lambda: len(processes) == 3)
    assert await asyncio.wait_for(processes[2].wait(), PATIENCE_SECONDS) != 0


ONLINE = ModeChanged("hosted", "answered by Model-8B at office", model="org/Model-8B", checks=False)


def window(core: ScriptedCore, home: Path) -> Window:
    folders = Folders.locate({"OUTRIDER_HOME": str(home)})
    return Window(core, Settings(), RemoteSwitcher(Settings(), folders, core))


async def test_each_offer_is_asked_about_once_and_the_answer_is_obeyed(store: Store, home: Path) -> None:
    core = ScriptedCore(store)
    walk = (
        (1, "n", None, "Later: outrider drafter fetch office"),
        (2, "y", None, "The small model has been downloaded"),
        (3, "y", NotDelivered("the disk has no room for it"), "To resume: outrider drafter fetch office"),
    )
    async with started(window(core, home)) as (app, pilot):
        for number, key, trouble, said in walk:
            core.trouble = trouble
            drafter = DrafterOffer(digest=bytes([number]) * 32, size=212_400_000, licence="apache-2.0")
            offer = Offer(msgspec.structs.replace(CARD, target="org/Model-8B", drafter=drafter), "office")
            core.offer = offer
            core.modes.put_nowait(ONLINE)
            await wait_until(pilot, lambda: isinstance(app.screen, Confirm) and bool(app.screen.query("Static")))
            question = str(app.screen.query_one("Static").render())
            assert "office offers a small model for org/Model-8B: 212 MB, licence apache-2.0." in question
            await press(pilot, key, until=lambda: app.toasted(said))  # noqa: B023
            assert core.fetched == (number > 1), number
            core.offer = offer
            core.modes.put_nowait(ONLINE)
            core.modes.put_nowait(ONLINE)
            await wait_until(pilot, core.modes.empty)
            await wait_until(pilot, lambda: all(one.is_finished for one in app.chat.workers if one.group == "offer"))
            assert not isinstance(app.screen, Confirm), number
        await wait_until(pilot, lambda: app.toasted("the disk has no room for it"))


async def test_what_is_new_of_the_small_models_here_is_told_once(store: Store, home: Path) -> None:
    core = ScriptedCore(store, mode=ONLINE)
    core.told = [("retired", "The small model for tiny is not used.")]
    async with started(window(core, home), (120, 40)) as (first, pilot):
        await wait_until(pilot, lambda: first.toasted("tiny is not used"))
    async with started(window(core, home), (120, 40)) as (again, pilot):
        await wait_until(pilot, lambda: not any(one.group == "news" for one in again.screen.workers))
        assert not again.toasted("tiny is not used")
