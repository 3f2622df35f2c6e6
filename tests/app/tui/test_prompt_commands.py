"""Commands in the prompt: each one is typed, done, and stored nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.pilot import Pilot

from app.reply.assistant import Assistant
from app.tui.palette import ActionCommands
from app.tui.screens.export import ExportScreen
from app.tui.screens.help import HelpScreen
from app.tui.screens.log import LogScreen
from app.tui.screens.queue import QueueScreen
from app.tui.theme import LIGHT
from app.tui.widgets.panel import Panel, Rounds
from app.tui.widgets.sidebar import SearchBox, TitleBox
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, started

ANSWER = "Use `tar`.\n\n```sh\ntar xf a.tar\n```"


class WithModels(Window):
    """An application with an action that takes a word."""

    def __init__(self, core: Assistant) -> None:
        super().__init__(core)
        self.chosen: list[str | None] = []

    def action_models(self, name: str | None = None) -> None:
        self.chosen.append(name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return True if action == "models" else super().check_action(action, parameters)

    def values_models(self) -> list[str]:
        return ["qwen3", "llama3"]


def words(app: Window) -> list[str]:
    return [command.word for command in app.chat.commands.offered()]


async def send(app: Window, pilot: Pilot[None], text: str, until: Callable[[], bool] = lambda: True) -> None:
    app.prompt.write(text)
    await pilot.press("enter")
    await pilot.pause()
    await wait_until(pilot, until)


async def opened(app: Window, pilot: Pilot[None], conversation: str) -> None:
    await app.turn_to(pilot, conversation, until=lambda: bool(app.answers))


def asked(store: Store) -> list[str]:
    return store.messages.asked(100)


async def test_commands_without_words_open_what_they_name(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await pilot.press("f4")  # Nothing here manages servers.
        assert app.screen is app.chat
        for text, screen in (("/log", LogScreen), ("/help", HelpScreen), ("/queue", QueueScreen)):
            await send(app, pilot, text)
            await wait_until(pilot, lambda: shows(app, screen))  # noqa: B023
            await press(pilot, "escape", until=lambda: app.screen is app.screen_stack[1])
        app.prompt.write("/panel")
        await press(pilot, "ctrl+s", until=lambda: app.screen.query_one(Panel).display and not app.prompt.text)
        assert not store.queue.all(), "a command is never queued"
        await pilot.press("up")
        assert app.prompt.text == "/panel"
        await press(pilot, "enter", until=lambda: not app.screen.query_one(Panel).display)
        await send(app, pilot, "/rounds", lambda: app.screen.query_one(Rounds).display)
        await send(app, pilot, "/search tar", lambda: app.screen.query_one(SearchBox).value == "tar")
        assert app.screen.query_one(SearchBox).has_focus
        app.prompt.focus()
        assert not asked(store) and not store.conversations.all() and not app.toasts
        await send(app, pilot, f"/theme {LIGHT.name}", lambda: app.theme == LIGHT.name)
        await send(app, pilot, "/theme pink", lambda: app.toasted("no theme 'pink'"))
        await send(app, pilot, "/theme", lambda: shows(app, CommandPalette))


async def test_the_open_conversation_is_copied_answered_again_named_pinned_left_and_deleted(store: Store) -> None:
    conversation = store_turns(store, "old", [("how?", ANSWER)])
    async with started(ScriptedCore(store, [[*verified("Another."), finished(3)]]), (120, 36)) as (app, pilot):
        await opened(app, pilot, conversation)
        await send(app, pilot, "/copy code", lambda: app.clipboard == "tar xf a.tar")
        await send(app, pilot, "/copy", lambda: app.clipboard == ANSWER)
        await send(app, pilot, "/copy that", lambda: app.toasted("/copy takes nothing"))
        assert app.prompt.text == "/copy that", "what was typed is there to be mended"
        await send(app, pilot, "/again", lambda: app.answers == ["Another."])
        await send(app, pilot, "/edit", lambda: app.prompt.text == "how?")
        assert asked(store) == ["how?"]
        await pilot.press("escape")
        await send(app, pilot, "/rename about [red]tar[/]")
        await wait_until(pilot, lambda: store.conversations.get(conversation).title == "about [red]tar[/]")
        await wait_until(pilot, lambda: app.text("#title") == "about [red]tar[/]")
        await send(app, pilot, "/rename", lambda: app.screen.query_one(TitleBox).has_focus)
        await pilot.press("escape")
        app.prompt.focus()
        for pinned in (True, False):
            await send(app, pilot, "/pin")
            await wait_until(pilot, lambda: store.conversations.get(conversation).pinned == pinned)  # noqa: B023
        await send(app, pilot, "/new", lambda: app.chat.conversation.id is None and not app.prompt.text)
        await send(app, pilot, "/delete", lambda: app.toasted("No conversation is open here yet."))
        assert app.prompt.text == "/delete" and store.conversations.all(), "nothing but the open one is ever meant"
        await opened(app, pilot, conversation)
        await send(app, pilot, "/delete", lambda: not store.conversations.all())
        assert asked(store) == [] and store.bin.conversations()


async def test_commands_are_done_while_an_answer_runs(store: Store) -> None:
    held = asyncio.Event()
    async with started(ScriptedCore(store, [[*verified("Some text."), held]]), (80, 24)) as (app, pilot):
        await send(app, pilot, "how?", lambda: app.drawing)
        await send(app, pilot, "/rename while it runs")
        await wait_until(pilot, lambda: [one.title for one in store.conversations.all()] == ["while it runs"])
        await send(app, pilot, "/again", lambda: app.toasted("still running"))
        await send(app, pilot, "/stop", lambda: app.answers == ["Some text."])
        await send(app, pilot, "/stop", lambda: app.toasted("No answer is running."))
        assert asked(store) == ["how?"]


async def test_export_writes_where_it_is_told(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    app = Window(ScriptedCore(store))
    conversation = store_turns(store, "old", [("how?", ANSWER)])
    async with app.run_test() as pilot:
        await send(app, pilot, "/export md", lambda: app.toasted("No conversation is open here yet."))
        await opened(app, pilot, conversation)
        await send(app, pilot, "/export md")
        await wait_until(pilot, lambda: len(list((tmp_path / "home" / "exports").glob("old-*.md"))) == 1)
        await send(app, pilot, "/export '~/a page.html'")
        page = tmp_path / "a page.html"
        await wait_until(pilot, lambda: page.exists() and "tar xf" in page.read_text())
        before = page.read_bytes()
        await send(app, pilot, "/export json ~/a page.html", lambda: app.toasted("is there already"))
        assert page.read_bytes() == before and app.prompt.text == "/export json ~/a page.html"
        await send(app, pilot, "/export pdf", lambda: app.toasted("Write /export md FILE"))
        await send(app, pilot, "/export md ~/none/there/a.md", lambda: app.toasted("cannot be written"))
        await send(app, pilot, "/export", lambda: shows(app, ExportScreen))


async def test_what_another_part_provides_is_offered_only_where_it_is(store: Store) -> None:
    async with started(WithModels(ScriptedCore(store)), (100, 40)) as (app, pilot):
        assert "model" in words(app) and not {"servers", "nothing"} & set(words(app))
        await send(app, pilot, "/model llama 3")
        await send(app, pilot, "/models", lambda: app.chosen == ["llama 3", None])
        await press(pilot, *"/model ll", "tab", until=lambda: app.prompt.text == "/model llama3")
        await press(pilot, "enter", until=lambda: app.chosen[2:] == ["llama3"])
        await app.choose(pilot, "Models: choose")
        await wait_until(pilot, lambda: app.chosen[3:] == [None])
        helps = {command.title: command.help for command in ActionCommands(app.screen).commands()}
        assert helps["New conversation"] == "^n · /new" and helps["Models: choose who answers"] == "f5 · /model"


async def test_a_command_that_cannot_be_done_does_not_swallow_the_next(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        for failed in ("/theme nosuch", "/exportt"):
            app.clear_notifications()
            shown = app.screen.query_one(Panel).display
            await send(app, pilot, failed)
            await wait_until(pilot, lambda: bool(app.toasts) and app.prompt.text == failed)  # noqa: B023
            await pilot.press("ctrl+c")
            assert app.prompt.text == "", "it is cleared as any other text"
            await pilot.press("up")
            assert app.prompt.text == failed, "it can be corrected"
            await send(app, pilot, failed)
            await wait_until(pilot, lambda: app.prompt.selected_text == failed)  # noqa: B023
            await pilot.press(*"/panel", "enter")
            await wait_until(pilot, lambda: app.screen.query_one(Panel).display != shown)  # noqa: B023
            assert app.prompt.text == "" and not asked(store)


async def test_a_slash_of_its_own_is_sent_and_an_unknown_word_alone_is_not(store: Store) -> None:
    async with started(ScriptedCore(store, [[finished(1)]] * 4), (80, 24)) as (app, pilot):
        await send(app, pilot, "/model", lambda: app.toasted("There is no command /model"))
        assert app.prompt.text == "/model" and not asked(store)
        questions = ["/model llama3 says no", " /help", "//new", "/etc/hosts is missing"]
        for text in questions:
            await send(app, pilot, text, lambda: not app.prompt.text and app.chat.conversation.live is None)
        assert asked(store) == ["/model llama3 says no", "/help", "/new", "/etc/hosts is missing"]
