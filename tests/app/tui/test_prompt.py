"""The prompt: what is typed, pasted, recalled and completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widgets import OptionList

from app.sanitise import sanitise_paste
from app.tui import bracketed_paste
from app.tui.bracketed_paste import PasteParser
from app.tui.widgets.completing_text_area import Completions
from app.tui.widgets.prompt import Prompt
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, wait_until
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
        prompt.text = ""
        prompt.remember(["one"])
        await pilot.press("m", "y", "up", "!")
        for key, shown in (("up", "my"), ("up", "one"), ("down", "my"), ("down", "one!")):
            await pilot.press(key)
            assert prompt.text == shown, "a recalled prompt that was changed is not lost"


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
