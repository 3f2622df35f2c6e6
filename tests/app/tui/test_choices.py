"""What is chosen for one conversation: its system prompt, its sampling and its model, each on its screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from app.config import Folders, Settings
from app.events import Done, ModeChanged, Stats, SystemUnread, Verified
from app.remotes.registry import BUNDLED, Remote, Remotes
from app.remotes.switcher import RemoteSwitcher
from app.reply.request import keep_default
from app.system_prompts import SystemPrompts
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.confirm import Confirm
from app.tui.screens.models import ModelsScreen
from app.tui.screens.sampling_form import SamplingForm
from app.tui.screens.system import SystemForm, SystemScreen
from app.tui.widgets.folding_text_area import FoldingTextArea
from app.tui.widgets.message import AnswerView
from app.tui.widgets.panel import Panel
from app.tui.widgets.system_line import SystemLine
from storage import Choices, Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Switching, Window, started
from tests.support.chat_server import ChatServer, Script

ANSWER = [*verified("ls -a"), finished(6)]


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemPrompts:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    library = SystemPrompts(Folders.locate())
    library.put("verse", "Answer in verse.\nRhyme.")
    library.put("tutor", "Explain step by step.")
    return library


def listed(app: Window) -> list[str]:
    return [row.strip() for row in app.options]


def line(app: Window) -> str:
    """The line above the messages; empty if it is hidden."""
    return app.text("SystemLine Static") if app.chat.query_one(SystemLine).display else ""


def chosen(store: Store) -> Choices:
    return store.conversations.all()[0].choices


async def opened(app: Window, pilot: Pilot[None], key: str, screen: type[object]) -> None:
    await press(pilot, key, until=lambda: shows(app, screen))


async def test_a_new_conversation_begins_with_what_was_chosen(store: Store, prompts: SystemPrompts) -> None:
    (prompts.folder / "broken.md").write_bytes(b"\xff\x1b[2J")
    async with started(ScriptedCore(store, [[SystemUnread(), *ANSWER]]), (140, 30)) as (app, pilot):
        assert line(app) == ""
        await opened(app, pilot, "alt+s", SystemScreen)
        none, broken, *others = listed(app)
        assert none == "● none  the model gets no instructions" and "is not text in UTF-8" in broken
        assert others == ["tutor  Explain step by step.", "verse  Answer in verse. Rhyme."]
        await press(pilot, "down", "enter", until=lambda: app.toasted("cannot be chosen"))
        assert isinstance(app.screen, SystemScreen)
        await press(pilot, "down", "down", "enter", until=lambda: shows(app, ChatScreen))
        assert line(app) == "System prompt: verse · alt+u unfolds it · Answer in verse. Rhyme."
        assert not store.conversations.all(), "nothing is stored before the first question"
        await press(pilot, *"list files", "enter", until=lambda: app.answers == ["ls -a"])
        await wait_until(pilot, lambda: app.toasted("does not read system prompts"))
        assert chosen(store) == Choices(system="Answer in verse.\nRhyme.", system_name="verse")
        await pilot.press("alt+u")
        assert line(app) == "System prompt: verse · alt+u folds it\nAnswer in verse.\nRhyme."
        await pilot.press("alt+u")
        assert "\n" not in line(app)
        await press(pilot, "ctrl+n", until=lambda: app.chat.conversation.id is None)
        assert line(app) == "" and app.chat.conversation.choices == Choices()
        await app.chat.query_one(SystemLine).remove_children()  # As when the window closes.
        await app.run_action("toggle_system", app.chat)


async def test_one_is_written_for_a_conversation_and_the_library_changed(store: Store, prompts: SystemPrompts) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    async with started(ScriptedCore(store), at=conversation) as (app, pilot):
        await opened(app, pilot, "alt+s", SystemScreen)
        await opened(app, pilot, "w", SystemForm)
        await press(pilot, "ctrl+s", until=lambda: "no text" in app.text("#problem"))
        await press(pilot, *"Be brief.", "ctrl+s", until=lambda: shows(app, ChatScreen))
        assert chosen(store) == Choices(system="Be brief.") and prompts.names() == ["tutor", "verse"]
        assert line(app) == "System prompt · alt+u unfolds it · Be brief."
        await opened(app, pilot, "alt+s", SystemScreen)
        assert listed(app)[1] == "● only here  Be brief."
        await opened(app, pilot, "a", SystemForm)
        assert app.screen.query_one(FoldingTextArea).text == "Be brief."
        await pilot.press(*"tutor", "ctrl+s")
        await wait_until(pilot, lambda: "a system prompt named tutor exists already" in app.text("#problem"))
        app.screen.query_one(Input).value = "brief"
        await press(pilot, "ctrl+s", until=lambda: shows(app, SystemScreen))
        assert prompts.get("brief") == "Be brief."
        await press(pilot, "escape", until=lambda: shows(app, ChatScreen))
        await app.run_action("system('none')", app.chat)
        await wait_until(pilot, lambda: chosen(store) == Choices(system=""))
        await app.run_action("system('tutor')", app.chat)
        await wait_until(pilot, lambda: chosen(store).system_name == "tutor")
        await opened(app, pilot, "alt+s", SystemScreen)
        (row,) = (at for at, option in enumerate(listed(app)) if option == "● tutor  Explain step by step.")
        app.screen.query_one(OptionList).highlighted = row
        await opened(app, pilot, "e", SystemForm)
        await press(pilot, *" Slowly.", "ctrl+s", until=lambda: shows(app, SystemScreen))
        assert prompts.get("tutor") == "Explain step by step. Slowly."
        assert "● tutor, an older text  Explain step by step." in listed(app)
        await opened(app, pilot, "d", Confirm)
        await pilot.press("y")
        await wait_until(pilot, lambda: isinstance(app.screen, SystemScreen) and prompts.names() == ["brief", "verse"])
        await press(pilot, "escape", until=lambda: shows(app, ChatScreen))
        assert chosen(store).system == "Explain step by step."


async def test_the_command_line_gives_new_conversations_one_and_an_import_shows_its_own(store: Store) -> None:
    first = Choices(system="Be brief.")
    old = store_turns(store, "old", [("q", "a")])
    imported = store.conversations.create("imported").id
    system = store.messages.add(imported, "system", "Be \x1b[2Jlong.", parent_id=None, status="done")
    store.messages.add(imported, "user", "hello", parent_id=system.id, status="done")
    async with started(Window(ScriptedCore(store, [ANSWER]), first=first)) as (app, pilot):
        await wait_until(pilot, lambda: line(app).endswith("Be brief."))
        await app.chat.open_conversation(old)
        assert line(app) == ""
        await app.turn_to(pilot, imported, until=lambda: line(app) == "System prompt · alt+u unfolds it · Be long.")
        assert app.questions == ["hello"]
        await press(pilot, "ctrl+n", until=lambda: line(app).endswith("Be brief."))
        await press(pilot, *"list files", "enter", until=lambda: app.answers == ["ls -a"])
        assert chosen(store) == first


def field(app: Window, name: str) -> Input:
    return app.screen.query_one(f"#{name}", Input)


async def test_sampling_is_checked_kept_and_reset(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    store.conversations.choose(conversation, Choices(system="Be brief."))
    async with started(Window(ScriptedCore(store), Settings(temperature=0.25)), (120, 34)) as (app, pilot):
        await app.chat.open_conversation(conversation)
        await pilot.press("f3")
        await opened(app, pilot, "alt+p", SamplingForm)
        assert field(app, "temperature").placeholder.startswith("0.25; ")
        await press(pilot, "3", "tab", until=lambda: "2" in app.text("#temperature-problem"))
        field(app, "top_p").value = "zero"
        await press(pilot, "ctrl+s", until=lambda: app.text("#top_p-problem") != "")
        assert isinstance(app.screen, SamplingForm) and field(app, "temperature").has_focus
        field(app, "temperature").value, field(app, "top_p").value = "0.9", ""
        field(app, "seed").value, field(app, "max_tokens").value = "4294967295", "64"
        await press(pilot, "ctrl+s", until=lambda: shows(app, ChatScreen))
        kept = Choices(system="Be brief.", temperature=0.9, seed=4294967295, max_tokens=64)
        assert chosen(store) == kept
        said = "temperature 0.9, seed 4294967295, max_tokens 64"
        await wait_until(pilot, lambda: app.toasted(said))
        await wait_until(pilot, lambda: said in app.text("Panel Static") and app.chat.query_one(Panel).display)
        await opened(app, pilot, "alt+p", SamplingForm)
        assert [field(app, name).value for name in ("temperature", "seed", "max_tokens")] == ["0.9", "4294967295", "64"]
        await press(pilot, "ctrl+r", "ctrl+s", until=lambda: shows(app, ChatScreen))
        assert chosen(store) == Choices(system="Be brief.")
        await wait_until(pilot, lambda: "Sampling" not in app.text("Panel Static"))


async def test_what_is_chosen_during_the_first_answer_leaves_the_default_system_prompt_of_it(
    store: Store, prompts: SystemPrompts
) -> None:
    holds = [asyncio.Event(), asyncio.Event()]
    async with started(ScriptedCore(store, [[ANSWER[0], hold, *ANSWER[1:]] for hold in holds]), (120, 34)) as (
        app,
        pilot,
    ):
        for ends_first, hold in enumerate(holds):
            await press(pilot, "ctrl+n", *"list files", "enter", until=lambda: app.drawing)
            conversation = app.chat.conversation
            (*_, answer) = store.branches.thread(str(conversation.id))
            keep_default(store, prompts, answer, server=None, all="tutor")
            await opened(app, pilot, "alt+p", SamplingForm)
            field(app, "seed").value = "7"
            if ends_first:
                hold.set()
                await wait_until(pilot, lambda: conversation.choices.system_name == "tutor")  # noqa: B023
            await press(pilot, "ctrl+s", until=lambda: shows(app, ChatScreen))
            hold.set()
            await wait_until(pilot, lambda: app.answers == ["ls -a"])
            kept = Choices(system="Explain step by step.", system_name="tutor", seed=7)
            assert store.conversations.get(answer.conversation_id).choices == kept


# ---- the model -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def folders(folders: Folders, no_ring: None) -> AsyncIterator[Folders]:
    """A registry with a server that streams, and one that is away."""
    async with ChatServer([Script(["x"])]).listening() as port:
        Remotes(folders).put("mine", Remote(url=f"http://127.0.0.1:{port}"))
        Remotes(folders).put("away", Remote(url="http://127.0.0.1:9"))
        yield folders


async def test_a_model_is_picked_for_this_conversation_and_the_bundled_again(store: Store, folders: Folders) -> None:
    gone = store.conversations.create("gone", Choices(remote="sold", model="other")).id
    conversation = store.conversations.create("old", Choices(system="Be brief.")).id
    async with started(Switching(ScriptedCore(store), folders)) as (app, pilot):
        await app.turn_to(pilot, gone, until=lambda: app.toasted("sold") and app.toasted("F5"))
        await app.chat.open_conversation(conversation)
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: any("nothing listens" in row for row in app.options))
        await wait_until(pilot, lambda: any("talker  streams only" in row for row in app.options))
        assert any(row.startswith("●") and "checks drafts" in row for row in app.options), "the bundled one answers now"
        await press(pilot, *"other", until=lambda: app.options == ["mine", "  other  streams only"])
        await press(pilot, "ctrl+s", until=lambda: app.screen is app.chat)
        kept = store.conversations.get(conversation).choices
        assert kept == Choices(system="Be brief.", remote="mine", model="other")
        assert app.chat.conversation.core.followed[-1] == kept
        assert Remotes(folders).used is None
        await press(pilot, "f5", until=lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: "● other  streams only" in app.options)
        await pilot.press("escape")
        await app.run_action("app.models('checks')")
        await wait_until(pilot, lambda: isinstance(app.screen, ModelsScreen) and len(app.options) == 2)
        assert app.screen.query_one(Input).value == "checks"
        await pilot.press("enter")
        bundled = Choices(system="Be brief.", remote=BUNDLED)
        await wait_until(pilot, lambda: store.conversations.get(conversation).choices == bundled)
        await app.chat.open_conversation(None)
        chat = app.chat
        assert chat.conversation.core.followed[-1] == Choices(), "another conversation keeps its own"
        await pilot.press(*"/model other", "enter")  # An exact name is picked by itself.
        await wait_until(pilot, lambda: chat.conversation.choices == Choices(remote="mine", model="other"))
        await wait_until(pilot, lambda: app.screen is chat)
        await chat.open_conversation(None)
        assert chat.conversation.choices == Choices()
        await pilot.press(*"/model mine", "enter")  # The name of a server stands for its model.
        await wait_until(pilot, lambda: chat.conversation.choices == Choices(remote="mine", model="other"))
        await wait_until(pilot, lambda: app.screen is chat)


async def test_a_model_that_is_picked_answers_new_conversations_too(store: Store, folders: Folders) -> None:
    async with started(Switching(ScriptedCore(store), folders)) as (app, pilot):
        await app.run_action("app.models('talker streams')")
        await wait_until(pilot, lambda: shows(app, ModelsScreen))
        await wait_until(pilot, lambda: app.options == ["mine", "  talker  streams only"])
        await press(pilot, "enter", until=lambda: app.screen is app.chat)
        remotes = Remotes(folders)
        assert (remotes.used, remotes.get("mine").model) == ("mine", "talker")
        assert app.chat.conversation.choices == Choices(remote="mine", model="talker")
        begun = app.chat.conversation.begin("a question")
        assert store.conversations.get(begun).choices == Choices(remote="mine", model="talker")
        await app.chat.open_conversation(None)
        assert app.switcher is not None and app.switcher.default == ("mine", "talker")
    again = RemoteSwitcher(Settings(), folders, ScriptedCore(store))
    assert again.default == ("mine", "talker"), "after a restart, too"


async def test_each_answer_names_its_model_and_nothing_is_claimed_of_a_server_that_streams(store: Store) -> None:
    mode = ModeChanged("hosted", "answered by talker at mine", model="talker", checks=False)
    done = Done(False, "end", (), (), Stats(streamed=2, counted=True, seconds=1.0), model="talker")
    old = store.conversations.create("old").id
    answer = store.messages.ask(old, "q", parent_id=None)
    store.messages.finish(answer.id, (), (), "a", "done", {"model": "bad\x1b[2J llama", "streamed": 1})
    async with started(ScriptedCore(store, [[Verified("Paris.", 2, 0), done]], mode), (140, 40)) as (app, pilot):
        await press(pilot, "f3", "q", "enter", until=lambda: app.text("AnswerView > .model") == "talker")
        assert not app.screen.query_one(AnswerView).turn.note
        shown = " ".join(app.text(part) for part in ("#badge", "#model", "#figures", "#why", "Panel Static"))
        assert "talker" in shown and not any(word in shown for word in ("verified", "checked", "τ", "tau"))
        await app.turn_to(pilot, old, until=lambda: app.text("AnswerView > .model") == "bad llama")
