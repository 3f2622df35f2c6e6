"""A conversation is opened while other things happen to it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from app.events import Verified
from storage import Message, Store
from storage.database import Database
from storage.messages import Messages
from tests.app.tui.scripted import ScriptedCore, finished, store_turns, wait_until
from tests.app.tui.window import Window


class SlowMessages(Messages):
    """Waits, where it is told to, between what it has read and whoever wants it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.read, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def of(self, conversation_id: str) -> list[Message]:
        found = super().of(conversation_id)
        self.read.set()
        self.goes_on.wait(15)
        return found


async def test_an_answer_that_ends_while_its_conversation_is_opened_is_shown_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "outrider.db")
    slow = store.messages = SlowMessages(store.database)
    other = store_turns(store, "other", [("q", "a")])
    hold = asyncio.Event()
    app = Window(ScriptedCore(store, [[Verified("half", 1, 0), hold, Verified(" and the rest", 2, 0), finished(3)]]))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"hi", "enter")
        await wait_until(pilot, lambda: app.drawing)
        asked = app.chat.conversation.id
        await app.chat.open_conversation(other)
        await wait_until(pilot, lambda: app.answers == ["a"])
        slow.read.clear()
        slow.goes_on.clear()
        opening = asyncio.create_task(app.chat.open_conversation(asked))
        await wait_until(pilot, slow.read.is_set)
        hold.set()
        await wait_until(pilot, lambda: app.chat.conversation.live is None)
        slow.goes_on.set()
        await opening
        await wait_until(pilot, lambda: app.answers == ["half and the rest"])
        assert app.chat.query_one("Transcript").turns[-1].outcome == "done"  # type: ignore[attr-defined]
    store.close()


async def test_the_shown_branch_is_read_once(store: Store) -> None:
    conversation = store_turns(store, "t", [("one", "first"), ("two", "second")])
    first = store.branches.thread(conversation)[0]
    core = ScriptedCore(store)
    other = store.messages.ask(conversation, "one, in other words", parent_id=None)
    store.messages.finish(other.id, (1,), (True,), "another", "done", {})
    app = Window(core)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.chat.open_conversation(conversation)
        await wait_until(pilot, lambda: app.answers == ["another"])
        await app.chat.open_conversation(conversation, first.id)
        await wait_until(pilot, lambda: app.answers == ["first", "second"])
        assert store.conversations.get(conversation).tip_id == store.branches.thread(conversation)[-1].id
