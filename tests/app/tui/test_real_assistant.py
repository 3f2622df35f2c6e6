"""The screen over the assistant itself, with tiny models and a verifier that runs: what it shows is what is stored."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from app.config import Settings
from app.tui.widgets.message import AnswerView
from drafter.runtime import Drafter
from storage import Message, Store
from tests.app.tui.scripted import wait_until
from tests.app.tui.window import Window
from tests.support.conversing import PATIENCE_SECONDS, assistant
from tests.support.serving import VerifierProcess

SETTINGS = Settings(max_tokens=24)


def answers(store: Store, conversation: str) -> list[Message]:
    return [message for message in store.branches.thread(conversation) if message.role == "assistant"]


async def answered(pilot: Pilot[None], app: Window, count: int) -> None:
    def drawn() -> bool:
        return len(app.answers) == count and not app.prompt.answering

    await wait_until(pilot, drawn, PATIENCE_SECONDS)


async def test_what_is_shown_is_what_is_stored(drafter: Drafter, verifier: VerifierProcess, tmp_path: Path) -> None:
    async with assistant(drafter, tmp_path / "o.db", verifier.url, settings=SETTINGS) as core:
        app = Window(core)
        async with app.run_test(size=(120, 40)) as pilot:
            await wait_until(pilot, lambda: app.text("#badge") == "online", PATIENCE_SECONDS)
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
    async with assistant(drafter, tmp_path / "o.db", None, settings=SETTINGS) as core:
        app = Window(core)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press(*"list files", "enter")
            await answered(pilot, app, 1)
            await wait_until(pilot, lambda: app.screen.query(AnswerView).last().has_class("-drafted"))
            assert "drafted" in app.text("#figures") and "checked" not in app.text("#figures")
            conversation = app.chat.conversation.id
    assert conversation is not None
    async with assistant(drafter, tmp_path / "o.db", verifier.url, settings=SETTINGS) as core:
        app = Window(core)
        async with app.run_test(size=(120, 40)) as pilot:
            await app.chat.open_conversation(conversation)
            await wait_until(pilot, lambda: app.text("#badge") == "online", PATIENCE_SECONDS)
            await pilot.press("ctrl+t")
            await wait_until(pilot, lambda: "the model kept" in app.text("AnswerView > .note"), PATIENCE_SECONDS)
            (stored,) = answers(core.store, conversation)
            await wait_until(pilot, lambda: app.answers == [stored.text])
            assert all(stored.provenance) and not app.screen.query_one(AnswerView).has_class("-drafted")
