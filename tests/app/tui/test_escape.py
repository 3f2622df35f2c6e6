"""Escape ends or leaves one thing at a time, in the order that `ChatScreen.action_escape` tells."""

from __future__ import annotations

import asyncio

from app.events import Verified
from app.tui.screens.help import HelpScreen
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.sidebar import SearchBox, TitleBox
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, shows, store_turns, wait_until
from tests.app.tui.window import Window


async def test_escape_ends_one_thing_at_a_time(store: Store) -> None:
    conversation = store_turns(store, "title", [("one", "first")])
    core = ScriptedCore(store, [[Verified("half ", 1, 0), asyncio.Event()]])
    app = Window(core)
    async with app.run_test(size=(120, 30)) as pilot:
        await app.chat.open_conversation(conversation)
        await pilot.press("a", "enter")
        await wait_until(pilot, lambda: app.drawing)
        await pilot.press("alt+up", "alt+up", "alt+up", "e")
        await wait_until(pilot, lambda: app.prompt.text == "one" and app.prompt.border_title is not None)
        await pilot.press("alt+up", "ctrl+f", *"tit")
        search, conversations, rename = (app.screen.query_one(kind) for kind in (SearchBox, ConversationList, TitleBox))
        await wait_until(pilot, lambda: len(app.titles) == 1)
        conversations.focus()
        await pilot.press("r", *"le of another kind")
        await wait_until(pilot, lambda: rename.has_focus)

        await pilot.press("escape")
        await wait_until(pilot, lambda: not rename.display and conversations.has_focus)
        assert store.conversations.get(conversation).title == "title" and search.value == "tit"

        search.focus()
        await pilot.press("escape")
        await wait_until(pilot, lambda: search.value == "" and conversations.has_focus)

        await pilot.press("f1")
        await wait_until(pilot, lambda: shows(app, HelpScreen))
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is app.chat)
        assert conversations.has_focus

        await pilot.press("escape")
        await wait_until(pilot, lambda: app.prompt.has_focus)
        assert app.prompt.text == "one", "the edit is still there"

        await pilot.press("alt+up", "escape")
        await wait_until(pilot, lambda: app.prompt.border_title is None)
        assert app.screen.query_one(Transcript).has_focus

        await pilot.press("escape")
        await wait_until(pilot, lambda: app.prompt.has_focus)
        assert app.prompt.answering and core.stops == 0

        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.prompt.answering)
        assert core.stops == 1 and app.answers[-1] == "half "
