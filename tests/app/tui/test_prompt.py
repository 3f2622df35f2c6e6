"""The prompt: what is typed, pasted, recalled and completed, and the commands in it, which are stored nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.command import CommandPalette
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import OptionList

from app.sanitise import sanitise_paste
from app.tui import bracketed_paste
from app.tui.bracketed_paste import PasteParser
from app.tui.screens.export import ExportScreen
from app.tui.screens.help import HelpScreen
from app.tui.screens.log import LogScreen
from app.tui.screens.queue import QueueScreen
from app.tui.slash import COMMANDS, Question, TypedCommand, UnknownCommand, parse
from app.tui.theme import LIGHT
from app.tui.widgets.completing_text_area import Completions
from app.tui.widgets.panel import Panel, Rounds
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.sidebar import SearchBox, TitleBox
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, started


class Host(App[None]):
    """One prompt, and what it said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Message] = []
        self.helped = False

    @property
    def sent(self) -> list[str]:
        return [message.text for message in self.said if isinstance(message, Prompt.Submitted)]

    def action_show_help(self) -> None:
        self.helped = True

    def compose(self) -> ComposeResult:
        yield Prompt()

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.said.append(event)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        self.said.append(event)


async def test_enter_sends_and_never_nothing_and_a_new_line_does_not_send() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await press(pilot, "enter", "space", "enter", "l", "s", "enter", until=lambda: app.sent == ["ls"])
        app.query_one(Prompt).text = ""
        for key, character in (("a", "a"), ("ctrl+j", "\n"), ("b", "b"), ("enter", "\r")):  # In one burst.
            app.post_message(events.Key(key, character))
        await wait_until(pilot, lambda: app.sent == ["ls", "a\nb"])
        app.query_one(Prompt).text = ""
        await pilot.press("a", "shift+enter", "b", "ctrl+j", "c", "alt+enter", "d")
        assert app.query_one(Prompt).text == "a\nb\nc\nd" and app.sent == ["ls", "a\nb"]


PASTED = "\n".join(f"line {number}" for number in range(400))
MARK = "⟦pasted 400 lines⟧"


async def paste(app: Host, pilot: Pilot[None], text: str) -> None:
    before = app.query_one(Prompt).text
    app.query_one(Prompt).post_message(events.Paste(text))
    await wait_until(pilot, lambda: app.query_one(Prompt).text != before)


async def test_a_long_paste_is_folded_and_sent_whole_and_clean_and_a_short_one_stays_as_it_is() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        for text in ("short", "\n".join("twenty lines" for _ in range(20))):
            prompt.text = ""
            await paste(app, pilot, text)
            assert prompt.text == text
        prompt.text = ""
        await paste(app, pilot, MARK)
        await paste(app, pilot, f"{MARK}\n" * 30)
        assert prompt.full_text == MARK + f"{MARK}\n" * 30, "what looks like a mark is only text"
        prompt.text = ""
        await pilot.press(*"see ")
        await paste(app, pilot, PASTED.replace("\n", "\r\n") + "\x1b]52;c;aGk=\x07\x1b[2J")
        assert prompt.text == f"see {MARK}" and prompt.full_text == f"see {PASTED}"
        prompt.write(prompt.full_text)
        assert prompt.text == f"see {MARK}", "a path in it must not become a file by itself"
        await press(pilot, *"?", "enter", until=lambda: app.sent == [f"see {PASTED}?"])


async def test_a_mark_goes_and_comes_back_as_one_and_a_key_or_a_click_unfolds_it() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        await paste(app, pilot, PASTED)
        await paste(app, pilot, PASTED)
        second = "⟦pasted 400 lines · 2⟧"
        assert prompt.text == MARK + second
        for key in ("backspace", "ctrl+w"):
            await pilot.press(key)
            assert prompt.text == MARK, key
            await pilot.press("ctrl+z")
            assert prompt.full_text == PASTED + PASTED, key
            prompt.move_cursor(prompt.document.end)
        await pilot.press("left", "x")
        assert prompt.text == f"{MARK}x{second}"
        await pilot.press("left", "left", "delete")
        assert prompt.full_text == f"x{PASTED}"
        prompt.insert("y", (0, 5))
        prompt.delete((0, 0), (0, 7))
        assert prompt.full_text in ("y", "") and "⟦" not in prompt.text
        for how in ("key", "click"):
            prompt.text = ""
            await pilot.press(*"a ")
            await paste(app, pilot, PASTED)
            await pilot.press(*" b")
            if how == "key":
                await pilot.press("ctrl+o")
            else:
                await pilot.click(Prompt, offset=(8, 1))
            await wait_until(pilot, lambda: prompt.text == f"a {PASTED} b")
            await pilot.press("ctrl+o")
            assert prompt.text == f"a {PASTED} b"


