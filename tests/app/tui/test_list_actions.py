"""The list of conversations: by age, searched, named, pinned, deleted and brought back, exported."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from app.tui.screens.export import ExportScreen
from app.tui.widgets.conversation_list import FOUND, PAGE, ConversationList, marked_line
from app.tui.widgets.message import QuestionView
from app.tui.widgets.sidebar import SearchBox, Sidebar, TitleBox
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, started


def backdate(store: Store, conversation: str, days: int) -> None:
    then = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
    with store.database.write() as database:
        change = "UPDATE conversations SET updated = ?, written = written - ? WHERE id = ?"
        database.execute(change, (then, days * 86_400_000, conversation))


def lines(app: Window) -> list[str]:
    """The list, with the lines between."""
    return [str(option.prompt) for option in app.screen.query_one(ConversationList).options]


def conversations_of(app: Window) -> ConversationList:
    return app.screen.query_one(ConversationList)


async def highlight(app: Window, pilot: Pilot[None], title: str) -> None:
    """Puts the focus on a conversation of the list."""
    await wait_until(pilot, lambda: any(title in line for line in app.titles))
    conversations = conversations_of(app)
    conversations.focus()
    conversations.highlighted = next(at for at, line in enumerate(lines(app)) if title in line)
    await pilot.pause()


async def test_conversations_are_parted_by_age_and_pinned_ones_come_first(store: Store) -> None:
    for title, days in (("ancient", 400), ("last", 1), ("new", 0), ("kept", 300)):
        backdate(store, store_turns(store, title, [("q", "a")]), days)
    async with started(ScriptedCore(store), (120, 30)) as (app, pilot):
        by_age = "+ New conversation|Today|  new|Yesterday|  last|Older|  kept|  ancient"
        await wait_until(pilot, lambda: "|".join(lines(app)) == by_age)
        await highlight(app, pilot, "kept")
        pinned = "+ New conversation|Pinned|  kept|Today|  new|Yesterday|  last|Older|  ancient"
        await press(pilot, "p", until=lambda: "|".join(lines(app)) == pinned)
        assert conversations_of(app).chosen and conversations_of(app).chosen.title == "kept", "it stays highlighted"
        await press(pilot, "p", until=lambda: "|".join(lines(app)) == by_age)


async def test_a_conversation_is_renamed_in_place_where_one_can_see_it(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a"), ("r", "b")])
    store_turns(store, "other needle", [("q", "a")])
    title = lambda: store.conversations.get(conversation).title  # noqa: E731
    async with started(ScriptedCore(store), (120, 30), at=conversation) as (app, pilot):
        await highlight(app, pilot, "old")
        await pilot.press("r")
        name = app.screen.query_one(TitleBox)
        await wait_until(pilot, lambda: name.has_focus)
        conversations = conversations_of(app)
        assert name.region.y == conversations.region.y + (conversations.line_of(conversation) or 0)
        await pilot.press("end", *" name", "enter")
        await wait_until(pilot, lambda: "▍ old name" in app.titles and conversations.has_focus)
        assert title() == "old name" and app.text("#title") == "old name"
        await press(pilot, "r", *"no", "escape", until=lambda: conversations.has_focus and not name.display)
        assert title() == "old name"
        await press(pilot, "r", "end", "!", "tab", until=lambda: title() == "old name!")
        await pilot.resize_terminal(40, 30)
        await press(pilot, "ctrl+f", *"needle", until=lambda: len(app.titles) == 1)
        app.chat.leave_list()
        await app.choose(pilot, "rename the conversation")
        await wait_until(pilot, lambda: name.has_focus and name.region.height == 1 and name.value == "old name!")
        below = lambda: conversations.line_of(conversation) or 0  # noqa: E731
        await wait_until(pilot, lambda: name.region.y == conversations.region.y + below() > 3)
        await press(pilot, "end", *"!", "enter", until=lambda: title() == "old name!!")
        assert app.screen.query_one(SearchBox).value == ""


async def test_a_deleted_conversation_comes_back_and_the_answer_in_it_is_stopped(store: Store) -> None:
    first, second = (store_turns(store, title, [(title, "a")]) for title in ("first", "second"))
    async with started(ScriptedCore(store, [[asyncio.Event()]]), (120, 30), at=first) as (app, pilot):
        for title in ("first", "second"):
            await highlight(app, pilot, title)
            await press(pilot, "d", until=lambda: all(title not in line for line in app.titles))  # noqa: B023
        assert store.conversations.all() == [] and app.chat.conversation.id is None
        await wait_until(pilot, lambda: app.toasted("Press u in the list to bring it back"))
        await press(pilot, "u", until=lambda: app.chat.conversation.id == second)
        await press(pilot, "u", until=lambda: app.chat.conversation.id == first and app.questions == ["first"])
        assert {one.id for one in store.conversations.all()} == {first, second}
        await press(pilot, "u", until=lambda: app.toasted("Nothing has been deleted"))
        app.prompt.focus()
        await press(pilot, "ctrl+n", *"running", "enter", until=lambda: app.prompt.answering)
        await highlight(app, pilot, "running")
        running = app.chat.conversation.id
        await press(pilot, "d", until=lambda: len(store.conversations.all()) == 2)
        assert app.chat.conversation.replies == {}
        await press(pilot, "u", until=lambda: app.chat.conversation.id == running and app.questions == ["running"])
        assert [one.status for one in store.branches.thread(str(running))] == ["done", "stopped"]


async def test_search_finds_as_one_types_and_opens_where_the_words_are(store: Store) -> None:
    turns = [(f"question {number}", f"answer {number}\n\n" * 9) for number in range(30)]
    turns[3] = ("where is the needle?", "in the haystack")
    long = store_turns(store, "long", turns)
    store_turns(store, "evil \x1b]0;t\x07needle", [("q", "a")])
    unchecked = store.messages.ask(store.conversations.create("neither").id, "q", parent_id=None)
    here: Any = {"at": 0, "writer": "qwen2.5-coder-0.5b-instruct", "here": True}
    store.messages.finish(unchecked.id, (), (), "a pin", "done", {"stretches": [here]})
    async with started(ScriptedCore(store), (60, 30)) as (app, pilot):
        box = app.screen.query_one(SearchBox)
        for width in (60, 120):
            await pilot.resize_terminal(width, 30)
            await app.chat.open_conversation(None)
            await press(pilot, "ctrl+f", until=lambda: box.has_focus and app.screen.query_one(Sidebar).display)
            await press(pilot, *"need", until=lambda: len(app.titles) == 2)
            first, second = sorted(app.titles)
            assert first.startswith("  evil needle\n")
            assert second.startswith("  long\n") and "…is the needle?" in second
            await press(pilot, *"le hay", until=lambda: lines(app) == ["Nothing found"])
            await press(pilot, *["backspace"] * 4, until=lambda: len(app.titles) == 2)
            await pilot.press("down", "up", "enter")
            await wait_until(pilot, lambda: app.chat.conversation.id == long and app.prompt.has_focus)
            await wait_until(pilot, lambda: turns[3][0] in app.questions)
            await wait_until(pilot, lambda: box.value == "" and len(app.titles) == 4)
            question = next(one for one in app.screen.query(QuestionView) if str(one.content) == turns[3][0])
            top = app.screen.query_one(Transcript).region.y
            await wait_until(pilot, lambda: top <= question.region.y <= top + 3)  # noqa: B023
            assert app.screen.query_one(Sidebar).display == (width == 120)
        await pilot.press("ctrl+f", *"pin")
        await wait_until(pilot, lambda: "not checked, by qwen2.5" in app.titles[0] and len(app.titles) == 1)


async def test_what_was_found_is_pinned_unpinned_and_renamed(store: Store) -> None:
    for title in ("one needle", "another needle"):
        store_turns(store, title, [("q", "a")])
    async with started(ScriptedCore(store), (120, 30)) as (app, pilot):
        await press(pilot, "ctrl+f", *"needle", until=lambda: len(app.titles) == 2)
        second, found = app.titles[1].split("\n")[0].strip(), conversations_of(app)
        await highlight(app, pilot, second)
        for pinned in (True, False):
            await press(pilot, "p", until=lambda: found.chosen is not None and found.chosen.pinned == pinned)  # noqa: B023
            assert found.chosen is not None and found.chosen.title == second
        await press(pilot, "r", until=lambda: app.screen.query_one(TitleBox).has_focus)
        await press(pilot, "end", *"s", "enter", until=lambda: f"{second}s" in app.titles[1])


async def test_enter_before_anything_is_found_opens_the_first_of_it_and_its_words_come_back(store: Store) -> None:
    conversation = store_turns(store, "a needle", [("q", "a")])
    store_turns(store, "neither", [("q", "a")])
    async with started(ScriptedCore(store), (120, 24)) as (app, pilot):
        box = app.screen.query_one(SearchBox)
        await wait_until(pilot, lambda: len(app.titles) == 3)
        for key, character in (("ctrl+f", None), *((letter, letter) for letter in "needle"), ("enter", "\r")):
            app.post_message(events.Key(key, character))
        await wait_until(pilot, lambda: app.chat.conversation.id == conversation and app.prompt.has_focus)
        await wait_until(pilot, lambda: len(app.titles) == 3)
        await press(pilot, "ctrl+f", until=lambda: box.value == "needle" and len(app.titles) == 1)
        await press(pilot, *"neither", until=lambda: box.value == "neither" and "neither" in app.titles[0])
        await pilot.press("escape", "ctrl+f")
        assert box.value == "", "what was given up does not come back"
        await pilot.press("s")
        for key in ("enter", "x"):  # What is typed after it is another search.
            app.post_message(events.Key(key, "\r" if key == "enter" else key))
        await wait_until(pilot, lambda: box.value == "sx" and lines(app) == ["Nothing found"])
        assert box.has_focus
        await app.screen.query_one(ConversationList).remove()  # As when the window closes while it searches.
        for key in ("y", "enter"):
            app.post_message(events.Key(key, "\r" if key == "enter" else key))
        await wait_until(pilot, lambda: box.value == "sxy")
        await wait_until(pilot, lambda: not any(one.group == "search" for one in app.workers))


async def test_the_mouse_opens_and_the_wheel_lists_more(store: Store) -> None:
    with store.database.write() as database:
        for number in range(3 * PAGE):
            values = (f"c{number}", f"conversation {number}", f"2020-01-01T00:00:00.{number:03}+00:00")
            database.execute("INSERT INTO conversations (id, title, created, updated) VALUES (?, ?, ?3, ?3)", values)
    async with started(ScriptedCore(store), (120, 30)) as (app, pilot):
        conversations = conversations_of(app)
        await wait_until(pilot, lambda: len(app.titles) == 1 + PAGE)
        await pilot.click(ConversationList, offset=(5, 4))
        await wait_until(pilot, lambda: app.chat.conversation.id == f"c{3 * PAGE - 2}")
        conversations.scroll_end(animate=False)
        await wait_until(pilot, lambda: len(app.titles) == 1 + 2 * PAGE)
        conversations.focus()
        await press(pilot, "end", until=lambda: len(app.titles) == 1 + 3 * PAGE)
        assert conversations.chosen and conversations.chosen.id == "c0"
        store.conversations.rename("c0", "still the last one")
        app.chat.query_one(Sidebar).refresh_list()
        await wait_until(pilot, lambda: app.titles[-1] == "  still the last one")
        assert conversations.chosen and conversations.chosen.id == "c0", "it stays highlighted"


async def test_conversations_are_exported_or_the_person_told_why_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    _, one = (store_turns(store, title, [("question", "answer")]) for title in ("two", "one"))
    async with started(ScriptedCore(store), (120, 30)) as (app, pilot):
        for downs, suffix in ((0, "md"), (5, "json")):
            await highlight(app, pilot, "one")
            await press(pilot, "x", until=lambda: shows(app, ExportScreen))
            app.clear_notifications()
            await press(pilot, "home", *["down"] * downs, "enter", until=lambda: app.toasted("Exported"))
            (path,) = (tmp_path / "home" / "exports").glob(f"*.{suffix}")
            assert str(path) in app.toasts
            text = path.read_text()
            assert "one" in text and ("two" in text) == (suffix == "json")
        assert len(json.loads(text)["conversations"]) == 2
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "exports").write_text("in the way")
        monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "full"))
        await app.chat.open_conversation(one)
        app.prompt.focus()
        app.clear_notifications()
        await press(pilot, "f6", until=lambda: shows(app, ExportScreen))
        await press(pilot, "escape", until=lambda: app.screen is app.chat and app.prompt.has_focus)
        await press(pilot, "f6", until=lambda: shows(app, ExportScreen))
        await press(pilot, "enter", until=lambda: app.toasted("Export ") and app.toasted("exports"))


def asked_in_shell(store: Store, title: str) -> str:
    conversation = store_turns(store, title, [("q", "a")])
    store.conversations.set_origin(conversation, "ask")
    return conversation


async def test_what_was_asked_in_the_shell_is_one_line_until_it_goes_on(store: Store) -> None:
    asked = [asked_in_shell(store, f"asked {number}") for number in range(3)]
    store.conversations.pin(asked_in_shell(store, "pinned"), True)
    store_turns(store, "talk", [("q", "a")])
    async with started(ScriptedCore(store, [[*verified("Yes."), finished(1)]]), (120, 36)) as (app, pilot):
        folded = ["+ New conversation", "▸ Asked in the shell: 3", "  pinned", "  talk"]
        await wait_until(pilot, lambda: app.titles == folded)
        conversations = conversations_of(app)
        conversations.focus()
        conversations.highlighted = next(at for at, line in enumerate(lines(app)) if "Asked" in line)
        shown = [folded[0], "▾ Asked in the shell: 3", *(f"  asked {number}" for number in (2, 1, 0)), *folded[2:]]
        await press(pilot, "enter", until=lambda: app.titles == shown and lines(app)[-2:] == ["Today", "  talk"])
        await pilot.press("r")  # Nothing is renamed with the line itself.
        assert not app.screen.query_one(TitleBox).display
        await press(pilot, "enter", until=lambda: app.titles == folded)
        await app.turn_to(pilot, asked[0], until=lambda: "▍ Asked in the shell: 3" in app.titles)
        app.prompt.focus()
        await app.choose(pilot, "rename the conversation")
        await wait_until(pilot, lambda: app.screen.query_one(TitleBox).has_focus and "▍ asked 0" in app.titles)
        await pilot.press("escape", "slash", *"asked 0")
        await wait_until(pilot, lambda: any("asked 0" in title for title in app.titles) and len(app.titles) == 1)
        await press(pilot, "escape", until=lambda: len(app.titles) > 3)
        app.prompt.focus()
        await press(pilot, *"go on", "enter", until=lambda: any("in the shell: 2" in title for title in app.titles))
        assert "▍ asked 0" in app.titles
        assert store.conversations.get(asked[0]).choices.origin is None


def test_a_line_keeps_its_marks_and_nothing_that_could_harm() -> None:
    line = marked_line("a  \x1b[31mlong\nneedle  in it", ((10, 16),))
    assert "\x1b" not in line.plain and "  " not in line.plain and "\n" not in line.plain
    line = marked_line("so the needle, and the needle", ((7, 13), (23, 29)))
    assert [line.plain[span.start : span.end] for span in line.spans if span.style == FOUND] == ["needle", "needle"]


async def test_after_a_new_name_letters_are_typed_and_a_command_means_no_row_that_only_stayed_highlighted(
    store: Store,
) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    async with started(ScriptedCore(store), (120, 30), at=conversation) as (app, pilot):
        await highlight(app, pilot, "old")
        await press(pilot, "r", "end", "!", until=lambda: app.screen.query_one(TitleBox).value == "old!")
        await pilot.click("Prompt")
        await wait_until(pilot, lambda: "▍ old!" in app.titles)
        await press(pilot, "d", until=lambda: app.prompt.text == "d")
        await press(pilot, "ctrl+u", "ctrl+n", until=lambda: app.chat.conversation.id is None)
        await app.choose(pilot, "delete the conversation")
        await wait_until(pilot, lambda: app.toasted("Choose a conversation first"))
        assert len(store.conversations.all()) == 1
