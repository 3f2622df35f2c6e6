from __future__ import annotations

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from app.events import Drafted, Retracted, Verified
from app.tui.turn import Turn
from app.tui.widgets.markdown_view import WAITING
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import Transcript
from app.tui.widgets.virtual_list import MoreTurns
from tests.app.tui.scripted import finished, wait_until


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


async def test_only_what_is_near_the_view_is_mounted() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
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


async def test_the_line_that_is_read_stays_while_turns_come_and_go_above_it() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
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
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
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


async def test_a_click_on_the_line_loads_older_turns() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.show(answered(60))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.turn_list.older.post_message(MoreTurns.Wanted(older=True))
        await wait_until(pilot, lambda: app.questions[0] == "question 0" and app.transcript.scroll_y == 0)
        app.transcript.turn_list.newer.post_message(MoreTurns.Wanted(older=False))
        await wait_until(pilot, lambda: app.questions[-1] == "question 59" and app.at_end)


async def test_a_short_conversation_starts_at_the_top() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.show(answered(1, lines=2))
        await wait_until(pilot, lambda: bool(app.questions))
        await pilot.pause()
        assert app.query_one(QuestionView).region.y <= 2


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
        assert app.transcript.scroll_y == stays, "nothing above the view has changed"
        app.transcript.scroll_end(animate=False)
        await wait_until(pilot, lambda: app.at_end)
        turn.apply(Verified("last\n\n" * 9, 2, 0))
        turn.apply(finished(2))
        await wait_until(pilot, lambda: "last" in app.query(AnswerView).last().prose.plain)
        await wait_until(pilot, lambda: app.at_end)


async def test_a_long_session_lets_go_of_what_is_far_above() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        for turn in answered(40):
            await app.transcript.add(turn)
        await wait_until(pilot, lambda: app.settled and app.at_end)
        assert len(app.questions) <= 26 and app.questions[-1] == "question 39"
        assert len(app.transcript.turns) == 40
        assert app.transcript.turn_list.older.display


async def test_one_running_answer_follows_the_person_to_the_end_again() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.transcript.show(answered(60))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.scroll_home()
        await wait_until(pilot, lambda: app.questions[0] == "question 0" and app.settled)
        turn = Turn("now")
        await app.transcript.add(turn)
        turn.apply(Verified("line\n\n" * 30, 2, 0))
        await wait_until(pilot, lambda: app.questions[-1] == "now" and app.at_end and app.settled)
        await wait_until(pilot, lambda: app.query(AnswerView).last().region.height > 50)
        await wait_until(pilot, lambda: app.at_end)


async def test_the_line_that_is_read_stays_while_the_window_changes_its_width() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
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
