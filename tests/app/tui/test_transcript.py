from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from app.events import Drafted, Retracted, Verified
from app.tui.turn import Turn
from app.tui.widgets.markdown_view import WAITING
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.virtual_list import MoreTurns
from tests.app.tui.scripted import finished, wait_until
from tests.app.tui.window import started


def answered(count: int, lines: int = 4) -> list[Turn]:
    turns = [Turn(f"question {number}", outcome="done") for number in range(count)]
    for turn in turns:
        turn.reply.solid = "\n\n".join(f"line {line}" for line in range(lines))
    return turns


class Host(App[None]):
    CSS = "MoreTurns { height: 1; } QuestionView, AnswerView, MarkdownView { height: auto; }"

    def compose(self) -> ComposeResult:
        yield Transcript()

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def questions(self) -> list[str]:
        return [str(question.content) for question in self.query(QuestionView)]

    @property
    def settled(self) -> bool:
        return self.transcript.turn_list.settled

    @property
    def in_view(self) -> list[tuple[str, int]]:
        """The questions on the screen, and their first row."""
        rows = ((str(question.content), question.region.y) for question in self.query(QuestionView))
        return [(text, y) for text, y in rows if 0 <= y < 24]

    async def places(self, pilot: Pilot[None], question: str) -> list[int]:
        """The lines of the screen on which the question is after the next frame."""
        await pilot.pause()
        return [one.region.y for one in self.query(QuestionView) if str(one.content) == question]

    @property
    def at_end(self) -> bool:
        return 0 < self.transcript.max_scroll_y <= self.transcript.scroll_y


async def test_only_what_is_near_the_view_is_mounted_and_a_click_on_the_line_loads_more() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await app.transcript.show(answered(60))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        mounted = app.questions
        assert mounted[-1] == "question 59" and 8 <= len(mounted) <= 20
        app.transcript.scroll_home()
        await wait_until(pilot, lambda: app.questions[0] == "question 0" and app.settled)
        assert app.transcript.scroll_y == 0 and len(app.questions) <= 20
        assert not app.transcript.turn_list.older.display and app.transcript.turn_list.newer.display
        for _ in range(8):
            before = app.in_view
            app.transcript.scroll_page_down()
            await wait_until(pilot, lambda: app.in_view != before and app.settled)  # noqa: B023
        assert "question 0" not in app.questions and len(app.questions) <= 26
        app.transcript.scroll_end()
        await wait_until(pilot, lambda: app.at_end and app.settled and app.questions[-1] == "question 59")
        assert not app.transcript.turn_list.newer.display
        app.transcript.turn_list.older.post_message(MoreTurns.Wanted(older=True))
        await wait_until(pilot, lambda: app.questions[0] == "question 0" and app.transcript.scroll_y == 0)
        app.transcript.turn_list.newer.post_message(MoreTurns.Wanted(older=False))
        await wait_until(pilot, lambda: app.questions[-1] == "question 59" and app.at_end)


async def test_the_line_that_is_read_stays_while_turns_come_and_go_above_it() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await app.transcript.show(answered(60))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        seen = []
        while app.questions[0] != "question 0":
            app.transcript.scroll_relative(y=-19, immediate=True)
            await app.transcript.turn_list.laid_out()  # Before that, places are those of the frame before.
            (question, y), *_ = app.in_view
            frames = [place for _ in range(5) for place in await app.places(pilot, question)]
            await wait_until(pilot, lambda: app.settled)
            assert set(frames) == {y}, f"{question} moved"
            seen.append(question)
        assert len(seen) > 10


async def test_the_line_that_is_read_stays_while_an_answer_grows_above_and_below_it() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        turns = answered(12)
        await app.transcript.show(turns)
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.scroll_relative(y=-30, immediate=True)
        await wait_until(pilot, lambda: app.settled)
        (question, y), *_ = app.in_view
        at = next(at for at, turn in enumerate(turns) if turn.question == question)
        for place in (at - 2, at + 1):
            new = Turn(turns[place].question)
            await app.transcript.replace(turns[place], new)
            answer = next(answer for answer in app.query(AnswerView) if answer.turn is new)
            for ghost in ("one\n\ntwo\n\n" * 9, "", "three\n\n" * 20):
                new.apply(Retracted(0))
                new.apply(Drafted(ghost, 3))
                await wait_until(pilot, lambda: answer.prose.source == (ghost or WAITING))  # noqa: B023
                assert await app.places(pilot, question) == [y]


