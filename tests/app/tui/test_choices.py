"""What is chosen for one conversation: its system prompt and its sampling, on their screens and above the messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from app.config import Folders, Settings
from app.events import SystemUnread
from app.system_prompts import SystemPrompts
from app.tui.screens.confirm import Confirm
from app.tui.screens.sampling_form import SamplingForm
from app.tui.screens.system import SystemForm, SystemScreen
from app.tui.widgets.folding_text_area import FoldingTextArea
from app.tui.widgets.panel import Panel
from app.tui.widgets.system_line import SystemLine
from drafter.runtime import Drafter
from storage import Choices, Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, started
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import assistant

ANSWER = [*verified("ls -a"), finished(6)]


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemPrompts:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    library = SystemPrompts(Folders.locate())
    library.put("verse", "Answer in verse.\nRhyme.")
    library.put("tutor", "Explain step by step.")
    return library


def listed(app: Window) -> list[str]:
    return [str(option.prompt).strip() for option in app.screen.query_one(OptionList).options]


def line(app: Window) -> str:
    """The line above the messages; empty if it is hidden."""
    return app.text("SystemLine Static") if app.chat.query_one(SystemLine).display else ""


def chosen(store: Store) -> Choices:
    return store.conversations.all()[0].choices


async def opened(app: Window, pilot: Pilot[None], key: str, screen: type[object]) -> None:
    await press(pilot, key, until=lambda: shows(app, screen))


async def closed(app: Window, pilot: Pilot[None]) -> None:
    await wait_until(pilot, lambda: app.screen is app.screen_stack[1])


# ---- the system prompt -----------------------------------------------------------------------------------------------


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
        await pilot.press("down", "down", "enter")
        await closed(app, pilot)
        assert line(app) == "System prompt: verse · alt+u unfolds it · Answer in verse. Rhyme."
        assert not store.conversations.all(), "nothing is stored before the first question"
        await press(pilot, *"list files", "enter", until=lambda: app.answers == ["ls -a"])
        assert app.toasted("does not read system prompts")
        assert chosen(store) == Choices(system="Answer in verse.\nRhyme.", system_name="verse")
        await pilot.press("alt+u")
        assert line(app) == "System prompt: verse · alt+u folds it\nAnswer in verse.\nRhyme."
        await pilot.press("alt+u")
        assert "\n" not in line(app)
        await press(pilot, "ctrl+n", until=lambda: app.chat.conversation.id is None)
        assert line(app) == "" and app.chat.conversation.choices == Choices()


async def test_the_prompt_of_a_conversation_stays_when_the_library_changes(
    store: Store, prompts: SystemPrompts
) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    store.conversations.choose(conversation, Choices(system="Explain.", system_name="tutor", temperature=0.5))
    async with started(ScriptedCore(store), at=conversation) as (app, pilot):
        assert line(app).startswith("System prompt: tutor") and line(app).endswith("Explain.")
        await opened(app, pilot, "alt+s", SystemScreen)
        assert listed(app)[1] == "● tutor, an older text  Explain."
        await pilot.press("down", "enter")
        await closed(app, pilot)
        assert chosen(store) == Choices(system="Explain step by step.", system_name="tutor", temperature=0.5)
        await opened(app, pilot, "alt+s", SystemScreen)
        await pilot.press("home", "enter")
        await closed(app, pilot)
        assert chosen(store) == Choices(system="", temperature=0.5) and line(app) == ""


async def test_one_is_written_for_this_conversation_alone_and_the_library_is_changed(
    store: Store, prompts: SystemPrompts
) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    async with started(ScriptedCore(store), at=conversation) as (app, pilot):
        await opened(app, pilot, "alt+s", SystemScreen)
        await opened(app, pilot, "w", SystemForm)
        await press(pilot, "ctrl+s", until=lambda: "no text" in app.text("#problem"))
        await pilot.press(*"Be brief.", "ctrl+s")
        await closed(app, pilot)
        assert chosen(store) == Choices(system="Be brief.") and prompts.names() == ["tutor", "verse"]
        assert line(app) == "System prompt · alt+u unfolds it · Be brief."
        await opened(app, pilot, "alt+s", SystemScreen)
        assert listed(app)[1] == "● only here  Be brief."
        await opened(app, pilot, "a", SystemForm)
        assert app.screen.query_one(FoldingTextArea).text == "Be brief."
        await pilot.press(*"tutor", "ctrl+s")
        await wait_until(pilot, lambda: "there is a system prompt tutor already" in app.text("#problem"))
        app.screen.query_one(Input).value = "brief"
        await press(pilot, "ctrl+s", until=lambda: shows(app, SystemScreen))
        assert prompts.get("brief") == "Be brief."
        await pilot.press("escape")
        await closed(app, pilot)
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
        await pilot.press("escape")
        await closed(app, pilot)
        assert chosen(store).system == "Explain step by step."


async def test_the_action_takes_a_name_or_a_text(store: Store, prompts: SystemPrompts) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    async with started(ScriptedCore(store), at=conversation) as (app, pilot):
        for given, expected in (
            ("tutor", Choices(system="Explain step by step.", system_name="tutor")),
            ("Be brief, please.", Choices(system="Be brief, please.")),
            ("none", Choices(system="")),
        ):
            await app.run_action(f"system({given!r})", app.chat)
            await wait_until(pilot, lambda: chosen(store) == expected)  # noqa: B023
            assert app.screen is app.chat


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


async def test_a_default_is_shown_as_soon_as_it_is_known(
    drafter: Drafter, tmp_path: Path, prompts: SystemPrompts
) -> None:
    server = ChatServer([Script(["ls"])])
    async with (
        server.listening() as port,
        assistant(drafter, tmp_path / "o.db", f"http://127.0.0.1:{port}", prompts=prompts, system="verse") as core,
        started(core) as (app, pilot),
    ):
        await wait_until(pilot, lambda: app.text("#badge") == "online")
        await press(pilot, *"list files", "enter", until=lambda: app.answers == ["ls"])
        await wait_until(pilot, lambda: line(app).startswith("System prompt: verse"))
    assert server.asked[0]["messages"][0] == {"role": "system", "content": "Answer in verse.\nRhyme."}


# ---- sampling --------------------------------------------------------------------------------------------------------


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
        await pilot.press("ctrl+s")
        await closed(app, pilot)
        kept = Choices(system="Be brief.", temperature=0.9, seed=4294967295, max_tokens=64)
        assert chosen(store) == kept
        said = "temperature 0.9, seed 4294967295, max_tokens 64"
        assert app.toasted(said)
        await wait_until(pilot, lambda: said in app.text("Panel Static") and app.chat.query_one(Panel).display)
        await opened(app, pilot, "alt+p", SamplingForm)
        assert [field(app, name).value for name in ("temperature", "seed", "max_tokens")] == ["0.9", "4294967295", "64"]
        await pilot.press("ctrl+r", "ctrl+s")
        await closed(app, pilot)
        assert chosen(store) == Choices(system="Be brief.")
        await wait_until(pilot, lambda: "Sampling" not in app.text("Panel Static"))
