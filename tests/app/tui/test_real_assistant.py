"""The screen over the assistant itself, with tiny models and a verifier that runs: what it shows is what is stored."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from app.config import Settings
from app.tui.widgets.message import AnswerView
from drafter.runtime import Drafter
from storage import Message, Store
from tests.app.tui.scripted import press, wait_until
from tests.app.tui.window import Window, started
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Here, assistant, standing_in
from tests.support.serving import VerifierProcess

SETTINGS = Settings(max_tokens=24)


def answers(store: Store, conversation: str) -> list[Message]:
    return [message for message in store.branches.thread(conversation) if message.role == "assistant"]


async def answered(pilot: Pilot[None], app: Window, count: int) -> None:
    def drawn() -> bool:
        return len(app.answers) == count and not app.prompt.answering

    await wait_until(pilot, drawn)


async def test_what_is_shown_is_what_is_stored(drafter: Drafter, verifier: VerifierProcess, tmp_path: Path) -> None:
    async with (
        assistant(drafter, tmp_path / "o.db", verifier.url, settings=SETTINGS) as core,
        started(core, (120, 40)) as (app, pilot),
    ):
        await wait_until(pilot, lambda: app.text("#badge") == "online")
        await pilot.press("f3", *"list files", "enter")
        await answered(pilot, app, 1)
        await pilot.press(*"and then", "enter")
        await answered(pilot, app, 2)
        conversation = app.chat.conversation.id
        assert conversation is not None
        stored = answers(core.store, conversation)
        assert app.answers == [message.text for message in stored]
        assert all(all(message.provenance) for message in stored)
        await wait_until(pilot, lambda: "dimmed, taken back" in app.text("Panel Static"))
        await wait_until(pilot, lambda: f"{sum(len(m.tokens) for m in stored)}" in app.text("Panel Static"))
        await pilot.press("alt+up", "r")
        await answered(pilot, app, 2)
        await wait_until(pilot, lambda: app.screen.query(AnswerView).last().turn.versions == (2, 2))


async def test_what_is_drafted_alone_is_told_and_verified_later(
    drafter: Drafter, verifier: VerifierProcess, tmp_path: Path
) -> None:
    async with (
        assistant(drafter, tmp_path / "o.db", None, settings=SETTINGS) as core,
        started(core, (120, 40)) as (app, pilot),
    ):
        await pilot.press(*"list files", "enter")
        await answered(pilot, app, 1)
        await wait_until(pilot, lambda: app.screen.query(AnswerView).last().has_class("-drafted"))
        assert "drafted" in app.text("#figures") and "checked" not in app.text("#figures")
        conversation = app.chat.conversation.id
    assert conversation is not None
    async with (
        assistant(drafter, tmp_path / "o.db", verifier.url, settings=SETTINGS) as core,
        started(core, (120, 40)) as (app, pilot),
    ):
        await app.turn_to(pilot, conversation, until=lambda: app.text("#badge") == "online")
        await press(pilot, "ctrl+t", until=lambda: "the model kept" in app.text("AnswerView > .note"))
        (stored,) = answers(core.store, conversation)
        await wait_until(pilot, lambda: app.answers == [stored.text])
        assert all(stored.provenance) and not app.screen.query_one(AnswerView).has_class("-drafted")


async def test_who_writes_is_told_while_the_server_is_away_and_after_its_return(
    drafter: Drafter, verifier: VerifierProcess, tmp_path: Path
) -> None:
    server = ChatServer([Script(["Use tar to unp"], cut=True), Script(["It is back."])], leaves=True)
    settings = Settings(offline="local", local="small one", max_tokens=24, temperature=0.0)
    here = {"small one": Here(verifier.url + "/v1")}
    async with (
        standing_in(drafter, tmp_path / "o.db", server, here, settings) as core,
        started(core, (120, 40)) as (app, pilot),
    ):
        await wait_until(pilot, lambda: app.text("#badge") == "online" and app.text("#model") == "talker")
        await pilot.press(*"how do I unpack it?", "enter")
        await answered(pilot, app, 1)
        first = app.screen.query_one(AnswerView)
        await wait_until(pilot, lambda: first.has_class("-drafted"))
        assert first.turn.text.startswith("Use tar to unp") and first.turn.unchecked == ((14, len(first.turn.text)),)
        assert app.text("AnswerView > .note").startswith("by small one on this device, not checked")
        assert app.text("AnswerView > .model") == "talker", "whom the person has asked"
        await wait_until(pilot, lambda: (app.text("#badge"), app.text("#model")) == ("offline", "small one"))
        await wait_until(pilot, lambda: "ask small one" in str(app.prompt.border_subtitle))
        server.away = False
        await wait_until(pilot, lambda: app.text("#badge") == "online" and app.text("#model") == "talker")
        await pilot.press(*"and now?", "enter")
        await answered(pilot, app, 2)
        last = app.screen.query(AnswerView).last()
        await wait_until(pilot, lambda: app.answers[-1] == "It is back." and not last.has_class("-drafted"))
