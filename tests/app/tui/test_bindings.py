"""Keys: remapped in the settings, listed in context, and all of them in the command palette."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from app.config import ConfigError, Settings
from app.events import ModeChanged
from app.tui.app import OutriderApp
from app.tui.bindings import actions, checked, rooms
from app.tui.palette import MOVES, ActionCommands
from app.tui.screens.help import HelpScreen
from app.tui.screens.queue import QueueScreen
from app.tui.theme import DARK, LIGHT
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, shows, store_turns, wait_until
from tests.app.tui.window import Window, started
from tests.support.commands import runner


def test_no_key_means_two_things_in_one_place() -> None:
    outer = {room.title for room in rooms() if room.outer}
    taken: dict[tuple[str, str], str] = {}
    for action in actions({}):
        for key in action.keys:
            room = "outer" if action.room in outer else action.room
            assert taken.setdefault((room, key), action.id) == action.id, f"{key} in {room}"


def test_every_key_of_ours_has_a_name_and_words() -> None:
    for node in (*(room.node for room in rooms()), OutriderApp):
        for base in node.__mro__:
            if base.__module__.startswith("app."):
                for binding in base.__dict__.get("BINDINGS", []):
                    assert binding.id and binding.description, binding
    names = [action.id for action in actions({})]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"chat.nwe": "f11"}, "no action 'chat.nwe'; did you mean 'chat.new'?"),
        ({"chat.new": "ctrl+t"}, "'ctrl+t' is the key of chat.verify"),
        ({"chat.new": "f11", "chat.list": "f10,f11"}, "'f11' is the key of chat."),
        ({"prompt.send": "ctrl+n"}, "'ctrl+n' is the key of chat.new"),
        ({"chat.new": "crtl+n"}, "'crtl+n' is no key"),
        ({"chat.new": "f11,"}, "'' is no key"),
        ({"chat.new": "n"}, "could not be typed"),
    ],
)
def test_what_cannot_be_a_key_is_said(keys: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        checked(keys)
    assert complaint in str(error.value) and str(error.value).startswith("[keys]")


def test_keys_can_be_swapped_and_tables_nested() -> None:
    settings = Settings().replaced({"keys": {"chat": {"new": "ctrl+t", "verify": "ctrl+n"}}}, "a test")
    assert checked(settings.keys) == {"chat.new": "ctrl+t", "chat.verify": "ctrl+n"}
    now = {action.id: action.keys for action in actions(checked(settings.keys))}
    assert now["chat.new"] == ("ctrl+t",) and now["chat.verify"] == ("ctrl+n",)


def test_the_settings_file_remaps_and_the_command_lists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outrider = runner(monkeypatch, capsys, tmp_path, tmp_path)
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
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
    app = Window(ScriptedCore(store), Settings(keys={"chat.new": "f11"}))

    async def listed(key: str) -> list[str]:
        await press(pilot, key, until=lambda: shows(app, HelpScreen))
        found = [str(static.content) for static in app.screen.query(Static)]
        await press(pilot, "escape", until=lambda: not isinstance(app.screen, HelpScreen))
        return found

    async with app.run_test(size=(120, 40)) as pilot:
        offered = {command.title: command.help for command in ActionCommands(app.screen).commands()}
        for action in actions({}):
            room = next(room for room in rooms() if room.title == action.room)
            if not room.over and action.id not in MOVES:
                assert action.description in offered, action.id
        assert offered["New conversation"] == "f11 · /new"
        first = ["Export this conversation, or all", "Conversations", "Search in all conversations"]
        assert list(offered)[:3] == first and list(offered).index("Quit") == 16, "those of the whole screen come first"
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


async def test_hints_name_the_keys_as_they_are_mapped_and_screens_open_once(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    keys = {
        "app.help": "f13", "prompt.send": "f10", "prompt.keep": "alt+escape,f14", "chat.stop": "f11",
        "message.edit": "j", "queue.close": "z", "help.close": "z", "export.close": "z", "log.close": "z",
    }  # fmt: skip
    app = Window(ScriptedCore(store, mode=ModeChanged("offline", "no route")), Settings(keys=dict(keys)))
    async with app.run_test(size=(100, 40)) as pilot:
        hint = lambda: str(app.prompt.border_subtitle)  # noqa: E731
        await wait_until(pilot, lambda: hint() == "f10 ask the small model · alt+esc queue for the server · f13 keys")
        await pilot.resize_terminal(60, 40)
        await wait_until(pilot, lambda: hint() == "alt+esc queue for the server · f13 keys")
        await pilot.resize_terminal(36, 40)
        await wait_until(pilot, lambda: hint() == "alt+esc queue for the server")
        await pilot.resize_terminal(100, 40)
        await app.chat.open_conversation(conversation)
        await press(pilot, "alt+up", until=lambda: hint().startswith("f11 back · c copy · j edit"))
        await press(pilot, "j", until=lambda: str(app.prompt.border_title).endswith("f11 cancels"))
        await press(pilot, "f11", until=lambda: not app.prompt.border_title and hint().startswith("f10 ask"))
        for key, panel in (("f7", "Vertical"), ("f6", "Vertical"), ("f8", "Log"), ("f13", "VerticalScroll")):
            await press(pilot, key, until=lambda: app.screen is not app.screen_stack[1])
            await wait_until(pilot, lambda: "z close" in str(app.screen.query_one(panel).border_subtitle))  # noqa: B023
            await pilot.press(key)
            await pilot.pause()
            assert len(app.screen_stack) == 3, "it opens once"
            await press(pilot, "z", until=lambda: app.screen is app.screen_stack[1])


async def test_the_palette_runs_actions_and_themes_that_are_remembered(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    async with started(ScriptedCore(store)) as (app, pilot):
        assert app.theme == DARK.name
        await app.chat.open_conversation(conversation)
        await app.choose(pilot, "new conversation")
        await wait_until(pilot, lambda: app.chat.conversation.id is None)
        await app.choose(pilot, "theme: nord")
        await wait_until(pilot, lambda: app.theme == "nord")
    async with started(ScriptedCore(store)) as (again, pilot):
        assert again.theme == "nord"
        await press(pilot, "f2", until=lambda: again.theme == LIGHT.name)


@pytest.mark.parametrize("kept", [b"{", b'{"theme": "no such theme"}'])
async def test_what_was_remembered_may_be_damaged(store: Store, kept: bytes) -> None:
    store.path.with_name("screen.json").write_bytes(kept)
    app = Window(ScriptedCore(store))
    async with app.run_test(size=(100, 30)):
        assert app.theme == DARK.name
