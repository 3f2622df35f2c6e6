"""Older messages on the screen: summed up on request, folded under one line, and there again when they are wanted."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from app.config import Settings
from app.prompts import SUM_UP
from app.tui.widgets.transcript import SummaryLine
from drafter.runtime import Drafter
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, store_turns, wait_until
from tests.app.tui.window import Window, started
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import assistant, until_connected

TURNS = [(f"question {number}", f"answer {number}") for number in range(1, 5)]
SHOWN = [answer for _, answer in TURNS]


async def send(app: Window, pilot: Pilot[None], text: str) -> None:
    app.prompt.write(text)
    await pilot.press("enter")


def line(app: Window) -> str:
    (line,) = app.screen.query(SummaryLine)
    return str(line.content) if line.display else ""


def said(app: Window) -> str:
    return app.text("AnswerView > .summary")


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_older_messages_fold_when_they_are_summed_up_and_come_back(
    size: tuple[int, int], drafter: Drafter, database: Path
) -> None:
    server = ChatServer([Script(["half"], cut=True), Script(["They asked ", "two \x1b[2Jthings."]), Script(["more"])])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}/v1", settings=Settings()) as core,
    ):
        here = store_turns(core.store, "long", TURNS)
        async with started(core, size, here) as (app, pilot):
            await until_connected(core)
            await wait_until(pilot, lambda: app.answers == SHOWN)
            await send(app, pilot, "/compact")
            await wait_until(pilot, lambda: app.toasted("Nothing was summed up") and app.answers == SHOWN)
            assert line(app) == "" and not app.chat.conversation.live
            await until_connected(core)
            await send(app, pilot, "/compact")
            await wait_until(pilot, lambda: app.answers == SHOWN[2:])
            assert line(app) == "▸ 4 messages are summed up for the model · /compact show"
            assert server.asked[1]["messages"][-1]["content"] == SUM_UP

            await send(app, pilot, "/compact show")
            await wait_until(pilot, lambda: app.answers == SHOWN and line(app).startswith("▾"))
            await wait_until(pilot, lambda: said(app).endswith("They asked two things."))
            app.screen.query_one(SummaryLine).post_message(SummaryLine.Clicked())
            await wait_until(pilot, lambda: app.answers == SHOWN[2:] and line(app).startswith("▸"))
            await send(app, pilot, "/compact")
            await wait_until(pilot, lambda: app.toasted("There is nothing to sum up yet"))
            await app.turn_to(pilot, None, until=lambda: not app.answers)
            await app.turn_to(pilot, here, until=lambda: app.answers == SHOWN[2:])
            old = core.store.branches.thread(here)[1].id
            await app.chat.open_conversation(here, old)  # As the search does.
            await wait_until(pilot, lambda: app.answers == SHOWN)

            await send(app, pilot, "/compact undo")
            await wait_until(pilot, lambda: line(app) == "" and app.answers == SHOWN and said(app) == "")
            await send(app, pilot, "/compact undo")
            await wait_until(pilot, lambda: app.toasted("Nothing is summed up here"))
            await send(app, pilot, "next")
            await wait_until(pilot, lambda: app.answers == [*SHOWN, "more"])
            assert len(server.asked[-1]["messages"]) == 9
            await send(app, pilot, "/compact")
            await wait_until(
                pilot, lambda: app.answers == [*SHOWN[3:], "more"] and line(app).startswith("▸ 6 messages")
            )


async def test_a_summary_of_another_window_is_shown(store: Store, database: Path) -> None:
    here = store_turns(store, "long", TURNS)
    async with started(ScriptedCore(store), (80, 24), here) as (app, pilot):
        await wait_until(pilot, lambda: app.answers == SHOWN)
        with Store.open(database) as other:
            pending = other.summaries.begin(other.branches.thread(here)[3], SUM_UP)
            other.messages.finish(pending.id, (), (), "Four.", "done", {"reason": "end"})
            await wait_until(pilot, lambda: app.answers == SHOWN[2:] and line(app).startswith("▸ 4 messages"))
            other.bin.delete_message(str(pending.parent_id))
        await wait_until(pilot, lambda: app.answers == SHOWN and line(app) == "")


async def test_a_question_that_is_edited_keeps_its_place_while_turns_above_it_fold(
    store: Store, database: Path
) -> None:
    here = store_turns(store, "long", TURNS)
    core = ScriptedCore(store)
    async with started(core, (80, 24), here) as (app, pilot):
        await wait_until(pilot, lambda: app.answers == SHOWN)
        conversation, last = app.chat.conversation, store.branches.thread(here)[-2].id
        reply = conversation.edit(3, last, "question 4, in other words")
        with Store.open(database) as other:
            pending = other.summaries.begin(other.branches.thread(here)[3], SUM_UP)
            other.messages.finish(pending.id, (), (), "Four.", "done", {"reason": "end"})
        await wait_until(pilot, lambda: app.answers == SHOWN[2:])
        conversation.start(reply)
        assert [turn.question for turn in conversation.turns] == ["question 3", "question 4, in other words"]


async def test_it_is_proposed_before_the_context_is_full(store: Store) -> None:
    here, short = store_turns(store, "long", TURNS), store_turns(store, "short", [("q" * 60, "a" * 40)])
    core = ScriptedCore(store)
    async with started(core, (80, 24)) as (app, pilot):
        app.chat._stranger = lambda mode: "talker"
        for limit, shown in ((1000, "ctx 1%"), (17, "ctx 82% /compact")):
            core.limit = limit
            await app.turn_to(pilot, None, until=lambda: app.text("#context") == "")
            await app.turn_to(pilot, here, until=lambda: app.text("#context") == shown)  # noqa: B023
        assert not app.toasts and not core.prompts, "it is never done, and not said twice"
        core.limit = 22
        await app.turn_to(pilot, short, until=lambda: app.text("#context") == "ctx 91%")
        assert app.toasted("nearly full") and not app.toasted("/compact")
        await press(pilot, "ctrl+n", until=lambda: app.text("#context") == "")
