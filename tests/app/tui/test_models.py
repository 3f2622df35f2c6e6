"""The picker of models, on a real registry and real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from textual.widgets import Input, OptionList

from app.config import Folders, Settings
from app.events import Done, ModeChanged, Stats, Verified
from app.remotes.registry import BUNDLED, Remote, Remotes
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.models import ModelsScreen
from app.tui.widgets.message import AnswerView
from storage import Choices, Store
from tests.app.tui.scripted import ScriptedCore, press, shows, wait_until
from tests.app.tui.window import Window, started
from tests.support.chat_server import ChatServer, Script

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
async def folders(folders: Folders, no_ring: None) -> AsyncIterator[Folders]:
    """A registry with a server that streams, and one that is away."""
    async with ChatServer([Script(["x"])]).listening() as port:
        Remotes(folders).put("mine", Remote(url=f"http://127.0.0.1:{port}"))
        Remotes(folders).put("away", Remote(url=NOBODY))
        yield folders


def window(store: Store, folders: Folders) -> Window:
    core = ScriptedCore(store)
    return Window(core, Settings(), RemoteSwitcher(Settings(), folders, core))


def rows(app: Window) -> list[str]:
    return [str(option.prompt) for option in app.screen.query_one(OptionList).options]


async def test_a_model_is_picked_for_this_conversation_alone_and_the_bundled_one_comes_back(
    store: Store, folders: Folders
) -> None:
    app = window(store, folders)
    gone = store.conversations.create("gone", Choices(remote="sold", model="other")).id
    conversation = store.conversations.create("old", Choices(system="Be brief.")).id
    async with app.run_test(size=(100, 30)) as pilot:
        await app.turn_to(pilot, gone, until=lambda: app.toasted("sold") and app.toasted("F5"))
        await app.chat.open_conversation(conversation)
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: any("nothing listens" in row for row in rows(app)))
        await wait_until(pilot, lambda: any("talker  streams only" in row for row in rows(app)))
        assert any(row.startswith("●") and "checks drafts" in row for row in rows(app)), "the bundled one answers now"
        await press(pilot, *"other", until=lambda: rows(app) == ["mine", "  other  streams only"])
        await press(pilot, "ctrl+s", until=lambda: app.screen is app.chat)
        kept = store.conversations.get(conversation).choices
        assert kept == Choices(system="Be brief.", remote="mine", model="other")
        assert app.chat.conversation.core.followed[-1] == kept
        assert Remotes(folders).used is None
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: "● other  streams only" in rows(app))
        await pilot.press("escape")
        await app.run_action("app.models('checks')")
        await wait_until(pilot, lambda: isinstance(app.screen, ModelsScreen) and len(rows(app)) == 2)
        assert app.screen.query_one(Input).value == "checks"
        await pilot.press("enter")
        bundled = Choices(system="Be brief.", remote=BUNDLED)
        await wait_until(pilot, lambda: store.conversations.get(conversation).choices == bundled)
        await app.chat.open_conversation(None)
        chat = app.chat
        assert chat.conversation.core.followed[-1] == Choices(), "another conversation keeps its own"
        await app.run_action("app.models('other')")  # An exact name is picked by itself.
        await wait_until(pilot, lambda: chat.conversation.choices == Choices(remote="mine", model="other"))
        await wait_until(pilot, lambda: app.screen is chat)


async def test_a_model_that_is_picked_answers_new_conversations_too(store: Store, folders: Folders) -> None:
    async with started(window(store, folders)) as (app, pilot):
        await app.run_action("app.models('talker streams')")
        await wait_until(pilot, lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: rows(app) == ["mine", "  talker  streams only"])
        await press(pilot, "enter", until=lambda: app.screen is app.chat)
        remotes = Remotes(folders)
        assert (remotes.used, remotes.get("mine").model) == ("mine", "talker")
        assert app.chat.conversation.choices == Choices(remote="mine", model="talker")
        begun = app.chat.conversation.begin("a question")
        assert store.conversations.get(begun).choices == Choices(remote="mine", model="talker")
        await app.chat.open_conversation(None)
        assert app.switcher is not None and app.switcher.default == ("mine", "talker")
    again = window(store, folders)
    assert again.switcher is not None and again.switcher.default == ("mine", "talker"), "after a restart, too"


async def test_each_answer_has_the_name_of_its_model_and_nothing_is_claimed_of_a_server_that_streams(
    store: Store,
) -> None:
    mode = ModeChanged("hosted", "answered by talker at mine", model="talker", checks=False)
    done = Done(False, "end", (), (), Stats(streamed=2, counted=True, seconds=1.0), model="talker")
    old = store.conversations.create("old").id
    answer = store.messages.ask(old, "q", parent_id=None)
    store.messages.finish(answer.id, (), (), "a", "done", {"model": "bad\x1b[2J llama", "streamed": 1})
    app = Window(ScriptedCore(store, [[Verified("Paris.", 2, 0), done]], mode), Settings())
    async with app.run_test(size=(140, 40)) as pilot:
        await pilot.press("f3")
        for asked in (False, True):
            if asked:
                app.prompt.put("what is the capital of France")
                await press(pilot, "enter", until=lambda: app.text("AnswerView > .model") == "talker")
                assert not app.screen.query_one(AnswerView).turn.note
            shown = " ".join(app.text(part) for part in ("#badge", "#model", "#figures", "#why", "Panel Static"))
            assert "talker" in shown
            for word in ("verified", "checked", "τ", "tau"):
                assert word not in shown, (word, asked)
        await app.turn_to(pilot, old, until=lambda: app.text("AnswerView > .model") == "bad llama")
