"""The queue on a screen of its own, and the other screens that a key opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from app.events import ModeChanged
from app.tui.screens.log import LogScreen
from app.tui.screens.queue import QueueScreen, Rewording
from app.tui.widgets.queued_prompts import QueuedPrompts
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, shows, store_turns, wait_until
from tests.app.tui.window import Window

OFFLINE = ModeChanged("offline", "no route")


def listed(app: Window) -> list[str]:
    return [str(option.prompt).splitlines()[0] for option in app.screen.query_one(OptionList).options]


async def open_queue(app: Window, pilot: Pilot[None]) -> None:
    await pilot.press("f7")
    await wait_until(pilot, lambda: shows(app, QueueScreen))


async def test_what_waits_is_reworded_moved_and_taken_out(store: Store) -> None:
    conversation = store_turns(store, "old", [("q", "a")])
    for text in ("one", "two \x1b[2J", "three"):
        store.queue.add(conversation, text)
    app = Window(ScriptedCore(store, mode=OFFLINE))
    async with app.run_test(size=(100, 30)) as pilot:
        await app.chat.open_conversation(conversation)
        await open_queue(app, pilot)
        assert listed(app) == ["one", "two", "three"]
        await pilot.press("shift+down", "j", "j")
        assert listed(app) == ["two", "three", "one"]
        await pilot.press("k", "e", "ctrl+j", *"more", "enter")
        await wait_until(pilot, lambda: listed(app) == ["two", "one more", "three"])
        assert store.queue.all()[1].text == "one\nmore"
        await pilot.press("e", *" no", "escape")
        assert listed(app) == ["two", "one more", "three"] and not app.screen.query_one(Rewording).display
        await pilot.press("down", "d")
        await wait_until(pilot, lambda: listed(app) == ["two", "one more"])
        assert [queued.text for queued in store.queue.all()] == ["two \x1b[2J", "one\nmore"]
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is app.chat and app.waiting == ["two ", "one\nmore"])
        await pilot.press("up")
        assert app.prompt.text == "three", "what was taken out can be recalled"


async def test_a_text_whose_prompt_was_sent_meanwhile_is_not_lost(store: Store) -> None:
    queued = store.queue.add(store_turns(store, "old", [("q", "a")]), "one")
    app = Window(ScriptedCore(store, mode=OFFLINE))
    async with app.run_test(size=(100, 30)) as pilot:
        await open_queue(app, pilot)
        await pilot.press("e", *" more")
        store.queue.take(queued.id)
        await pilot.press("enter")
        await wait_until(pilot, lambda: listed(app) == ["Nothing waits."])
        assert any("nothing can change it" in toast.message for toast in app._notifications)
        await pilot.press("d", "j", "e", "enter", "escape")
        await wait_until(pilot, lambda: app.screen is app.chat)
        await pilot.press("up")
        assert app.prompt.text == "one more"


async def test_the_queue_opens_a_conversation_and_lists_verifications(store: Store) -> None:
    other = store_turns(store, "other", [("asked", "answered")])
    store.queue.add_verification(store.branches.thread(other)[-1].id)
    app = Window(ScriptedCore(store, mode=OFFLINE))
    async with app.run_test(size=(100, 30)) as pilot:
        await open_queue(app, pilot)
        (option,) = app.screen.query_one(OptionList).options
        assert str(option.prompt) == "asked\n  its answer is to be checked, in other"
        await pilot.press("e")
        assert any("no text to change" in toast.message for toast in app._notifications)
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.screen is app.chat and app.questions == ["asked"])


async def test_who_looks_at_the_queue_reads_on_where_they_were(store: Store) -> None:
    conversation = store_turns(store, "long", [(f"question {at}", "line\n\n" * 20) for at in range(4)])
    store.queue.add(conversation, "later")
    app = Window(ScriptedCore(store, mode=OFFLINE))
    async with app.run_test(size=(100, 30)) as pilot:
        await app.chat.open_conversation(conversation)
        transcript = app.screen.query_one(Transcript)
        await wait_until(pilot, lambda: 0 < transcript.max_scroll_y == transcript.scroll_y)
        await pilot.press("pageup", "pageup")
        await wait_until(pilot, lambda: transcript.scroll_y < transcript.max_scroll_y and transcript.turn_list.settled)
        place = transcript.scroll_y
        await open_queue(app, pilot)
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is app.chat and app.prompt.has_focus)
        await pilot.pause()
        assert transcript.scroll_y == place and app.waiting == ["later"]
        await open_queue(app, pilot)
        taken = store.queue.take(store.queue.all()[0].id)  # Another window has sent it.
        assert taken is not None
        store.messages.finish(taken.id, (1,), (True,), "sent", "done", {}, settles=taken.id)
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.waiting == [] and app.answers[-1:] == ["sent"])


async def test_a_click_on_what_waits_opens_the_queue_and_its_last_prompt_can_go(store: Store) -> None:
    app = Window(ScriptedCore(store, mode=OFFLINE))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"later", "ctrl+s")
        await wait_until(pilot, lambda: app.waiting == ["later"])
        await pilot.click(QueuedPrompts)
        await wait_until(pilot, lambda: shows(app, QueueScreen))
        await pilot.press("d", "escape")
        await wait_until(pilot, lambda: app.screen is app.chat and app.chat.conversation.id is None)
        assert store.conversations.all() == [] and store.queue.all() == []


@pytest.mark.parametrize(("key", "kind"), [("f8", LogScreen), ("f7", QueueScreen)])
async def test_keys_open_screens_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, kind: type
) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path))
    app = Window(ScriptedCore(store))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(key)
        await wait_until(pilot, lambda: shows(app, kind))
        await pilot.press(key)
        await pilot.pause()
        assert len(app.screen_stack) == 3
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.screen is app.chat and app.prompt.has_focus)
