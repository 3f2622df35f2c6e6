"""The screen that shows the log: its end, what is added, and nothing that a terminal would obey."""

from __future__ import annotations

from pathlib import Path

from textual.app import App
from textual.widgets import Log, Static

from app.tui.screens.log import LogScreen
from tests.app.tui.scripted import press, wait_until
from tests.app.tui.window import started


class Host(App[None]):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.copied = ""

    def on_mount(self) -> None:
        self.push_screen(LogScreen(self.path))

    def copy_to_clipboard(self, text: str) -> None:
        self.copied = text

    @property
    def lines(self) -> list[str]:
        return [line for line in self.screen.query_one(Log).lines if line]


def write(path: Path, *lines: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


async def test_it_shows_the_end_and_follows(tmp_path: Path) -> None:
    path = tmp_path / "outrider.log"
    write(path, *(f"line {number}" for number in range(200)))
    async with started(Host(path), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.lines) == 200)
        log = app.screen.query_one(Log)
        await wait_until(pilot, lambda: log.is_vertical_scroll_end)
        write(path, "and \x1b]0;title\x07one \u202emore")
        await wait_until(pilot, lambda: app.lines[-1] == "and one more")
        await wait_until(pilot, lambda: log.is_vertical_scroll_end)
        log.scroll_home(animate=False)
        await wait_until(pilot, lambda: log.scroll_y == 0)
        write(path, "unseen")
        await wait_until(pilot, lambda: app.lines[-1] == "unseen")
        assert log.scroll_y == 0


async def test_before_there_is_a_log_it_is_empty_and_says_where_it_will_be(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "outrider.log"
    async with started(Host(path), (120, 24)) as (app, pilot):
        await wait_until(pilot, lambda: str(path) in str(app.screen.query_one("#path", Static).content))
        assert app.lines == []
        path.parent.mkdir()
        write(path, "the first")
        await wait_until(pilot, lambda: app.lines == ["the first"])
        await press(pilot, "y", until=lambda: app.copied == str(path))
        await press(pilot, "escape", until=lambda: not isinstance(app.screen, LogScreen))


async def test_one_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    app = Host(tmp_path)  # A folder.
    async with app.run_test(size=(120, 24)) as pilot:
        await wait_until(pilot, lambda: "cannot be read" in str(app.screen.query_one("#path", Static).content))
