"""Work in the background that is cancelled before it begins leaves nothing that Python warns of."""

from __future__ import annotations

import gc
import warnings

from textual.app import App

from app.tui.background import begin


async def test_work_that_another_replaces_before_it_begins_was_never_made() -> None:
    done = []

    async def work() -> None:
        done.append(1)

    app: App[None] = App()
    async with app.run_test() as pilot:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            begin(app, work, group="some", exclusive=True)
            begin(app, work, group="some", exclusive=True)
            await app.workers.wait_for_complete([worker for worker in app.workers if not worker.is_cancelled])
            await pilot.pause()
            gc.collect()
    assert done == [1] and not [str(one.message) for one in told if "never awaited" in str(one.message)]
