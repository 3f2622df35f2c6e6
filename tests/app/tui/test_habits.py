"""Keys that people bring along from other programs in the terminal."""

from __future__ import annotations

import asyncio

import pytest
from textual.content import Content
from textual.widgets import OptionList

from app.events import Verified
from app.tui.screens.chat import screen as chat_screen
from app.tui.screens.help import HelpScreen
from app.tui.screens.recall import RecallScreen
from app.tui.widgets.conversation_list import FOUND, ConversationList
from app.tui.widgets.sidebar import SearchBox, TitleBox
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, shows, store_turns, wait_until
from tests.app.tui.window import started


async def test_ctrl_c_twice_quits_once_there_is_nothing_else_for_it_to_do(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = ScriptedCore(store, [[asyncio.Event()]] * 2)
    async with started(core, (80, 24)) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.prompt.answering)
        await pilot.press("x", "ctrl+c")
        assert app.prompt.text == "" and app.prompt.answering, "first it clears what is typed"
        await press(pilot, "ctrl+c", until=lambda: not app.prompt.answering and core.stops == 1)
        await press(pilot, "b", "enter", until=lambda: app.prompt.answering)
        await press(pilot, "alt+up", until=lambda: not app.prompt.has_focus)
        await press(pilot, "ctrl+c", until=lambda: not app.prompt.answering and core.stops == 2)
        app.prompt.focus()
        with monkeypatch.context() as soon:
            soon.setattr(chat_screen, "LEAVING_SECONDS", 0.01)
            for _ in range(3):  # Much later, each is the first again.
                await press(pilot, "ctrl+c", until=lambda: not app.chat.leaving)
            assert app.is_running and not app._exit
        await pilot.press("a", "b", "shift+left", "ctrl+c")
        await wait_until(pilot, lambda: app.clipboard == "b" and app.prompt.text == "ab" and bool(app.toasts))
        app.clear_notifications()
        await pilot.press("right", "ctrl+c")
        assert app.prompt.text == "" and not app.toasts, "it has cleared the prompt, and no more"
        await press(pilot, "ctrl+c", until=lambda: app.toasts == ["Ctrl+c again quits."])
        await press(pilot, "ctrl+c", until=lambda: app._exit)


async def test_ctrl_d_deletes_and_quits_where_there_is_nothing_to_delete(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        app.prompt.write("one\ntwo")
        places = []
        for key in ("home", "end", "ctrl+home", "ctrl+end"):
            await pilot.press(key)
            places.append(app.prompt.cursor_location)
        assert places == [(1, 0), (1, 3), (0, 0), (1, 3)]
        app.prompt.write("list files")
        await pilot.press("ctrl+u")
        assert app.prompt.text == ""
        await pilot.press("ctrl+underscore")
        assert app.prompt.text == "list files", "the last change is taken back"
        await pilot.press("ctrl+u", *"ab", "home", "ctrl+d")
        assert app.prompt.text == "b"
        await pilot.press("ctrl+d")
        assert app.prompt.text == "" and not app._exit
        await press(pilot, "ctrl+d", until=lambda: app._exit)


async def test_home_and_end_reach_the_ends_of_the_conversation(store: Store) -> None:
    conversation = store_turns(store, "long", [("q", "line\n\n" * 60)])
    async with started(ScriptedCore(store), at=conversation) as (app, pilot):
        transcript = app.screen.query_one(Transcript)
        await wait_until(pilot, lambda: 0 < transcript.max_scroll_y == transcript.scroll_y)
        for first, last in (("home", "end"), ("ctrl+home", "ctrl+end")):
            await press(pilot, first, until=lambda: transcript.scroll_y == 0)
            await press(pilot, last, until=lambda: transcript.scroll_y == transcript.max_scroll_y)
            await press(pilot, "pageup", until=lambda: transcript.scroll_y < transcript.max_scroll_y)
            await press(pilot, "pagedown", until=lambda: transcript.scroll_y == transcript.max_scroll_y)
            assert app.prompt.has_focus == (first == "home")
            await pilot.press("alt+up")  # From now on, the messages have the focus.


async def test_what_was_asked_is_searched_and_comes_back_into_the_prompt(store: Store) -> None:
    first = store.conversations.create("a").id
    for text in ("unpack a tar archive", "list files", "show the disk", "list files"):
        store.messages.add(first, "user", text, parent_id=None, status="done")
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.prompt.earlier) == 3)
        await press(pilot, *"typed", "ctrl+r", until=lambda: shows(app, RecallScreen))
        prompts = app.screen.query_one(OptionList)

        def shown() -> list[str]:
            return [str(option.prompt) for option in prompts.options]

        await wait_until(pilot, lambda: shown() == ["list files", "show the disk", "unpack a tar archive"])
        await press(pilot, *"tar UN", until=lambda: shown() == ["unpack a tar archive"])
        found = prompts.options[0].prompt
        assert isinstance(found, Content)
        assert [found.plain[span.start : span.end] for span in found.spans if span.style == FOUND] == ["un", "tar"]
        await press(pilot, "x", until=lambda: shown() == ["Nothing was asked with these words."])
        await press(pilot, "enter", until=lambda: app.screen is app.chat and app.prompt.has_focus)
        assert app.prompt.text == "typed", "nothing was chosen"
        await press(pilot, "ctrl+r", until=lambda: shows(app, RecallScreen))
        await press(pilot, "ctrl+r", "down", "up", "enter", until=lambda: app.prompt.text == "show the disk")
        await press(pilot, "up", until=lambda: app.prompt.text == "typed")


async def test_without_a_shell_nothing_is_suspended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpgrp", lambda: 7)
    monkeypatch.setattr("os.getsid", lambda process: 7)
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await press(pilot, "ctrl+z", until=lambda: app.toasted("no shell started it"))


async def test_escape_ends_one_thing_at_a_time(store: Store) -> None:
    conversation = store_turns(store, "title", [("one", "first")])
    core = ScriptedCore(store, [[Verified("half ", 1, 0), asyncio.Event()]])
    async with started(core, (120, 30), at=conversation) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.drawing)
        await pilot.press("alt+up", "alt+up", "alt+up", "e")
        await wait_until(pilot, lambda: app.prompt.text == "one" and app.prompt.border_title is not None)
        await pilot.press("alt+up", "ctrl+f", *"tit")
        search, conversations, rename = (app.screen.query_one(kind) for kind in (SearchBox, ConversationList, TitleBox))
        await wait_until(pilot, lambda: len(app.titles) == 1)
        conversations.focus()
        await press(pilot, "r", *"le of another kind", until=lambda: rename.has_focus)

        await press(pilot, "escape", until=lambda: not rename.display and conversations.has_focus)
        assert store.conversations.get(conversation).title == "title" and search.value == "tit"

        search.focus()
        await press(pilot, "escape", until=lambda: search.value == "" and conversations.has_focus)

        await press(pilot, "f1", until=lambda: shows(app, HelpScreen))
        await press(pilot, "escape", until=lambda: app.screen is app.chat)
        assert conversations.has_focus

        await press(pilot, "escape", until=lambda: app.prompt.has_focus)
        assert app.prompt.text == "one", "the edit is still there"

        await press(pilot, "alt+up", "escape", until=lambda: app.prompt.border_title is None)
        assert app.screen.query_one(Transcript).has_focus

        await press(pilot, "escape", until=lambda: app.prompt.has_focus)
        assert app.prompt.answering and core.stops == 0

        await press(pilot, "escape", until=lambda: not app.prompt.answering)
        assert core.stops == 1 and app.answers[-1] == "half "
