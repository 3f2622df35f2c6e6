"""How messages look that are acted on; `pytest … --snapshot-update` after a change that is meant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot

from app.events import Verified
from app.tui.app import OutriderApp
from app.tui.screens.chat.screen import ChatScreen
from app.tui.widgets.message import AnswerView, QuestionView
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until

ANSWER = (
    "Use `tar` to **extract** a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "or, from a URL:\n\n```sh\ncurl -L {{url}} | tar xz\n```\n\n"
    "| option | meaning |\n|---|---|\n| `-x` | extract |\n| `-z` | through gzip |\n\n"
    "1. See the [manual](https://www.gnu.org/software/tar/manual/tar.html).\n2. Try `-t` first:\n   - it lists\n"
)
SHORT = "A tarball is unpacked by `tar xf {{file}}`, which finds out by itself how it was compressed."


def talk(store: Store) -> str:
    """Two wordings of the first question, three answers to the second, of which the last was drafted in part."""
    conversation = store.conversations.create("Unpack a .tar.gz file").id
    first = store.messages.ask(conversation, "Unpack a tar", parent_id=None)
    store.messages.finish(first.id, range(20), [True] * 20, SHORT, "done", {})
    asked = store.messages.ask(conversation, "Unpack a .tar.gz file", parent_id=None)
    store.messages.finish(asked.id, range(60), [True] * 60, ANSWER, "done", {})
    again = store.messages.ask(conversation, "And in one word?", parent_id=asked.id)
    store.messages.finish(again.id, range(9), [True] * 9, "`tar`", "done", {})
    for verified in (0, 8):
        beside = store.messages.add(conversation, "assistant", "", parent_id=again.parent_id, status="pending")
        store.messages.finish(beside.id, range(20), [at < verified for at in range(20)], SHORT, "stopped", {})
    return conversation


async def opened(pilot: Pilot[None], conversation: str) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    await screen.open_conversation(conversation)
    await wait_until(pilot, lambda: all(one.region.height for one in screen.query("QuestionView, AnswerView")))
    return screen


@pytest.mark.parametrize(("width", "light"), [(60, False), (100, False), (100, True)])
def test_a_question_with_the_cursor(store: Store, snap_compare: Any, width: int, light: bool) -> None:
    conversation = talk(store)

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press(*["f2"] * light)
        screen = await opened(pilot, conversation)
        await pilot.press("alt+up", "alt+up", "alt+up", "alt+up")
        await wait_until(pilot, lambda: screen.query(QuestionView).first().has_class("-cursor"))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(width, 44), run_before=play)


@pytest.mark.parametrize("light", [False, True])
def test_what_nobody_verified_is_shaded(store: Store, snap_compare: Any, light: bool) -> None:
    conversation = talk(store)

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press(*["f2"] * light)
        screen = await opened(pilot, conversation)
        await pilot.press("alt+up", "p")
        await wait_until(pilot, lambda: bool(screen.query(AnswerView).last().prose.shaded))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(100, 44), run_before=play)


def test_a_deleted_answer_can_be_brought_back(store: Store, snap_compare: Any) -> None:
    conversation = talk(store)

    async def play(pilot: Pilot[None]) -> None:
        screen = await opened(pilot, conversation)
        await pilot.press("alt+up", "d")
        await wait_until(pilot, lambda: screen.query(AnswerView).last().turn.versions == (2, 2))
        await wait_until(pilot, lambda: screen.query(AnswerView).last().has_class("-cursor"))
        await wait_until(pilot, lambda: bool(screen.query("Toast")))
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(100, 44), run_before=play)


def test_a_question_is_reworded(store: Store, snap_compare: Any) -> None:
    conversation = talk(store)

    async def play(pilot: Pilot[None]) -> None:
        screen = await opened(pilot, conversation)
        await pilot.press("alt+up", "e")
        await wait_until(pilot, lambda: screen.query_one("Prompt").has_focus)
        await pilot.pause()

    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(100, 44), run_before=play)


def test_an_answer_goes_on(store: Store, snap_compare: Any) -> None:
    conversation = talk(store)
    core = ScriptedCore(store, [[Verified(f"{SHORT} So does", 1, 0), asyncio.Event()]])

    async def play(pilot: Pilot[None]) -> None:
        screen = await opened(pilot, conversation)
        await pilot.press("alt+up", "g")
        await wait_until(pilot, lambda: screen.query(AnswerView).last().prose.source.endswith("So does"))
        await pilot.pause()

    assert snap_compare(OutriderApp(core), terminal_size=(100, 44), run_before=play)
