"""Commands in the prompt: each one is typed, done, and stored nowhere."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.command import CommandPalette
from textual.pilot import Pilot

from app.tui.screens.export import ExportScreen
from app.tui.screens.help import HelpScreen
from app.tui.screens.log import LogScreen
from app.tui.screens.queue import QueueScreen
from app.tui.slash import COMMANDS, Question, TypedCommand, UnknownCommand, parse
from app.tui.theme import LIGHT
from app.tui.widgets.panel import Panel, Rounds
from app.tui.widgets.sidebar import SearchBox, TitleBox
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, started

ANSWER = "Use `tar`.\n\n```sh\ntar xf a.tar\n```"


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
            await send(app, pilot, text, lambda: shows(app, screen))  # noqa: B023
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
        await send(app, pilot, "/copy that", lambda: app.toasted("/copy takes no argument"))
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
            await send(app, pilot, "/pin", lambda: store.conversations.get(conversation).pinned == pinned)  # noqa: B023
        for typed, tags in (("/tag Work #tar", ("tar", "work")), ("/tag -tar", ("work",))):
            await send(app, pilot, typed, lambda: store.conversations.get(conversation).choices.tags == tags)  # noqa: B023
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
    conversation = store_turns(store, "old", [("how?", ANSWER)])
    async with started(ScriptedCore(store)) as (app, pilot):
        await send(app, pilot, "/export md", lambda: app.toasted("No conversation is open here yet."))
        await opened(app, pilot, conversation)
        await send(app, pilot, "/export md", lambda: len(list((tmp_path / "home" / "exports").glob("old-*.md"))) == 1)
        await send(app, pilot, "/export '~/a page.html'")
        page = tmp_path / "a page.html"
        await wait_until(pilot, lambda: page.exists() and "tar xf" in page.read_text())
        before = page.read_bytes()
        await send(app, pilot, "/export json ~/a page.html", lambda: app.toasted("exists already"))
        assert page.read_bytes() == before and app.prompt.text == "/export json ~/a page.html"
        await send(app, pilot, "/export pdf", lambda: app.toasted("Write /export md FILE"))
        await send(app, pilot, "/export md ~/none/there/a.md", lambda: app.toasted("cannot be written"))
        await send(app, pilot, "/export", lambda: shows(app, ExportScreen))


# ---- which prompts are commands: most of what begins with a slash and was pasted is none -----------------------------


def test_what_people_paste_is_a_question() -> None:
    for text in (
        "/etc/hosts is missing", "/bin/sh: 1: foo: not found", "/help?", "/* a comment in C */", "/",
        "// TODO: quit here", "／help", "```\n/help\n```", "/help\nand then more lines", "\n/help", " /help",
    ):  # fmt: skip
        assert parse(text, COMMANDS) == Question(text.strip())
    assert parse("//help", COMMANDS) == Question("/help"), "only the slash that was put before a command goes"


def test_a_command_and_what_follows_it() -> None:
    for text, word, argument in (
        ("/HELP", "help", ""),
        ("/help  \n", "help", ""),
        ("/model   org/name-7B  ", "model", "org/name-7B"),
        ("/rename /etc/hosts, and what is in it", "rename", "/etc/hosts, and what is in it"),
        ("/search\ttar -xzf", "search", "tar -xzf"),
        ("/export md ~/notes/a file.md", "export", "md ~/notes/a file.md"),
        ("/exit", "quit", ""),
    ):
        typed = parse(text, COMMANDS)
        assert isinstance(typed, TypedCommand)
        assert (typed.command.word, typed.argument, typed.problem) == (word, argument, "")


def test_a_command_that_takes_nothing_is_not_done_with_something_after_it() -> None:
    typed = parse("/source code of ls, where is it?", COMMANDS)
    assert isinstance(typed, TypedCommand) and "begin it with a space" in typed.problem


def test_an_unknown_word_alone_offers_the_nearest_commands_and_sends_nothing() -> None:
    for text, near in (("/hlep", "help"), ("/expert", "export"), ("/qui", "quit"), ("/Re", "rename")):
        typed = parse(text, COMMANDS)
        assert isinstance(typed, UnknownCommand) and typed.near[0] == near
        assert f"no command {text}. Did you mean /{near}" in typed.problem
    far = parse("/xyzzy", COMMANDS)
    assert isinstance(far, UnknownCommand) and not far.near and far.problem


@given(st.text(max_size=40))
def test_no_letter_of_a_question_is_lost(text: str) -> None:
    typed = parse(text, COMMANDS)
    if isinstance(typed, Question):
        assert typed.text in (text.strip(), text[1:].strip())
        assert typed.text == text.strip() or text.startswith("//")
    else:
        assert text.startswith("/") and "\n" not in text.strip()


@given(st.text(alphabet="/ahelpnwtc .\n", max_size=30))
def test_a_space_before_it_always_makes_a_question(text: str) -> None:
    assert parse(f" {text}", COMMANDS) == Question(text.strip())
