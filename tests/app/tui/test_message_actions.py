"""What can be done with a message: each key, and what it leaves behind in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual.pilot import Pilot

from app.events import Drafted, Failed, Verified
from app.tui.unsent import UnsentTexts
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, Step, finished, press, store_turns, wait_until
from tests.app.tui.window import Window, started

TWO = "Use:\n\n```sh\nls -l\n```\n\nor:\n\n```sh\nls -la\n```\n"
TURNS = (("one", "first *answer*"), ("two", TWO))


def says(text: str) -> Sequence[Step]:
    return [Verified(text, 2, 0), finished(2)]


async def opened(pilot: Pilot[None], app: Window, store: Store) -> str:
    conversation = store_turns(store, "title", TURNS)
    await app.turn_to(pilot, conversation, until=lambda: len(app.answers) == len(TURNS))
    await wait_until(pilot, lambda: all(one.region.height for one in app.screen.query("QuestionView, AnswerView")))
    return conversation


def cursor(app: Window) -> list[str]:
    """What has the cursor."""
    questions = [f"? {one.turn.question}" for one in app.screen.query(QuestionView) if one.has_class("-cursor")]
    return questions + [f"! {one.turn.text}" for one in app.screen.query(AnswerView) if one.has_class("-cursor")]


async def test_the_cursor_walks_the_messages_and_letters_act_on_the_chosen_one(store: Store) -> None:
    async with started(ScriptedCore(store), (100, 40)) as (app, pilot):
        await pilot.press("alt+up")
        assert cursor(app) == [] and app.prompt.has_focus, "there is nothing to choose"
        await opened(pilot, app, store)
        for step, there in (("up", f"! {TWO}"), ("up", "? two"), ("up", "! first *answer*"), ("down", "? two")):
            await press(pilot, f"alt+{step}", until=lambda: cursor(app) == [there])  # noqa: B023
        assert app.screen.query_one(Transcript).has_focus
        await press(pilot, "escape", until=lambda: app.prompt.has_focus and cursor(app) == [])
        prose = app.screen.query(AnswerView).first().prose
        await pilot.mouse_down(prose, offset=(0, 0))
        await pilot.hover(prose, offset=(5, 0))
        await pilot.mouse_up(prose, offset=(5, 0))
        await wait_until(pilot, lambda: bool(app.screen.get_selected_text()))
        marked = app.screen.get_selected_text()
        await press(pilot, "ctrl+c", until=lambda: app.clipboard == marked and "first answer".startswith(marked or "?"))
        await pilot.press(*"cd")
        assert app.prompt.text == "cd" and cursor(app) == [], "letters are typed"
        await pilot.click(app.screen.query(QuestionView).first())
        await wait_until(pilot, lambda: cursor(app) == ["? one"])
        await press(pilot, "c", until=lambda: app.clipboard == "one" and app.toasted("Sent to the terminal one"))
        await pilot.click(app.screen.query(AnswerView).first())
        await wait_until(pilot, lambda: cursor(app) == ["! first *answer*"])
        await press(pilot, "c", until=lambda: app.clipboard == "first *answer*")
        await press(pilot, "escape", "alt+up", "2", until=lambda: app.clipboard == "ls -la")
        await press(pilot, "1", until=lambda: app.clipboard == "ls -l")
        await press(pilot, "3", until=lambda: app.toasted("That answer has 2 code blocks."))


async def test_a_question_is_asked_in_other_words_and_those_given_up_can_be_recalled(store: Store) -> None:
    async with started(ScriptedCore(store, [says("other")])) as (app, pilot):
        conversation = await opened(pilot, app, store)
        kept = lambda: UnsentTexts(store.path).read(conversation)  # noqa: E731
        await press(pilot, *"half", "alt+up", "e", until=lambda: app.prompt.text == "two" and kept() == "half")
        assert app.prompt.has_focus and "edit this question" in str(app.prompt.border_title)
        await press(pilot, *" more", until=lambda: kept() == "half\n\ntwo more")
        await press(pilot, "escape", until=lambda: app.prompt.text == "half" and kept() == "half")
        assert not app.prompt.border_title, "given up"
        await pilot.press("up")
        assert app.prompt.text == "two more"
        await press(pilot, "down", "alt+up", "alt+up", "alt+up", "e", until=lambda: app.prompt.text == "one")
        await press(pilot, "s", "enter", until=lambda: app.questions == ["ones"] and app.answers == ["other"])
        assert app.prompt.text == "half", "what was typed before comes back"
        assert [message.text for message in store.branches.thread(conversation)] == ["ones", "other"]
        assert len(store.messages.of(conversation)) == 6, "nothing is overwritten"
        question = app.screen.query_one(QuestionView)
        await wait_until(pilot, lambda: str(question.render()) == "ones  2/2")


async def test_an_answer_is_given_again_and_its_versions_are_walked(store: Store) -> None:
    async with started(ScriptedCore(store, [says("second"), says("third")])) as (app, pilot):
        conversation = await opened(pilot, app, store)
        for there in ("second", "third"):
            await pilot.press("alt+up", *(["alt+up"] * 2 if there == "second" else []), "r")
            await wait_until(pilot, lambda: app.answers == [there])  # noqa: B023
        await wait_until(pilot, lambda: app.text("AnswerView > .note") == "3/3")
        await pilot.press("left_square_bracket")
        await wait_until(pilot, lambda: app.answers == ["second"] and app.text("AnswerView > .note") == "2/3")
        await wait_until(pilot, lambda: cursor(app) == ["! second"])
        await press(pilot, "left_square_bracket", until=lambda: app.answers == ["first *answer*", TWO])
        await wait_until(pilot, lambda: cursor(app) == ["! first *answer*"])
        await press(pilot, "left_square_bracket", until=lambda: app.toasted("no other version"))
        await press(pilot, "right_square_bracket", "right_square_bracket", until=lambda: app.answers == ["third"])
        assert [message.text for message in store.branches.thread(conversation)] == ["one", "third"]


async def test_escape_stops_an_answer_which_keeps_its_text_and_can_go_on(store: Store) -> None:
    stops: list[Step] = [Verified("half ", 1, 0), Drafted("more", 1), asyncio.Event()]
    goes_on: list[Step] = [Verified("half ", 1, 0), Verified("and whole", 1, 0), finished(2)]
    async with started(core := ScriptedCore(store, [stops, goes_on])) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.drawing)
        # One answer at a time: the second prompt waits below it, and can be taken back.
        await press(pilot, "b", "enter", until=lambda: app.waiting == ["b"])
        assert app.text("QueuedPrompts > .note") == "queued: asked when this answer ends · ctrl+s takes it back"
        assert [queued.text for queued in store.queue.all()] == ["b"]
        await press(pilot, "ctrl+s", until=lambda: app.prompt.text == "b" and app.waiting == [])
        await press(pilot, "escape", until=lambda: app.answers == ["half "])
        assert app.text("AnswerView > .note") == "stopped"
        assert app.prompt.text == "b" and len(core.prompts) == 1
        conversation = store.conversations.all()[0].id
        (question, answer) = store.branches.thread(conversation)
        assert (question.text, answer.text, answer.status) == ("a", "half ", "stopped")
        await press(pilot, "alt+up", "g", until=lambda: app.answers == ["half and whole"] and app.questions == ["a"])
        await wait_until(pilot, lambda: app.text("AnswerView > .note") == "2/2")
        assert store.branches.thread(conversation)[-1].status == "done"


async def test_where_nothing_comes_of_it_all_is_as_it_was(store: Store) -> None:
    failure = Failed("No verifier: no route.", "unavailable")
    async with started(ScriptedCore(store, [[failure]] * 3)) as (app, pilot):
        conversation = await opened(pilot, app, store)
        before = [message.id for message in store.branches.thread(conversation)]
        for keys in (["r"], ["g"], ["e", "x", "enter"]):
            app.clear_notifications()
            await press(pilot, "alt+up", *keys, until=lambda: app.toasted(failure.message))
            await wait_until(pilot, lambda: app.answers == ["first *answer*", TWO])
            assert [message.id for message in store.branches.thread(conversation)] == before, keys
            assert app.prompt.text == ("twox" if "x" in keys else ""), keys
            await pilot.press("escape")


async def test_messages_are_deleted_and_brought_back_until_another_conversation_is_opened(store: Store) -> None:
    async with started(ScriptedCore(store)) as (app, pilot):
        conversation = await opened(pilot, app, store)
        await pilot.press("u")
        assert app.prompt.text == "u"
        await press(pilot, "backspace", "alt+up", "u", until=lambda: app.toasted("Nothing was deleted"))
        await press(pilot, "d", until=lambda: app.questions == ["one", "two"] and app.answers == ["first *answer*", ""])
        await wait_until(pilot, lambda: app.toasted("Press u on a message to bring it back."))
        await press(pilot, "alt+up", "alt+up", "d", until=lambda: app.questions == ["one"])
        assert len(store.branches.thread(conversation)) == 1
        await press(pilot, "u", until=lambda: app.questions == ["one", "two"])
        await press(pilot, "u", until=lambda: app.answers == ["first *answer*", TWO])
        assert len(store.branches.thread(conversation)) == 4
        await press(pilot, "escape", "alt+up", "d", until=lambda: app.answers == ["first *answer*", ""])
        await pilot.click(app.screen.query(AnswerView).first())
        app.clear_notifications()
        await press(pilot, "f", until=lambda: app.questions == ["one"] and app.chat.conversation.id != conversation)
        assert app.prompt.has_focus and len(store.conversations.all()) == 2, "a fork up to that message"
        assert len(store.branches.thread(conversation)) == 3
        await press(pilot, "alt+up", "u", until=lambda: app.toasted("Nothing was deleted"))


async def test_what_nobody_verified_is_shaded_and_unshaded_and_verified(store: Store) -> None:
    conversation = store.conversations.create("drafted")
    answer = store.messages.ask(conversation.id, "q", parent_id=None)
    store.messages.finish(answer.id, range(4), [True, True, False, False], "use tar xf file!", "done", {})
    half: list[Step] = [Verified("so", 1, 0), Drafted("is", 1), finished(2, 1)]
    async with started(ScriptedCore(store, [half, says("own")]), at=conversation.id) as (app, pilot):
        await pilot.press("alt+up", "p")
        shaded = lambda: [answer.prose.shaded for answer in app.screen.query(AnswerView)]  # noqa: E731
        await wait_until(pilot, lambda: shaded() == ["xf file!"])
        await press(pilot, "escape", *"more", "enter", until=lambda: len(shaded()) == 2 and shaded()[1] == "is")
        await press(pilot, "alt+up", "p", until=lambda: shaded() == ["", ""])
        await press(pilot, "v", until=lambda: app.answers == ["use tar xf file!", "own"])


async def test_while_an_answer_runs_others_wait(store: Store) -> None:
    async with started(ScriptedCore(store, [[Verified("half ", 1, 0), asyncio.Event()]])) as (app, pilot):
        conversation = await opened(pilot, app, store)
        await press(pilot, "a", "enter", until=lambda: app.drawing)
        await pilot.press("alt+up", "alt+up", "alt+up")
        for key in ("r", "g", "d", "left_square_bracket"):
            app.clear_notifications()
            await press(pilot, key, until=lambda: app.toasted("still running"))
        assert len(store.messages.of(conversation)) == 6
