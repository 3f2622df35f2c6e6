"""What is said of a line that is down: no round trip of before."""

from __future__ import annotations

import asyncio
import re

from app.events import ModeChanged, RoundEnded, RoundReport, Verified
from app.tui.widgets.status_bar import StatusBar
from storage import Store
from tests.app.tui.scripted import READY, STATS, ScriptedCore, Step, finished, wait_until
from tests.app.tui.window import Window

OFFLINE = ModeChanged("offline", "no answer from the server; trying again")
ROUND = RoundEnded(STATS, RoundReport(3, 9, 2.0, 3, None, 0.01, 0.02, 0.084))


async def test_a_line_that_is_down_has_no_round_trip(store: Store) -> None:
    lost = asyncio.Event()
    script: list[Step] = [Verified("begun", 1, 0), ROUND, lost, OFFLINE, RoundEnded(STATS), finished(3, 1)]
    core = ScriptedCore(store, [script, [Verified("again", 1, 0), ROUND, finished(1)]])
    app = Window(core)
    async with app.run_test(size=(140, 36)) as pilot:
        bar = app.screen.query_one(StatusBar)

        def panel() -> str:
            return app.text("Panel Static")

        await pilot.press("f3", "q", "enter")
        await wait_until(pilot, lambda: "84 ms now" in panel())
        lost.set()
        await wait_until(pilot, lambda: bar.has_class("-offline"))
        await wait_until(pilot, lambda: len(app.answers) == 1)
        assert re.search(r"down since \d\d:\d\d; 84 to 84 ms before", panel()) and "now" not in panel()
        core.modes.put_nowait(READY)
        await wait_until(pilot, lambda: bar.has_class("-edge"))
        await pilot.press("q", "enter")
        await wait_until(pilot, lambda: "84 ms now" in panel())
