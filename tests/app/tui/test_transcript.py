from __future__ import annotations

from textual.app import App, ComposeResult

from app.events import Verified
from app.tui.turn import Turn
from app.tui.widgets.message import Answer, Question
from app.tui.widgets.transcript import LIMIT, PAGE, Older, Transcript
from tests.app.tui.scripted import finished, wait_until


def answered(count: int, lines: int = 4) -> list[Turn]:
    turns = [Turn(f"question {number}", outcome="done") for number in range(count)]
    for turn in turns:
        turn.reply.solid = "\n\n".join(f"line {line}" for line in range(lines))
    return turns


class Host(App[None]):
    CSS = "Older { height: 1; } Question, Answer { height: auto; } Prose { height: auto; }"

    def compose(self) -> ComposeResult:
        yield Transcript()

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def questions(self) -> list[str]:
        return [str(question.content) for question in self.query(Question)]

    @property
    def at_end(self) -> bool:
        return 0 < self.transcript.max_scroll_y <= self.transcript.scroll_y


async def test_only_the_last_turns_are_mounted_and_older_ones_come_on_scrolling_up() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.show(answered(PAGE + 3))
        await wait_until(pilot, lambda: app.at_end)
        assert app.questions == [f"question {number}" for number in range(3, PAGE + 3)]
        assert app.query_one(Older).display
        app.transcript.scroll_home(animate=False)
        await wait_until(pilot, lambda: len(app.questions) == PAGE + 3)
        assert app.questions[0] == "question 0"
        await wait_until(pilot, lambda: not app.query_one(Older).display)
        oldest, reading = app.query(Answer).first(), app.query(Question)[3]
        await wait_until(pilot, lambda: oldest.region.height > 4)  # Its Markdown is laid out.
        await wait_until(pilot, lambda: abs(reading.region.y - app.transcript.region.y) <= 2)
        app.transcript.scroll_relative(y=-3, animate=False)
        await wait_until(pilot, lambda: 2 < reading.region.y - app.transcript.region.y <= 5)
        turn = Turn("now")
        await app.transcript.mount(Answer(turn))
        turn.apply(Verified("one line\n\nand another\n\n", 2, 0))
        await wait_until(pilot, lambda: app.query(Answer).last().region.height > 2)
        assert 2 < reading.region.y - app.transcript.region.y <= 5, "the person scrolled, and was taken back"


async def test_a_click_on_the_line_loads_older_turns() -> None:
    app = Host()
    async with app.run_test(size=(80, 60)) as pilot:
        await app.transcript.show(answered(PAGE + 1, lines=0))
        await wait_until(pilot, lambda: app.query_one(Older).region.height == 1)
        await pilot.click(Older)
        await wait_until(pilot, lambda: len(app.questions) == PAGE + 1)


async def test_a_short_conversation_starts_at_the_top() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.show(answered(1, lines=2))
        await wait_until(pilot, lambda: bool(app.questions))
        await pilot.pause()
        assert app.query_one(Question).region.y <= 2


async def test_follows_the_end_unless_the_person_scrolled_up() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
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
        assert app.transcript.scroll_y == stays
        app.transcript.scroll_end(animate=False)
        await wait_until(pilot, lambda: app.at_end)
        turn.apply(Verified("last\n\n" * 9, 2, 0))
        turn.apply(finished(2))
        before = app.transcript.max_scroll_y
        await wait_until(pilot, lambda: app.transcript.max_scroll_y > before)
        await wait_until(pilot, lambda: app.at_end)


async def test_a_long_session_is_pruned() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        for turn in answered(LIMIT + 2, lines=1):
            await app.transcript.add(turn)
        await wait_until(pilot, lambda: len(app.questions) < LIMIT)
        assert app.questions[-1] == f"question {LIMIT + 1}"
        assert len(app.transcript.turns) == LIMIT + 2
        assert app.query_one(Older).display
