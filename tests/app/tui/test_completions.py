"""The list above the prompt: when it opens, what its keys do, and that typing never waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import OptionList

from app.tui.completion import completion_of_paths
from app.tui.widgets.completing_text_area import ROWS, Completions
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, wait_until
from tests.app.tui.window import Window, started


def listed(app: Window) -> list[str]:
    completions = app.screen.query_one(Completions)
    return [str(option.prompt).split()[0] for option in completions.options] if completions.display else []


async def test_it_never_covers_the_prompt(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        (tmp_path / f"name-{number}").touch()
    monkeypatch.chdir(tmp_path)
    async with started(ScriptedCore(store), (50, 12)) as (app, pilot):
        await press(pilot, "/", until=lambda: len(listed(app)) > ROWS)
        completions, prompt = app.screen.query_one(Completions), app.prompt
        for width, height in ((50, 12), (120, 36)):
            await pilot.resize_terminal(width, height)
            await wait_until(pilot, lambda: app.screen.size.height == height)  # noqa: B023
            await wait_until(pilot, lambda: completions.region.bottom == prompt.region.y)
            assert completions.region.y >= 0 and completions.region.height in range(1, ROWS + 1)
            assert app.prompt.region.bottom <= height and app.prompt.has_focus
        await pilot.resize_terminal(80, 24)
        app.prompt.write("line\n" * 15)
        await press(pilot, "@", "n", until=lambda: len(listed(app)) == 12)
        await wait_until(pilot, lambda: completions.region.bottom == app.prompt.region.y)
        assert completions.region.y >= 0, "a tall prompt"


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
        for text in ("how do I", "a/b", "/etc/hosts", " /n", "//n", "me@example.org"):
            seen: list[str] = []
            for letter in text:
                await pilot.press("space" if letter == " " else letter)
                await pilot.pause()
                seen += listed(app) if app.prompt.text not in ("/", "/e") else []
            assert app.prompt.text == text and not seen
            app.prompt.write("")
        for pasted in ("/new\nand more", "a\n/n", "/n", "a\n@"):
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


async def test_a_path_is_completed_only_where_one_asks_for_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "src").mkdir(parents=True)
    (tmp_path / "here" / "src" / "main.py").touch()
    (tmp_path / "here" / "[red]x").touch()
    monkeypatch.chdir(tmp_path / "here")
    async with started(ScriptedCore(store, [[finished(1)]]), (80, 24)) as (app, pilot):
        await press(pilot, *"see @", "tab", "tab", until=lambda: app.prompt.text == "see @src/main.py")
        await press(pilot, "ctrl+u", *"see @", until=lambda: listed(app) == ["src/", "[red]x"])
        await press(pilot, "enter", until=lambda: store.messages.asked(9) == ["see @"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes.md", "name.txt", "with space.md", "src/main.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(("text", "start"), [("@no", 1), ("see @no", 5), ("a\nb @no", 5), ("(@no", 2)])
def test_an_at_sign_begins_a_path_at_the_start_of_a_word(folder: Path, text: str, start: int) -> None:
    completion = completion_of_paths(folder)(text, len(text))
    assert completion is not None and (completion.start, completion.end) == (start, len(text))
    assert [one.text for one in completion.candidates] == ["notes.md"] and not completion.eager


def test_a_space_has_a_backslash_before_it(folder: Path) -> None:
    for text in ("@wi", "@with\\ sp"):
        completion = completion_of_paths(folder)(text, len(text))
        assert completion is not None and completion.start == 1
        assert [(one.text, one.label) for one in completion.candidates] == [("with\\ space.md", "with space.md")]


@pytest.mark.parametrize("text", ["", "no", "me@no", "@no ", "@a@no", "@no\n"])
def test_other_text_begins_none(folder: Path, text: str) -> None:
    assert completion_of_paths(folder)(text, len(text)) is None
