"""Several answers at once on the screen: each goes on, ends, and is stopped in its own conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from app.events import Failed, ModeChanged, RoundEnded, Verified
from app.tui.widgets.message import AnswerView
from storage import Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, press, wait_until
from tests.app.tui.window import started

WIDE = 120, 30


async def test_each_answer_has_its_own_escape_figures_and_end(store: Store) -> None:
    rest = [asyncio.Event() for _ in range(3)]
    stats = [replace(STATS, verified=100 + at) for at in range(3)]
    scripts: list[list[Step]] = [
        [
            ModeChanged("edge", f"written by server {at}"),
            Verified(f"begun {at}", 1, 0),
            RoundEnded(stats[at]),
            rest[at],
            Verified(" and ended", 2, 0),
            Failed("The line broke.", "unavailable") if at == 1 else finished(3, stats=stats[at]),
        ]
        for at in range(3)
    ]
    async with started(ScriptedCore(store, scripts), WIDE) as (app, pilot):
        opened = app.chat.conversation
        ids = list[str | None]()
        for key in "abc":
            await press(pilot, "ctrl+n", key, "enter", until=lambda: app.questions == [key] and app.drawing)  # noqa: B023
            ids.append(opened.id)
        await wait_until(pilot, lambda: {"… a", "… b", "▍ c"} <= set(app.titles))
        await wait_until(pilot, lambda: "102 tokens checked" in app.text("#figures"))
        await press(pilot, "escape", until=lambda: set(opened.replies) == set(ids[:2]) and not app.prompt.answering)
        await app.turn_to(pilot, str(ids[0]), until=lambda: app.questions == ["a"] and app.drawing)
        assert app.screen.query_one(AnswerView).turn.text == "begun 0"
        await wait_until(pilot, lambda: app.prompt.answering and "100 tokens checked" in app.text("#figures"))
        await wait_until(pilot, lambda: app.text("#why") in ("", "written by server 0"))
        rest[1].set()
        await wait_until(pilot, lambda: app.toasted("The line broke.") and "✗ b" in app.titles)
        await press(pilot, "ctrl+n", until=lambda: opened.id is None)
        await wait_until(pilot, lambda: not app.prompt.answering)
        rest[0].set()
        await wait_until(pilot, lambda: "● a" in app.titles and app.toasted("Answered a"))
        await app.turn_to(pilot, str(ids[0]), until=lambda: app.answers == ["begun 0 and ended"])
        await wait_until(pilot, lambda: {"▍ a", "✗ b", "  c"} <= set(app.titles))
        assert opened.replies == {} and set(opened.ended) == {ids[1]}


async def test_what_the_server_has_no_room_for_waits_in_its_own_conversation(store: Store) -> None:
    hold = asyncio.Event()
    core = ScriptedCore(store, [[Verified("one", 1, 0), hold, finished(1)], [Verified("two", 1, 0), finished(1)]])
    core.places = 1
    async with started(core, WIDE) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.drawing)
        await press(pilot, "ctrl+n", "b", "enter", until=lambda: app.waiting == ["b"] and app.prompt.text == "")
        assert "asked when another answer has ended" in app.text("QueuedPrompts > .note")
        await press(pilot, "ctrl+s", until=lambda: app.prompt.text == "b" and app.chat.conversation.id is None)
        await press(pilot, "enter", until=lambda: app.waiting == ["b"])
        (queued,) = store.queue.all()
        hold.set()
        await wait_until(pilot, lambda: app.chat.conversation.replies == {})
        core.outbox.returned.put_nowait(queued)
        await wait_until(pilot, lambda: app.answers == ["two"] and app.waiting == [])
        assert not store.queue.all() and app.questions == ["b"]