async def test_up_and_down_recall_and_what_was_typed_comes_back() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        await press(pilot, "up", until=lambda: bool(app.said))
        assert isinstance(app.said[0], Prompt.Left), "there is nothing to recall"
        await press(pilot, "question_mark", until=lambda: app.helped and prompt.text == "")
        prompt.remember(["one", "two\nlines\x1b[2J"])
        for key, shown in zip(("up",) * 3 + ("down",) * 3, ("two\nlines", "one", "one", "two\nlines", "", "")):
            await pilot.press(key)
            assert prompt.text == shown
        await pilot.press("x", "question_mark", "ctrl+j", "y", "up")
        assert prompt.text == "x?\ny", "the cursor has a line to go up to"
        await pilot.press("up")
        assert prompt.text == "two\nlines"
        await pilot.press("down")
        assert prompt.text == "x?\ny"


async def test_a_recalled_prompt_that_was_changed_is_not_lost() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        prompt = app.query_one(Prompt)
        prompt.remember(["one"])
        await pilot.press("m", "y", "up", "!")
        for key, shown in (("up", "my"), ("up", "one"), ("down", "my"), ("down", "one!")):
            await pilot.press(key)
            assert prompt.text == shown


# ---- what a terminal sends around a paste, cut anywhere --------------------------------------------------------------

START, END = "\x1b[200~", "\x1b[201~"


def read(*pieces: str) -> list[Message]:
    parser = PasteParser()
    return [message for piece in pieces for message in parser.feed(piece)]


def told(messages: list[Message]) -> list[str]:
    """Keys by their names, pastes with their text in brackets."""
    keys = [message for message in messages if isinstance(message, events.Key | events.Paste)]
    assert len(keys) == len(messages)
    return [f"[{one.text}]" if isinstance(one, events.Paste) else one.key for one in keys]


def test_a_paste_whose_end_was_lost_is_ended_by_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bracketed_paste, "SILENT_SECONDS", -1.0)
    assert told(read(f"{START}half", "\x03", "a")) == ["[half]", "a"]


hostile = st.text(st.sampled_from("ab\r\x07\x1b[]200~1m\x00"), max_size=30).filter(
    lambda text: END not in f"{text}{END}"[:-1]
)


@given(st.lists(hostile, min_size=1, max_size=3), st.lists(st.integers(0, 120), max_size=6))
def test_reads_may_be_cut_anywhere(texts: list[str], cuts: list[int]) -> None:
    stream = "".join(f"k{START}{text}{END}\x1b[A\x07" for text in texts)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in zip(places, places[1:])]
    keys = [part for text in texts for part in ("k", f"[{sanitise_paste(text)}]", "up", "ctrl+g")]
    assert told(read(*pieces)) == keys


# ---- the list above the prompt: when it opens, what its keys do, and that typing never waits for it ------------------


def listed(app: Window) -> list[str]:
    completions = app.screen.query_one(Completions)
    return [str(option.prompt).split()[0] for option in completions.options] if completions.display else []


