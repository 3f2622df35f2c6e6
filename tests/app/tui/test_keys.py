"""Keys: remapped in the settings, listed in context, all in the command palette, and as people know them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.content import Content
from textual.widgets import OptionList, Static

from app.config import ConfigError, Settings
from app.events import Verified
from app.tui.bindings import actions, checked, rooms
from app.tui.palette import MOVES, ActionCommands
from app.tui.screens.chat import screen as chat_screen
from app.tui.screens.help import HelpScreen
from app.tui.screens.queue import QueueScreen
from app.tui.screens.recall import RecallScreen
from app.tui.theme import DARK, LIGHT
from app.tui.widgets.conversation_list import FOUND, ConversationList
from app.tui.widgets.sidebar import SearchBox, TitleBox
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, shows, store_turns, wait_until
from tests.app.tui.window import Window, started
from tests.support.commands import Outrider


def test_no_key_means_two_things_in_one_place() -> None:
    outer = {room.title for room in rooms() if room.outer}
    taken: dict[tuple[str, str], str] = {}
    for action in actions({}):
        for key in action.keys:
            room = "outer" if action.room in outer else action.room
            assert taken.setdefault((room, key), action.id) == action.id, f"{key} in {room}"


def test_what_cannot_be_a_key_is_said() -> None:
    for keys, complaint in (
        ({"chat.nwe": "f11"}, "no action 'chat.nwe'; did you mean 'chat.new'?"),
        ({"chat.new": "ctrl+t"}, "'ctrl+t' is the key of chat.verify"),
        ({"prompt.send": "ctrl+n"}, "'ctrl+n' is the key of chat.new"),
        ({"chat.new": "crtl+n"}, "'crtl+n' is not a key"),
        ({"chat.new": "n"}, "could not be typed"),
    ):
        with pytest.raises(ConfigError) as error:
            checked(keys)
        assert complaint in str(error.value) and str(error.value).startswith("[keys]")


def test_the_settings_file_remaps_and_the_command_lists(outrider: Outrider, home: Path) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[keys]\nchat.new = "f11"\n')
    listed = outrider("keys")
    assert listed.code == 0, listed.err
    (line,) = [line for line in listed.out.splitlines() if line.startswith("chat.new ")]
    assert line.split() == ["chat.new", "f11", "New", "conversation"]
    file.write_text('[keys]\nchat.neu = "f11"\n')
    assert outrider("keys").says(2, "did you mean 'chat.new'")
    file.write_text("[keys]\nchat.new = 5\n")
    assert outrider("keys").code == 2


async def test_a_remapped_key_acts_and_the_help_and_the_palette_list_keys_as_they_are_mapped(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a")])

    async def listed(key: str) -> list[str]:
        await press(pilot, key, until=lambda: shows(app, HelpScreen))
        found = [str(static.content) for static in app.screen.query(Static)]
        await press(pilot, "escape", until=lambda: not isinstance(app.screen, HelpScreen))
        return found

    async with started(Window(ScriptedCore(store), Settings(keys={"chat.new": "f11"})), (120, 40)) as (app, pilot):
        offered = {command.title: command.help for command in ActionCommands(app.screen).commands()}
        for action in actions({}):
            room = next(room for room in rooms() if room.title == action.room)
            if not room.over and action.id not in MOVES:
                assert action.description in offered, action.id
        assert offered["New conversation"] == "f11 · /new"
        rows = await listed("question_mark")
        assert app.prompt.text == "" and rows.index("Prompt") < rows.index("Conversation")
        assert [rows[at - 1] for at, row in enumerate(rows) if row == "New conversation"] == ["/new", "f11"]
        await app.chat.open_conversation(conversation)
        await press(pilot, "ctrl+n", until=lambda: app.questions == ["q"])
        app.screen.query_one(Transcript).focus()
        rows = await listed("f1")
        assert rows.index("Conversation") < rows.index("Prompt")
        await press(pilot, "f11", until=lambda: app.chat.conversation.id is None and app.questions == [])
        await press(pilot, "f7", until=lambda: shows(app, QueueScreen))
        rows = await listed("f1")
        assert rows[0] == "Queue" and "Everywhere" in rows and not {"Conversation", "Prompt"} & set(rows)


async def test_the_palette_runs_actions_opens_conversations_by_what_was_said_and_remembers_themes(store: Store) -> None:
    conversation = store_turns(store, "old", [("where is the needle?", "there")])
    store.path.with_name("screen.json").write_bytes(b'{"theme": "no such theme"}')
    async with started(ScriptedCore(store)) as (app, pilot):
        assert app.theme == DARK.name, "what was remembered may be damaged"
        await app.choose(pilot, "needle", "open: old")
        await wait_until(pilot, lambda: len(app.screen_stack) == 2 and app.chat.conversation.id == conversation)
        await app.choose(pilot, "new conversation")
        await wait_until(pilot, lambda: app.chat.conversation.id is None)
        await app.choose(pilot, "theme: nord")
        await wait_until(pilot, lambda: app.theme == "nord")
    async with started(ScriptedCore(store)) as (again, pilot):
        assert again.theme == "nord"
        await press(pilot, "f2", until=lambda: again.theme == LIGHT.name)


# ---- what people bring along from other programs in the terminal -----------------------------------------------------


async def test_ctrl_c_twice_quits_where_nothing_else_is_to_do(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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
        await press(pilot, "ctrl+c", until=lambda: app.toasts == ["Press Ctrl+c again to quit."])
        await press(pilot, "ctrl+c", until=lambda: app._exit)


async def test_ctrl_d_deletes_and_quits_where_there_is_nothing_to_delete(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpgrp", lambda: 7)
    monkeypatch.setattr("os.getsid", lambda process: 7)
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await press(pilot, "ctrl+z", until=lambda: app.toasted("no shell started it"))
        app.prompt.write("one\ntwo")
        for key, place in (("home", (1, 0)), ("end", (1, 3)), ("ctrl+home", (0, 0)), ("ctrl+end", (1, 3))):
            await pilot.press(key)
            assert app.prompt.cursor_location == place
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


async def test_what_was_asked_is_searched_and_comes_back_into_the_prompt(store: Store) -> None:
    first = store.conversations.create("a").id
    for text in ("unpack a tar archive", "list files", "show the disk", "list files"):
        store.messages.add(first, "user", text, parent_id=None, status="done")
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.prompt.earlier) == 3)
        await press(pilot, *"typed", "ctrl+r", until=lambda: shows(app, RecallScreen))
        await wait_until(pilot, lambda: app.options == ["list files", "show the disk", "unpack a tar archive"])
        await press(pilot, *"tar UN", until=lambda: app.options == ["unpack a tar archive"])
        found = app.screen.query_one(OptionList).options[0].prompt
        assert isinstance(found, Content)
        assert [found.plain[span.start : span.end] for span in found.spans if span.style == FOUND] == ["un", "tar"]
        await press(pilot, "x", until=lambda: app.options == ["No question has these words."])
        await press(pilot, "enter", until=lambda: app.screen is app.chat and app.prompt.has_focus)
        assert app.prompt.text == "typed", "nothing was chosen"
        await press(pilot, "ctrl+r", until=lambda: shows(app, RecallScreen))
        await press(pilot, "ctrl+r", "down", "up", "enter", until=lambda: app.prompt.text == "show the disk")
        await press(pilot, "up", until=lambda: app.prompt.text == "typed")


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
        await press(pilot, "escape", until=lambda: app.screen is app.chat and conversations.has_focus)
        await press(pilot, "escape", until=lambda: app.prompt.has_focus)
        assert app.prompt.text == "one", "the edit is still there"
        transcript = app.screen.query_one(Transcript)
        await press(pilot, "alt+up", "escape", until=lambda: app.prompt.border_title is None and transcript.has_focus)
        await press(pilot, "escape", until=lambda: app.prompt.has_focus)
        assert app.prompt.answering and core.stops == 0
        await press(pilot, "escape", until=lambda: not app.prompt.answering and app.answers[-1] == "half ")
        assert core.stops == 1
