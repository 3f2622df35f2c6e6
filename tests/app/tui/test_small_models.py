"""`/learn` in the chat: another process learns, and a notice says how it went."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.config import Folders, Settings
from app.events import ModeChanged
from app.remotes.offers import Offer, Told
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.confirm import Confirm
from remote.errors import NotDelivered
from remote.protocol import Card, DrafterOffer, Limits
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until
from tests.app.tui.test_prompt_commands import send
from tests.app.tui.window import Window, started
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


async def test_a_notice_says_what_was_learnt_or_why_nothing(
    store: Store, processes: list[asyncio.subprocess.Process]
) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await send(app, pilot, "/learn deep")
        await send(app, pilot, "/learn deep")
        assert "You can go on asking" in app.toasts[0] and "learning already" in app.toasts[1]
        await wait_until(pilot, lambda: app.toasted("There is nothing new to learn from."))
    assert [one.returncode for one in processes] == [0]


async def test_it_says_what_went_wrong_and_ends_with_the_window(
    store: Store, processes: list[asyncio.subprocess.Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "many")
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await send(app, pilot, "/learn")
        await wait_until(pilot, lambda: len(app.toasts) == 2)
        assert "max_tokens" in app.toasts[1].lower()
        monkeypatch.delenv("OUTRIDER_MAX_TOKENS")
        await send(app, pilot, "/learn")
        await wait_until(pilot, lambda: len(processes) == 2)
    assert await asyncio.wait_for(processes[1].wait(), PATIENCE_SECONDS) != 0


async def test_the_switch_holds_here_too(store: Store) -> None:
    async with started(Window(ScriptedCore(store), Settings(learn=False)), (80, 24)) as (app, pilot):
        await send(app, pilot, "/learn")
        assert "learn = false" in app.toasts[0] and app.prompt.text == "/learn"


CARD = Card(
    version=1,
    target="org/Model-8B",
    vocabulary=100,
    tokenizer=bytes(16),
    chat_template="",
    stop_tokens=(),
    limits=Limits(max_nodes=1, max_depth=1, max_tokens=1, max_body_bytes=1),
    memory=None,
    drafter=DrafterOffer(digest=bytes(32), size=212_400_000, licence="apache-2.0"),
)
OFFER = Offer(CARD, "office")
ONLINE = ModeChanged("hosted", "answered by Model-8B at office", model="org/Model-8B", checks=False)


def opened(store: Store, core: ScriptedCore, home: Path) -> Window:
    folders = Folders.locate({"OUTRIDER_HOME": str(home)})
    return Window(core, Settings(), RemoteSwitcher(Settings(), folders, core))


async def test_each_offer_is_asked_about_once_and_the_answer_is_obeyed(store: Store, home: Path) -> None:
    core = ScriptedCore(store)
    app = opened(store, core, home)
    walk = (
        (1, "n", None, "Later: outrider drafter fetch office"),
        (2, "y", None, "The small model is here"),
        (3, "y", NotDelivered("the disk has no room for it"), "To go on: outrider drafter fetch office"),
    )
    async with app.run_test(size=(100, 30)) as pilot:
        for number, key, trouble, said in walk:
            core.trouble = trouble
            drafter = DrafterOffer(digest=bytes([number]) * 32, size=212_400_000, licence="apache-2.0")
            offer = Offer(msgspec.structs.replace(CARD, drafter=drafter), "office")
            core.offer = offer
            core.modes.put_nowait(ONLINE)
            await wait_until(pilot, lambda: isinstance(app.screen, Confirm) and bool(app.screen.query("Static")))
            assert "office offers a small model for org/Model-8B: 212 MB, licence apache-2.0." in str(
                app.screen.query_one("Static").render()
            )
            await pilot.press(key)
            await wait_until(pilot, lambda: app.toasted(said))  # noqa: B023
            assert core.fetched == (number > 1), number
            core.offer = offer
            core.modes.put_nowait(ONLINE)
            core.modes.put_nowait(ONLINE)
            await wait_until(pilot, core.modes.empty)
            await wait_until(
                pilot, lambda: not any(one.group == "offer" for one in app.chat.workers if not one.is_finished)
            )
            assert not isinstance(app.screen, Confirm), number
        assert app.toasted("the disk has no room for it")


def test_what_was_told_is_remembered_by_what_is_offered(tmp_path: Path) -> None:
    told = Told(tmp_path / "data" / "offers.json")
    assert told.first_time(OFFER) and not told.first_time(OFFER)
    other = msgspec.structs.replace(CARD, drafter=DrafterOffer(digest=bytes([1]) * 32, size=5))
    assert Told(tmp_path / "data" / "offers.json").first_time(Offer(other, "office"))
    (tmp_path / "data" / "offers.json").write_text("{]")
    assert told.first_time(OFFER), "a damaged file is begun anew"
    assert "(1 MB)" in Offer(other, "x").hint and "outrider drafter fetch x" in Offer(other, "x").hint


async def test_what_is_new_of_the_small_models_here_is_told_once(store: Store, home: Path) -> None:
    core = ScriptedCore(store, mode=ONLINE)
    core.told = [("retired", "The small model for tiny is not used.")]
    first, again = opened(store, core, home), opened(store, core, home)
    async with first.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: first.toasted("tiny is not used"))
    async with again.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: not any(one.group == "news" for one in again.screen.workers))
        assert not again.toasted("tiny is not used")
