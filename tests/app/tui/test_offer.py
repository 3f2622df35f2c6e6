"""The chat asks once whether the small model that a server offers shall be fetched."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from app.config import Folders, Settings
from app.events import ModeChanged
from app.remotes.offers import Offer, Told
from app.remotes.switcher import RemoteSwitcher
from app.tui.app import OutriderApp
from app.tui.screens.confirm import Confirm
from app.tui.textual_private import shown_notifications
from remote.errors import NotDelivered
from remote.protocol import Card, DrafterOffer, Limits
from storage import Store
from tests.app.tui.scripted import ScriptedCore, shows, wait_until

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


def opened(store: Store, core: ScriptedCore, home: Path) -> OutriderApp:
    folders = Folders.locate({"OUTRIDER_HOME": str(home)})
    return OutriderApp(core, Settings(), RemoteSwitcher(Settings(), folders, core))


def toasts(app: OutriderApp) -> str:
    return "\n".join(toast.message for toast in shown_notifications(app))


@pytest.mark.parametrize(("key", "fetched"), [("y", 1), ("n", 0)])
async def test_it_is_asked_once_and_does_what_the_person_says(
    store: Store, tmp_path: Path, key: str, fetched: int
) -> None:
    core = ScriptedCore(store)
    app = opened(store, core, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        core.offer = OFFER
        core.modes.put_nowait(ONLINE)
        await wait_until(pilot, lambda: isinstance(app.screen, Confirm) and bool(app.screen.query("Static")))
        assert "office offers a small model for org/Model-8B: 212 MB, licence apache-2.0." in str(
            app.screen.query_one("Static").render()
        )
        await pilot.press(key)
        said = "The small model is here" if fetched else "Later: outrider drafter fetch office"
        await wait_until(pilot, lambda: said in toasts(app))
        assert core.fetched == fetched
        core.offer = OFFER
        core.modes.put_nowait(ONLINE)
        core.modes.put_nowait(ONLINE)
        await pilot.pause()
        await pilot.pause(0.3)
        assert not isinstance(app.screen, Confirm)


async def test_a_failure_says_how_to_go_on(store: Store, tmp_path: Path) -> None:
    core = ScriptedCore(store)
    core.trouble = NotDelivered("the disk has no room for it")
    app = opened(store, core, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        core.offer = OFFER
        core.modes.put_nowait(ONLINE)
        await wait_until(pilot, lambda: shows(app, Confirm))
        await pilot.press("y")
        await wait_until(pilot, lambda: "the disk has no room for it" in toasts(app))
        assert "To go on: outrider drafter fetch office" in toasts(app)


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
        await wait_until(pilot, lambda: "tiny is not used" in toasts(first))
    async with again.run_test(size=(120, 40)) as pilot:
        await wait_until(pilot, lambda: not any(one.group == "news" for one in again.screen.workers))
        assert "tiny is not used" not in toasts(again)
