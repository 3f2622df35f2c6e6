"""How the screen looks; `pytest tests/app/tui/test_snapshots.py --snapshot-update` after a change that is meant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from textual.pilot import Pilot

from app.events import Drafted, Failed, ModeChanged, Verified
from app.tui.app import OutriderApp
from app.tui.screens.chat import ChatScreen
from app.tui.widgets.message import Answer
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.waiting import Waiting
from storage import Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, store_turns, verified, wait_until

ANSWER = (
    "Use `tar` to extract a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "Some **useful** options:\n\n- `-x` extracts, `-z` goes through gzip\n- `-C {{path/to/directory}}` elsewhere\n"
)
OFFLINE = ModeChanged("offline", "no answer from the verifier for 1.2 s; trying again")


def ask(*events: Step) -> Sequence[Step]:
    return events


async def type_question(pilot: Pilot[None], question: str) -> None:
    pilot.app.screen.query_one(Prompt).write(question)
    await pilot.press("enter")


def test_welcome(store: Store, snap_compare: Any) -> None:
    app = OutriderApp(ScriptedCore(store, mode=ModeChanged("warming", "starting the bundled verifier")))
    assert snap_compare(app, terminal_size=(100, 30))


@pytest.mark.parametrize("width", [60, 100, 130])
def test_ghost_text_after_solid_text(store: Store, snap_compare: Any, width: int) -> None:
    store_turns(store, "Find files larger than 1 GB", [("q", "a")])
    running = ask(*verified(ANSWER[:119]), Drafted(ANSWER[119:190], 20), STATS, asyncio.Event())
    app = OutriderApp(ScriptedCore(store, [running]))

    async def play(pilot: Pilot[None]) -> None:
        await type_question(pilot, "How do I unpack a .tar.gz file?")
        await wait_until(pilot, lambda: pilot.app.screen.query_one(Answer).turn.reply.ghost != "")
        await pilot.app.screen.query_one(Answer).flush()
        await pilot.pause()

    assert snap_compare(app, terminal_size=(width, 30), run_before=play)


def test_marked_answers_in_light(store: Store, snap_compare: Any) -> None:
    scripts = [
        ask(Verified("Use ", 1, 0), Drafted(ANSWER[4:85], 19), OFFLINE, finished(20, 19)),
        ask(Verified("Use `df -h` to", 5, 0), finished(5, stopped=True)),
        ask(Failed("The verifier speaks another version of the protocol; update Outrider.", "incompatible")),
    ]
    app = OutriderApp(ScriptedCore(store, scripts))

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("f2")
        for number, question in enumerate(("Unpack a .tar.gz file", "What is eating my disk?", "Make it executable")):
            await type_question(pilot, question)
            await wait_until(
                pilot,
                lambda: len([a for a in pilot.app.screen.query(Answer) if not a.turn.running]) == number + 1,  # noqa: B023
            )
        screen = pilot.app.screen
        assert isinstance(screen, ChatScreen)
        await wait_until(pilot, lambda: screen.query(Answer).last().has_class("-failed"))
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 30), run_before=play)


def test_what_waits_and_what_was_not_kept(store: Store, snap_compare: Any) -> None:
    question = "Unpack a .tar.gz file"
    conversation = store.create_conversation(question).id
    asked = store.add_message(conversation, "user", question, parent_id=None, status="done")
    drafted = store.add_message(conversation, "assistant", "", parent_id=asked.id, status="pending")
    text = "Use `tar`:\n\n```sh\ntar xf {{path/to/archive}}\n```\n"
    store.finish(drafted.id, range(40), [False] * 40, text, "done", {})
    verified_answer = store.add_beside(drafted.id)
    assert verified_answer is not None
    stats = {"verifies": drafted.id, "kept": 11, "of": 40}
    store.finish(verified_answer.id, range(60), [True] * 60, ANSWER, "done", stats, settles=drafted.id)
    app = OutriderApp(ScriptedCore(store, [ask(Drafted("Use `df -h`", 5), finished(5, 5))], mode=OFFLINE))

    async def play(pilot: Pilot[None]) -> None:
        screen = pilot.app.screen
        assert isinstance(screen, ChatScreen)
        await screen.open_conversation(conversation)
        await type_question(pilot, "What is eating my disk?")
        await wait_until(pilot, lambda: screen.query(Answer).last().has_class("-drafted"))
        await pilot.press("ctrl+t")
        screen.query_one(Prompt).write("And how do I empty the trash?")
        await pilot.press("ctrl+l")
        await wait_until(pilot, lambda: screen.query_one(Waiting).display)
        screen.query_one(Prompt).write("Make it")
        await pilot.pause()

    assert snap_compare(app, terminal_size=(100, 42), run_before=play)


def test_help(store: Store, snap_compare: Any) -> None:
    assert snap_compare(OutriderApp(ScriptedCore(store)), terminal_size=(100, 30), press=["f1"])