async def test_tab_takes_the_first_escape_closes_it_and_clicks_and_arrows_choose(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        for key in ("/", "r", "e", "n", "tab"):  # In one burst, they count in their order.
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await wait_until(pilot, lambda: app.prompt.text == "/rename ")
        await press(pilot, "ctrl+u", *"/re", until=lambda: listed(app) == ["/rename"])
        await press(pilot, "escape", until=lambda: not listed(app))
        await pilot.press("n")
        assert app.prompt.text == "/ren" and not listed(app), "it stays closed for this word"
        await press(pilot, "ctrl+u", *"/qu", until=lambda: listed(app) == ["/queue", "/quit"])
        completions = app.screen.query_one(Completions)
        await wait_until(pilot, lambda: completions.region.height == 2)
        await wait_until(pilot, lambda: completions.region.bottom == app.prompt.region.y)
        await pilot.click(Completions, offset=(3, 1))
        await wait_until(pilot, lambda: app.prompt.text == "/quit")
        assert app.prompt.has_focus
        await press(pilot, "ctrl+u", *"/re", "tab", until=lambda: app.prompt.text == "/rename ")
        await press(pilot, "ctrl+u", *"/qu", until=lambda: listed(app) == ["/queue", "/quit"])
        await press(pilot, "up", "up", "down", "enter", until=lambda: app.prompt.text == "/quit")
        assert not app._exit, "Enter has completed it, and no more"
        await press(pilot, "enter", until=lambda: app._exit)


async def test_ordinary_text_and_pastes_open_nothing(store: Store) -> None:
    async with started(ScriptedCore(store), (120, 36)) as (app, pilot):
        for text in ("a/b", "/etc/hosts", " /n", "//n", "me@example.org"):
            seen: list[str] = []
            for letter in text:
                await pilot.press("space" if letter == " " else letter)
                await pilot.pause()
                seen += listed(app) if app.prompt.text not in ("/", "/e") else []
            assert app.prompt.text == text and not seen
            app.prompt.write("")
        for pasted in ("/new\nand more", "/n", "a\n@"):
            app.prompt.post_message(events.Paste(pasted))
            await wait_until(pilot, lambda: app.prompt.text == pasted)  # noqa: B023
            await pilot.pause()
            assert not listed(app)
            app.prompt.write("")
        await pilot.press("a", "tab")  # Tab and Escape mean what they did where nothing is offered.
        await wait_until(pilot, lambda: not app.prompt.has_focus)
        app.prompt.focus()
        await pilot.press("escape")
        assert app.prompt.text == "a"
        await press(pilot, "backspace", "/", until=lambda: bool(listed(app)))
        await press(pilot, "ctrl+b", "ctrl+b", until=lambda: isinstance(app.focused, OptionList) and not listed(app))


async def test_paths_are_completed_where_asked(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "src").mkdir(parents=True)
    (tmp_path / "here" / "src" / "main.py").touch()
    (tmp_path / "here" / "[red]x").touch()
    monkeypatch.chdir(tmp_path / "here")
    async with started(ScriptedCore(store, [[finished(1)]]), (80, 24)) as (app, pilot):
        await press(pilot, *"see @", "tab", "tab", until=lambda: app.prompt.text == "see @src/main.py")
        await press(pilot, "ctrl+u", *"see @", until=lambda: listed(app) == ["src/", "[red]x"])
        await press(pilot, "enter", until=lambda: store.messages.asked(9) == ["see @"])


# ---- commands: each one is typed, done, and stored nowhere -----------------------------------------------------------


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
        for typed, tags in (("/tag Work,#tar", ("tar", "work")), ("/tag -tar", ("work",))):
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
    code = "    def f(self):\n        return 1"
    assert parse(f"\n \n{code}\n\n", COMMANDS) == Question(code), "the first line of pasted code keeps its indentation"
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
    typed = parse("/source code of ls, where is it?", COMMANDS)
    assert isinstance(typed, TypedCommand) and "begin it with a space" in typed.problem, "it takes nothing"


def test_an_unknown_word_offers_the_nearest_commands_and_sends_nothing() -> None:
    for text, near in (("/hlep", "help"), ("/expert", "export"), ("/Re", "rename"), ("/mode x", "model")):
        typed = parse(text, COMMANDS)
        assert isinstance(typed, UnknownCommand) and typed.near[0] == near
        assert f"no command {text.removesuffix(' x')}. Did you mean /{near}" in typed.problem
    far = parse("/xyzzy", COMMANDS)
    assert not far.near and far.problem and isinstance(parse("/tmp is full", COMMANDS), Question)


@given(st.text(max_size=40))
def test_no_letter_of_a_question_is_lost(text: str) -> None:
    typed = parse(text, COMMANDS)
    if isinstance(typed, Question):
        assert typed.text in (text.strip(), text[1:].strip())
        assert typed.text == text.strip() or text.startswith("//")
    else:
        assert text.startswith("/") and "\n" not in text.strip()
