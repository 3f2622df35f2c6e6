"""The screen that shows the log: its end, what is added, and nothing that a terminal would obey."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Log

from app.tui.screens.log import LogScreen
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, wait_until
from tests.app.tui.window import Window, started


def lines(app: Window) -> list[str]:
    return [line for line in app.screen.query_one(Log).lines if line]


def write(path: Path, *lines: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


async def test_it_says_what_cannot_be_read_and_else_shows_the_end_and_follows(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "outrider.log"
    async with started(ScriptedCore(store), (120, 24)) as (app, pilot):
        await app.push_screen(LogScreen(tmp_path))  # A folder.
        await wait_until(pilot, lambda: "cannot be read" in app.text("#path"))
        await press(pilot, "escape", until=lambda: not isinstance(app.screen, LogScreen))
        await app.push_screen(LogScreen(path))
        await wait_until(pilot, lambda: str(path) in app.text("#path") and lines(app) == [])
        path.parent.mkdir()
        write(path, *(f"line {number}" for number in range(200)))
        await wait_until(pilot, lambda: len(lines(app)) == 200)
        await press(pilot, "y", until=lambda: app.clipboard == str(path))
        log = app.screen.query_one(Log)
        await wait_until(pilot, lambda: log.is_vertical_scroll_end)
        write(path, "and \x1b]0;title\x07one \u202emore")
        await wait_until(pilot, lambda: lines(app)[-1] == "and one more" and log.is_vertical_scroll_end)
        log.scroll_home(animate=False)
        await wait_until(pilot, lambda: log.scroll_y == 0)
        write(path, "unseen")
        await wait_until(pilot, lambda: lines(app)[-1] == "unseen")
        assert log.scroll_y == 0
