"""What is sent to a terminal makes it show each frame, and a line that scrolls in costs little more than itself."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver

from app.events import Event, Started, Verified
from app.tui.line_pace import LinePace
from app.tui.screens.chat.screen import ChatScreen
from app.tui.terminal import TerminalApp
from app.tui.terminal_cells import TerminalCells, cells
from app.tui.widgets.message import AnswerView
from storage import Attachment, Store
from tests.app.tui.scripted import ScriptedCore, finished, wait_until
from tests.app.tui.window import started

LINES, COLUMNS = 12, 20
SEQUENCE = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|\x1bM|\n|[^\x1b\n]")


class Emulated:
    """A terminal that knows the sequences a frame may have. New lines of a scroll show rubbish until they are written,
    because terminals do not agree on their colour."""

    def __init__(self) -> None:
        self.rows = [[("?", "?")] * COLUMNS for _ in range(LINES)]
        self._x = self._y = 0
        self._margins = (0, LINES - 1)
        self._style: dict[str, str] = {}

    def feed(self, sent: str) -> None:
        for found in SEQUENCE.finditer(sent):
            numbers, final = found.group(1), found.group(2)
            given = [int(number or 1) for number in (numbers or "").split(";")]
            match final:
                case "H":
                    self._y, self._x = given[0] - 1, given[-1] - 1
                case "G":
                    self._x = given[0] - 1
                case "r":
                    self._margins = (given[0] - 1, given[1] - 1) if numbers else (0, LINES - 1)
                    self._x = self._y = 0
                case "m":
                    self._set(numbers or "0")
                case None if found.group() in ("\n", "\x1bM"):
                    self._scroll(up=found.group() == "\n")
                case None:
                    self._write(found.group())
                case _:
                    raise AssertionError(found.group())

    def _set(self, codes: str) -> None:
        for code in codes.split(";"):
            if code == "0":
                self._style = {}
            elif code in ("39", "49"):
                self._style.pop(code[0], None)
            else:
                self._style[code[0] if code[0] in "34" and len(code) > 1 else code] = code

    def _scroll(self, *, up: bool) -> None:
        first, last = self._margins
        assert self._y == (last if up else first), "it would only move the cursor"
        fresh = [("?", "?")] * COLUMNS
        if up:
            self.rows[first : last + 1] = [*self.rows[first + 1 : last + 1], fresh]
        else:
            self.rows[first : last + 1] = [fresh, *self.rows[first:last]]

    def _write(self, char: str) -> None:
        style = self._style if char != " " else {name: code for name, code in self._style.items() if name in ("4", "7")}
        shown = " ".join(sorted(style.values()))
        wide = char == "字"
        self.rows[self._y][self._x] = (char, shown)
        if wide:
            self.rows[self._y][self._x + 1] = ("", shown)
        self._x += 1 + wide


STYLES = ("", "1", "31", "1;31;42", "7;31", "44")
TEXT = st.text("ab 字", max_size=8)
LINE = st.lists(st.tuples(TEXT, st.sampled_from(STYLES)), max_size=3)


def row(line: Sequence[tuple[str, str]]) -> list[Any]:
    made = [cell for text, codes in line for cell in cells(text, codes)][:COLUMNS]
    if made and made[-1][0] == "字":
        made.pop()
    return made + cells(" " * (COLUMNS - len(made)), "")


@settings(deadline=None)
@given(st.lists(LINE, min_size=LINES, max_size=40), st.lists(st.integers(-5, 5), max_size=6), st.integers(0, 8))
def test_a_terminal_shows_each_frame_whatever_scrolls(lines: list[Any], steps: list[int], beside: int) -> None:
    shown, direct = TerminalCells(), [row(line) for line in lines]
    emulated, at = Emulated(), 0
    left = cells("s" * beside, "31")
    for step in [0, *steps]:
        at = min(max(0, at + step), len(direct) - LINES)
        frame = [left + one[beside:] for one in direct[at : at + LINES]]
        frame = [one if one[beside][0] else [*one[:beside], *cells(" ", ""), *one[beside + 1 :]] for one in frame]
        emulated.feed(shown.frame([(0, y, one) for y, one in enumerate(frame)], LINES, COLUMNS))
        fresh = Emulated()
        fresh.feed(TerminalCells().frame([(0, y, one) for y, one in enumerate(frame)], LINES, COLUMNS))
        assert emulated.rows == fresh.rows
        assert "".join(text for line in fresh.rows for text, _ in line) == "".join(
            text for one in frame for text, _ in one
        )


def test_what_terminals_draw_in_different_widths_moves_nothing_behind_it() -> None:
    sent = TerminalCells().frame([(0, 0, cells("a👩‍🚀b🇩🇪c❤️d", ""))], 1, 20)
    assert sent == "\x1b[1;1Ha👩‍🚀\x1b[4Gb🇩🇪\x1b[7Gc❤️\x1b[10Gd"


class Counting(HeadlessDriver):
    """Takes what a terminal would. A driver that calls itself headless would get nothing."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.taken = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.taken += len(data.encode())


class Counted(TerminalApp):
    driver: Counting

    def _build_driver(self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None) -> Driver:
        self.driver = Counting(self, mouse=mouse, size=size)
        return self.driver


class LineByLine(ScriptedCore):
    """Answers with a line each time that `go` is set."""

    def __init__(self, store: Store, lines: int) -> None:
        super().__init__(store, [])
        self.go, self._lines = asyncio.Event(), lines

    async def reply(
        self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()
    ) -> AsyncIterator[Event]:
        answer = self.store.messages.ask(conversation_id, prompt, parent_id=None)
        yield Started(conversation_id, answer.id)
        for number in range(self._lines):
            await self.go.wait()
            self.go.clear()
            yield Verified(f"- the line of *number* {number} and `code` in it\n", 12, 0)
        yield finished(1)


MOST_OF_A_LINE = 400
"""Bytes; Textual's own frame has 3,000."""


async def test_over_ssh_a_line_that_scrolls_in_costs_little_more_than_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    core = LineByLine(store, 60)
    async with started(Counted(core, on_painted=lambda: None), (80, 24)) as (app, pilot):
        assert isinstance(app, Counted)
        chat = app.screen
        assert isinstance(chat, ChatScreen)
        await pilot.press(*"hi", "enter")
        await wait_until(pilot, lambda: chat.conversation.live is not None)

        async def lines(until: int) -> int:
            before = app.driver.taken
            for _ in range(until):
                turn = chat.conversation.turns[-1]
                length = len(turn.text)
                core.go.set()
                await wait_until(pilot, lambda: len(turn.text) > length)  # noqa: B023
                await wait_until(pilot, lambda: app.screen.query(AnswerView).last().drawn)
            await pilot.pause()
            return app.driver.taken - before

        await lines(40)
        assert await lines(15) < 15 * MOST_OF_A_LINE


def test_a_line_over_ssh_has_the_time_for_each_frame() -> None:
    sent = iter([0, 0, 10**9] * 2)
    for ssh in ({"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"}, {}):
        pace = LinePace(lambda: next(sent), ssh)
        pace.begin()
        assert pace.due
        assert pace.due == (not ssh)
