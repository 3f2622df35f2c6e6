"""The messages on the screen: what is mounted, how they scroll, and how they are summarised."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from app.config import Settings
from app.events import Drafted, Verified
from app.prompts import SUM_UP
from app.tui.turn import Turn
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import SummaryLine, Transcript
from app.tui.widgets.virtual_list import MoreTurns
from drafter.runtime import Drafter
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, store_turns, wait_until
from tests.app.tui.window import Window, started
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import assistant, until_connected


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
        for _ in range(4):
            before = app.in_view
            app.transcript.scroll_page_down()
            await wait_until(pilot, lambda: app.in_view != before and app.settled)  # noqa: B023
        assert len(app.questions) <= 26
        app.transcript.scroll_end()
        await wait_until(pilot, lambda: app.at_end and app.settled and app.questions[-1] == "question 59")
        assert not app.transcript.turn_list.newer.display
        app.transcript.turn_list.older.post_message(MoreTurns.Wanted(older=True))
        await wait_until(pilot, lambda: app.questions[0] == "question 0" and app.transcript.scroll_y == 0)
        app.transcript.turn_list.newer.post_message(MoreTurns.Wanted(older=False))
        await wait_until(pilot, lambda: app.questions[-1] == "question 59" and app.at_end)


async def test_the_line_that_is_read_stays_while_turns_come_and_go_above_it() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        await app.transcript.show(answered(30))
        await wait_until(pilot, lambda: app.at_end and app.settled)
        mounted = app.questions
        while app.questions[0] != "question 0":
            app.transcript.scroll_relative(y=-19, immediate=True)
            await app.transcript.turn_list.laid_out()  # Before that, places are those of the frame before.
            (question, y), *_ = app.in_view
            frames = [place for _ in range(5) for place in await app.places(pilot, question)]
            await wait_until(pilot, lambda: app.settled)
            assert set(frames) == {y}, f"{question} moved"
        assert app.questions[0] not in mounted


@pytest.mark.parametrize("count", [3, 30])
async def test_the_question_that_was_looked_for_is_shown_below_one_as_long_as_a_pasted_log(count: int) -> None:
    turns = answered(count)
    turns[0].question = "\n".join(f"logged {line}" for line in range(1000))
    async with started(Host(), (80, 24)) as (app, pilot):
        await app.transcript.show(turns)
        app.transcript.go_to(1)  # At once, as when the messages that a summary stands for are unfolded.
        await wait_until(pilot, lambda: "question 1" in dict(app.in_view) and app.settled)
        app.transcript.scroll_end()
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.go_to(1)
        await app.transcript.choose(count - 1, "question")  # The person moves on before it is shown.
        await wait_until(pilot, lambda: f"question {count - 1}" in dict(app.in_view) and app.settled)
        app.transcript.go_to(1)
        await app.transcript.add(Turn("the next question"))
        await wait_until(pilot, lambda: "the next question" in dict(app.in_view) and app.settled)


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
        for width in (40, 100, 61):
            await pilot.resize_terminal(width, 24)
            await wait_until(pilot, lambda: prose.size.width == width - 2 and app.settled)  # noqa: B023
            await pilot.pause()
            assert first().partition(":")[0] == reading


async def test_each_press_moves_by_a_page_also_while_an_answer_arrives() -> None:
    async with started(Host(), (80, 24)) as (app, pilot):
        turns = answered(2)  # Of three and a half screens, and of four paragraphs.
        turns[0].reply.solid = "\n\n".join(f"line {line}" for line in range(42))
        await app.transcript.show(turns)
        await wait_until(pilot, lambda: app.at_end and app.settled)
        app.transcript.focus()
        await pilot.pause()
        page = app.transcript.scrollable_content_region.height

        async def press_to(key: str, line: float, times: int = 1) -> None:
            """Presses a key several times before the next frame."""
            for _ in range(times):
                app.post_message(events.Key(key, None))
            await wait_until(pilot, lambda: app.transcript.scroll_y == line and app.settled)

        for pages in (-2, 1, 1, -1, -3):
            line = min(max(0, app.transcript.scroll_y + pages * page), app.transcript.max_scroll_y)
            await press_to("pageup" if pages < 0 else "pagedown", line, abs(pages))
        assert app.transcript.scroll_y == 0
        await press_to("end", app.transcript.max_scroll_y)
        turn = Turn("now")
        await app.transcript.add(turn)
        turn.apply(Verified("begun\n\n" * 3, 1, 0))
        await wait_until(pilot, lambda: "begun" in app.query(AnswerView).last().prose.plain)
        await wait_until(pilot, lambda: app.at_end and app.settled)
        line = app.transcript.scroll_y
        for number in range(3):
            turn.apply(Verified(f"more {number}\n\n" * 4, 1, 0))
            turn.apply(Drafted(f"guess {number} ", 2))
            await press_to("pageup", line := line - page)
            turn.apply(Verified(f"even more {number}\n\n" * 4, 1, 0))
            await wait_until(pilot, lambda: app.query(AnswerView).last().drawn)
            await pilot.pause()
            assert app.transcript.scroll_y == line, "what arrives below moves nothing"


# ---- summarised on request, folded under one line, and there again when wanted ---------------------------------------


TURNS = [(f"question {number}", f"answer {number}") for number in range(1, 5)]
SHOWN = [answer for _, answer in TURNS]


async def send(app: Window, pilot: Pilot[None], text: str) -> None:
    app.prompt.write(text)
    await pilot.press("enter")


def line(app: Window) -> str:
    (line,) = app.screen.query(SummaryLine)
    return str(line.content) if line.display else ""


def said(app: Window) -> str:
    return app.text("AnswerView > .summary")


async def test_older_messages_fold_when_they_are_summed_up_and_come_back(drafter: Drafter, database: Path) -> None:
    server = ChatServer([Script(["half"], cut=True), Script(["They asked ", "two \x1b[2Jthings."]), Script(["more"])])
    async with (
        server.listening() as port,
        assistant(drafter, database, f"http://127.0.0.1:{port}/v1", settings=Settings()) as core,
    ):
        here = store_turns(core.store, "long", TURNS)
        async with started(core, (80, 24), here) as (app, pilot):
            await until_connected(core)
            await wait_until(pilot, lambda: app.answers == SHOWN)
            await send(app, pilot, "/compact")
            await wait_until(pilot, lambda: app.toasted("Nothing more was summarised") and app.answers == SHOWN)
            assert line(app) == "" and not app.chat.conversation.live
            await until_connected(core)
            await send(app, pilot, "/compact")
            await wait_until(pilot, lambda: app.answers == SHOWN[2:] and app.toasted("reads a summary"))
            assert line(app) == "▸ 4 messages are summarised for the model · /compact show"
            assert server.asked[1]["messages"][-1]["content"] == SUM_UP

            await send(app, pilot, "/compact show")
            await wait_until(pilot, lambda: app.answers == SHOWN and line(app).startswith("▾"))
            await wait_until(pilot, lambda: said(app).endswith("They asked two things."))
            app.screen.query_one(SummaryLine).post_message(SummaryLine.Clicked())
            await wait_until(pilot, lambda: app.answers == SHOWN[2:] and line(app).startswith("▸"))
            await send(app, pilot, "/compact")
            await wait_until(pilot, lambda: app.toasted("There is nothing to summarise yet"))
            await app.turn_to(pilot, None, until=lambda: not app.answers)
            await app.turn_to(pilot, here, until=lambda: app.answers == SHOWN[2:])
            old = core.store.branches.thread(here)[1].id
            await app.chat.open_conversation(here, old)  # As the search does.
            await wait_until(pilot, lambda: app.answers == SHOWN)

            await send(app, pilot, "/compact undo")
            await wait_until(pilot, lambda: line(app) == "" and app.answers == SHOWN and said(app) == "")
            await send(app, pilot, "/compact undo")
            await wait_until(pilot, lambda: app.toasted("Nothing is summarised here"))
            await send(app, pilot, "next")
            await wait_until(pilot, lambda: app.answers == [*SHOWN, "more"])
            assert len(server.asked[-1]["messages"]) == 9
            await send(app, pilot, "/compact")
            await wait_until(
                pilot, lambda: app.answers == [*SHOWN[3:], "more"] and line(app).startswith("▸ 6 messages")
            )


def sum_up(store: Store, conversation: str, turns: int) -> str:
    """Stores a summary of its first turns; returns the id of the question for it."""
    pending = store.summaries.begin(store.branches.thread(conversation)[2 * turns - 1], SUM_UP)
    store.messages.finish(pending.id, (), (), "Some.", "done", {"reason": "end"})
    return str(pending.parent_id)


@pytest.mark.usefixtures("looks_often")
async def test_a_summary_of_another_window_is_shown(store: Store, database: Path) -> None:
    here = store_turns(store, "long", TURNS)
    async with started(ScriptedCore(store), (80, 24), here) as (app, pilot):
        await wait_until(pilot, lambda: app.answers == SHOWN)
        with Store.open(database) as other:
            first = sum_up(other, here, 2)
            await wait_until(pilot, lambda: app.answers == SHOWN[2:] and line(app).startswith("▸ 4 messages"))
            await send(app, pilot, "/compact show")
            await wait_until(pilot, lambda: app.answers == SHOWN and line(app).startswith("▾ The first 4"))
            second = sum_up(other, here, 3)
            await wait_until(pilot, lambda: app.answers == SHOWN[3:] and line(app).startswith("▸ 6 messages"))
            other.bin.delete_message(second)
            await wait_until(pilot, lambda: app.answers == SHOWN[2:] and line(app).startswith("▸ 4 messages"))
            other.bin.delete_message(first)
        await wait_until(pilot, lambda: app.answers == SHOWN and line(app) == "")


async def test_undo_takes_back_the_last_summary_in_all_its_parts(store: Store) -> None:
    here = store_turns(store, "long", TURNS)
    sum_up(store, here, 1)
    pending = store.messages.ask(here, "more?", parent_id=store.conversations.get(here).tip_id)
    store.messages.finish(pending.id, (), (), "more", "done", {"reason": "end"})
    sum_up(store, here, 2)
    sum_up(store, here, 3)
    async with started(ScriptedCore(store), (80, 24), here) as (app, pilot):
        await wait_until(pilot, lambda: line(app).startswith("▸ 6 messages"))
        await send(app, pilot, "/compact undo")
        await wait_until(pilot, lambda: line(app).startswith("▸ 2 messages") and app.toasted("An earlier one remains"))
        await send(app, pilot, "/compact undo")
        await wait_until(pilot, lambda: line(app) == "" and app.toasted("reads the original messages again"))


async def test_a_question_that_is_edited_keeps_its_place_while_turns_above_it_fold(
    store: Store, database: Path
) -> None:
    here = store_turns(store, "long", TURNS)
    core = ScriptedCore(store)
    async with started(core, (80, 24), here) as (app, pilot):
        await wait_until(pilot, lambda: app.answers == SHOWN)
        conversation, last = app.chat.conversation, store.branches.thread(here)[-2].id
        reply = conversation.edit(3, last, "question 4, in other words")
        with Store.open(database) as other:
            sum_up(other, here, 2)
        await wait_until(pilot, lambda: app.answers == SHOWN[2:])
        conversation.start(reply)
        assert [turn.question for turn in conversation.turns] == ["question 3", "question 4, in other words"]


async def test_it_is_proposed_before_the_context_is_full(store: Store) -> None:
    here, short = store_turns(store, "long", TURNS), store_turns(store, "short", [("q" * 60, "a" * 40)])
    core = ScriptedCore(store)
    async with started(core, (80, 24)) as (app, pilot):
        app.chat._stranger = lambda mode: "talker"
        for limit, shown in ((1000, "ctx 1%"), (17, "ctx 82% /compact")):
            core.limit = limit
            await app.turn_to(pilot, None, until=lambda: app.text("#context") == "")
            await app.turn_to(pilot, here, until=lambda: app.text("#context") == shown)  # noqa: B023
        assert not app.toasts and not core.prompts, "it is never done, and not said twice"
        core.limit = 22
        await app.turn_to(pilot, short, until=lambda: app.text("#context") == "ctx 91%")
        assert app.toasted("nearly full") and not app.toasted("/compact")
        await press(pilot, "ctrl+n", until=lambda: app.text("#context") == "")