async def test_follows_the_end_unless_the_person_scrolled_up() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await app.transcript.show(answered(4))
        turn = Turn("now")
        await app.transcript.add(turn)
        for number in range(30):
            turn.apply(Verified(f"line {number}\n\n", 2, 0))
        await wait_until(pilot, lambda: app.at_end and app.transcript.max_scroll_y > 60)
        app.transcript.scroll_relative(y=-20, animate=False)
        await wait_until(pilot, lambda: not app.at_end)
        stays, before = app.transcript.scroll_y, app.transcript.max_scroll_y
        for number in range(30):
            turn.apply(Verified(f"more {number}\n\n", 2, 0))
        await wait_until(pilot, lambda: app.transcript.max_scroll_y > before + 50)
        assert app.transcript.scroll_y == stays, "nothing above the view has changed"
        app.transcript.scroll_end(animate=False)
        await wait_until(pilot, lambda: app.at_end)
        turn.apply(Verified("last\n\n" * 9, 2, 0))
        turn.apply(finished(2))
        await wait_until(pilot, lambda: "last" in app.query(AnswerView).last().prose.plain)
        await wait_until(pilot, lambda: app.at_end)


async def test_a_session_starts_at_the_top_and_lets_go_of_what_is_far_above_once_it_is_long() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await app.transcript.show(answered(1, lines=2))
        await wait_until(pilot, lambda: bool(app.questions))
        await pilot.pause()
        assert app.query_one(QuestionView).region.y <= 2
        for turn in answered(40):
            await app.transcript.add(turn)
        await wait_until(pilot, lambda: app.settled and app.at_end)
        assert len(app.questions) <= 26 and app.questions[-1] == "question 39"
        assert len(app.transcript.turns) == 41
        assert app.transcript.turn_list.older.display


async def test_the_line_that_is_read_stays_while_the_window_changes_its_width() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        (turn,) = turns = answered(1)
        turn.reply.solid = "\n\n".join(f"{number}: " + "some words " * (5 + number % 30) for number in range(60))
        await app.transcript.show(turns)
        await wait_until(pilot, lambda: app.at_end and app.settled)
        prose = app.query_one(AnswerView).prose
        app.transcript.scroll_relative(y=-90, immediate=True)
        await wait_until(pilot, lambda: not app.at_end and app.settled)

        def first() -> str:
            rows = (prose.render_line(row).text.strip() for row in range(-prose.region.y, prose.size.height))
            return next(row for row in rows if row)

        while not first()[0].isdigit():
            app.transcript.scroll_relative(y=1, immediate=True)
            await pilot.pause()
        reading = first().partition(":")[0]
        for width in (40, 100, 61, 80):
            await pilot.resize_terminal(width, 24)
            await wait_until(pilot, lambda: prose.size.width == width - 2 and app.settled)  # noqa: B023
            await pilot.pause()
            assert first().partition(":")[0] == reading


GAPS = [0, 1, 50]
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


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_each_press_moves_by_a_page(size: tuple[int, int]) -> None:
    app = Host()
    async with app.run_test(size=size) as pilot:
        await app.transcript.show(a_long_answer_and_a_short_one(size[1]))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.focus()
        await pilot.pause()
        for gap in GAPS:
            reader = Reader(app, pilot, gap)
            await reader.press("pageup", 3)
            await reader.press("pagedown", 2)
            await reader.press("home")
            await reader.press("pagedown", 2)
            await reader.wheel(3)
            await reader.wheel(-5)
            await reader.press("end")
            await reader.press("pageup", 6)
            assert app.transcript.scroll_y == 0, gap
            await reader.press("pagedown", 7)
            assert app.at_end, gap


@pytest.mark.parametrize("gap", GAPS)
async def test_each_press_moves_by_a_page_while_an_answer_arrives(gap: int) -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
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
