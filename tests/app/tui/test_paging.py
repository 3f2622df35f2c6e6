"""Paging through long answers: each press moves by a page, however fast they come and whatever arrives meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.pilot import Pilot

from app.events import Drafted, Verified
from app.tui.turn import Turn
from app.tui.widgets.message import AnswerView
from tests.app.tui.scripted import finished, wait_until
from tests.app.tui.test_transcript import Host, answered

SIZES = [(80, 24), (120, 36), (200, 50), (40, 12)]
GAPS = [0, 1, 5, 50]
"""Turns of the event loop between two presses: none, less than a frame, and several frames."""
LONG, SHORT = 3.5, 4
"""Screens of the first answer, paragraphs of the second."""


def a_long_answer_and_a_short_one(height: int) -> list[Turn]:
    turns = answered(2, SHORT)
    turns[0].reply.solid = "\n\n".join(f"line {line}" for line in range(int(LONG * height / 2)))
    return turns


class Reader:
    """Moves as a person does, and knows where each move should lead."""

    def __init__(self, app: Host, pilot: Pilot[None], gap: int) -> None:
        self.app, self.pilot, self.gap = app, pilot, gap
        self.y = app.transcript.scroll_y

    @property
    def page(self) -> int:
        return self.app.transcript.scrollable_content_region.height

    async def press(self, key: str, times: int = 1) -> None:
        most = self.app.transcript.max_scroll_y
        for _ in range(times):
            self.app.post_message(events.Key(key, None))
            for _ in range(self.gap):
                await asyncio.sleep(0)
            moves = {"pageup": self.y - self.page, "pagedown": self.y + self.page, "home": 0, "end": most}
            self.y = min(max(0, moves[key]), most)
        await self.arrive()

    async def arrive(self) -> None:
        await self.pilot.pause()  # Presses at either end move nothing, and are taken all the same.
        await wait_until(self.pilot, lambda: self.app.transcript.scroll_y == self.y and self.app.settled)

    async def wheel(self, notches: int) -> None:
        """Positive: down."""
        kind = events.MouseScrollDown if notches > 0 else events.MouseScrollUp
        least, most = 0, self.app.transcript.max_scroll_y
        for _ in range(abs(notches)):
            self.app.post_message(kind(None, 3, 3, 0, 0, 0, False, False, False, screen_x=3, screen_y=3))
            for _ in range(self.gap):
                await asyncio.sleep(0)
            step = self.app.scroll_sensitivity_y
            self.y = min(max(least, self.y + (step if notches > 0 else -step)), most)
        await self.arrive()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("gap", GAPS)
async def test_each_press_moves_by_a_page(size: tuple[int, int], gap: int) -> None:
    app = Host()
    async with app.run_test(size=size) as pilot:
        await app.transcript.show(a_long_answer_and_a_short_one(size[1]))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.focus()
        await pilot.pause()
        reader = Reader(app, pilot, gap)
        await reader.press("pageup", 3)
        await reader.press("pagedown", 2)
        await reader.press("home")
        await reader.press("pagedown", 2)
        await reader.wheel(3)
        await reader.wheel(-5)
        await reader.press("end")
        await reader.press("pageup", 6)
        assert app.transcript.scroll_y == 0
        await reader.press("pagedown", 7)
        assert app.at_end


@pytest.mark.parametrize("gap", GAPS)
async def test_each_press_moves_by_a_page_while_an_answer_arrives(gap: int) -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.show(a_long_answer_and_a_short_one(24))
        turn = Turn("now")
        await app.transcript.add(turn)
        turn.apply(Verified("begun\n\n" * 3, 1, 0))
        await wait_until(
            pilot, lambda: app.at_end and app.settled and "begun" in app.query(AnswerView).last().prose.plain
        )
        app.transcript.focus()
        await pilot.pause()
        reader = Reader(app, pilot, gap)
        for number in range(5):
            turn.apply(Verified(f"more {number}\n\n" * 4, 1, 0))
            turn.apply(Drafted(f"guess {number} ", 2))
            await reader.press("pageup")
            turn.apply(Verified(f"even more {number}\n\n" * 4, 1, 0))
            await wait_until(pilot, lambda: app.query(AnswerView).last().drawn)
            await pilot.pause()
            assert app.transcript.scroll_y == reader.y, "what arrives below moves nothing"
        turn.apply(finished(3))
        await wait_until(pilot, lambda: app.query(AnswerView).last().drawn)
        await reader.press("end")
        await wait_until(pilot, lambda: app.at_end)
