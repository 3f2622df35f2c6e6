"""A turn on the screen: its text as it comes, its notes and tool calls, and what each key does with a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from app.events import Drafted, Failed, Retracted, ToolCalled, Verified
from app.tui.screens import dialog
from app.tui.screens.tool_call import ToolCallScreen
from app.tui.turn import Turn
from app.tui.unsent import UnsentTexts
from app.tui.widgets.folded import ToolCalls
from app.tui.widgets.markdown_view import HELD
from app.tui.widgets.message import AnswerView, QuestionView, WithdrawnLine
from app.tui.widgets.transcript import Transcript
from storage import Call, Store
from tests.app.tui.scripted import ScriptedCore, Step, finished, press, shows, store_turns, verified, wait_until
from tests.app.tui.window import Window, rows_of, started

TEXT = (
    "Use `tar` to **unpack** it\nhere:\n\n```sh\ntar xf a.tar\n```\n\n- `-x` extracts\n- `-f` names it\n\nThat is all"
)


class Host(App[None]):
    """Shows one turn."""

    CSS_PATH = "../../../app/tui/widgets/message.tcss"

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn

    def compose(self) -> ComposeResult:
        yield AnswerView(self.turn)

    @property
    def answer(self) -> AnswerView:
        return self.query_one(AnswerView)

    @property
    def screen_text(self) -> list[str]:
        return rows_of(self.answer.prose)


async def test_a_streamed_answer_ends_as_if_it_had_come_at_once() -> None:
    turn = Turn("q")
    app = Host(turn)
    stored = Host(Turn("q", outcome="done"))
    stored.turn.reply.solid = TEXT
    async with app.run_test() as pilot:
        for count, event in enumerate(verified(TEXT, 1)):
            turn.apply(event)
            if count % 7 == 0:
                await app.answer.flush()
        await app.answer.flush()
        await pilot.pause()
        before = app.screen_text
        turn.apply(finished(9))
        await wait_until(pilot, lambda: app.answer.drawn)
        await pilot.pause()
        assert app.screen_text == before, "nothing moves at the end"
        parsed = app.answer.prose.parsed
    async with stored.run_test():
        assert stored.answer.prose.source == TEXT
        assert stored.answer.prose.parsed == parsed
        assert stored.screen_text == before


async def test_other_words_take_the_place_of_those_that_are_withdrawn_without_a_jump() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        turn.apply(Verified("one\n\n", 2, 0))
        turn.apply(Drafted("two\n\nthree\n", 4))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "two", "", "three"])
        turn.apply(Verified("other", 1, 0))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other", "", ""])
        turn.apply(Drafted(" words\n\nend\n", 3))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other words", "", "end"])
        turn.apply(Drafted("x\n\n" * 7, 14))
        await wait_until(pilot, lambda: len(app.screen_text) > 15)
        turn.apply(Retracted(18))
        await wait_until(pilot, lambda: len(app.screen_text) == 3 + HELD)
        turn.apply(finished(3))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other"])


# ---- what the check of a draft did not keep: struck through where it stood, as far as it is wanted -------------------

KEPT = "Use `tar`. It knows "
DRAFT = f"{KEPT}these options:\n\n- `-x` extracts\n- `-v` names each\n\n```sh\ntar xf file\n```\n"
OWN = f"{KEPT}many forms:\n\n```sh\ntar xvzf file\n```\n"
LABEL = "10 drafted words were not kept when the answer was checked"


def judged(store: Store, draft: str = DRAFT, own: str = OWN) -> str:
    conversation = store.conversations.create("t").id
    drafted = store.messages.ask(conversation, "Unpack it", parent_id=None)
    store.messages.finish(drafted.id, range(40), [False] * 40, draft, "done", {})
    answer = store.messages.verify(drafted.id)
    assert answer is not None
    stats = {"kept": 11, "of": 40}
    store.messages.finish(answer.id, range(60), [True] * 60, own, "done", stats, settles=drafted.id)
    return conversation


def rows(answer: AnswerView) -> list[str]:
    """The rows of the answer; struck text stands between tildes."""

    def said(text: str, style: Style | None) -> str:
        return f"~{text.strip()}~" if style is not None and style.strike and text.strip() else text

    prose = answer.prose
    strips = [prose.render_line(y) for y in range(prose.size.height)]
    return ["".join(said(part.text, part.style) for part in strip).rstrip() for strip in strips]


def struck(answer: AnswerView) -> str:
    return " ".join(part for row in rows(answer) for part in row.split("~")[1::2])


async def shown(pilot: Pilot[None], app: Window, conversation: str) -> AnswerView:
    """The checked answer, with the words that were not kept."""
    await app.turn_to(pilot, conversation, until=lambda: bool(app.screen.query(WithdrawnLine)))
    answer = app.screen.query_one(AnswerView)
    await wait_until(pilot, lambda: answer.prose.size.height > 3)
    await press(pilot, "alt+up", until=lambda: answer.has_class("-cursor"))
    await pilot.pause()
    await press(pilot, "w", until=lambda: bool(struck(answer)))
    return answer


async def test_it_is_struck_through_where_it_stood_and_can_be_hidden_and_shown_again(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        answer = await shown(pilot, app, judged(store))
        await wait_until(pilot, lambda: rows(answer)[-1].strip() == "tar xvzf file")
        first, *others = [row.strip() for row in rows(answer) if "~" in row]
        assert first == "Use tar. It knows ~these options:~ many forms:"
        assert others == ["• ~-x extracts~", "• ~-v names each~", "~tar xf file~"]
        assert app.text(".withdrawn") == f"▾ {LABEL}"
        await press(pilot, "w", until=lambda: app.text(".withdrawn") == f"▸ {LABEL}" and not struck(answer))
        assert rows(answer)[0] == "Use tar. It knows many forms:"
        await pilot.pause()
        await pilot.click(WithdrawnLine)
        await wait_until(pilot, lambda: app.text(".withdrawn") == f"▾ {LABEL}" and "these options:" in struck(answer))
        anew = AnswerView(answer.turn)
        await app.screen.mount(anew)
        await wait_until(pilot, lambda: "these options:" in struck(anew))


async def test_struck_text_is_neither_copied_nor_selected_and_nothing_is_told_where_all_was_kept(store: Store) -> None:
    draft, own = "Try:\n\n```sh\ncd /x\ntar xf file\n```\n", "Try:\n\n```sh\ncd /x\ntar xvzf file\n```\n"
    async with started(ScriptedCore(store)) as (app, pilot):
        answer = await shown(pilot, app, judged(store, draft, own))
        said = ["cd /x", "~tar xf file~", "tar xvzf file"]
        await wait_until(pilot, lambda: [row.strip() for row in rows(answer)[3:]] == said)
        answer.prose.action_copy_block(1)
        await wait_until(pilot, lambda: app.clipboard == "cd /x\ntar xvzf file")
        answer.prose.text_select_all()
        await wait_until(pilot, lambda: app.screen.get_selected_text() is not None)
        assert app.screen.get_selected_text() == "Try:\ncd /x\ntar xvzf file"
        await app.turn_to(pilot, judged(store, KEPT, OWN), until=lambda: app.answers == [OWN])
        assert not app.screen.query(WithdrawnLine)
        app.prompt.focus()
        await press(pilot, "alt+up", "w", until=lambda: app.toasted("rejected no words"))


# ---- a tool call is made with a yes that was meant for it, and stands in the answer ----------------------------------


CALL = Call(0, 0, 0, "call_0", "files", "append", '{"line": "one\\u001b[2Jtwo", "more": "x\\nline: y"}')


async def test_a_letter_for_the_prompt_is_no_yes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    said, made = asyncio.Event(), replace(CALL, state="done", result="wrote \x1b[31mone")
    script = [ToolCalled(CALL, asks=True, said=("read-only",)), said, ToolCalled(made), Verified("Done.", 1, 0)]
    core = ScriptedCore(store, [[*script, finished(1)]])
    monkeypatch.setattr(dialog, "QUIET_SECONDS", 1e9)
    async with started(core, (80, 24)) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: shows(app, ToolCallScreen))
        screen = app.screen
        shown = "\n".join(str(one.render()) for one in screen.query("Static"))
        assert r"line: \"one\u001b[2Jtwo\"".replace('\\"', '"') in shown and "declares it: read-only" in shown
        assert "more: x\n  line: y" in shown
        await pilot.press("y", "n", "a")
        await pilot.pause()
        assert core.decided == [] and app.screen is screen
        monkeypatch.setattr(dialog, "QUIET_SECONDS", 0)
        await press(pilot, "y", until=lambda: core.decided == [(0, "yes")])
        said.set()
        await wait_until(pilot, lambda: app.answers == ["Done."])
        (calls,) = app.screen.query(ToolCalls)
        lines = calls.query_one("Static").render
        await wait_until(pilot, lambda: "▸ files/append" in str(lines()) and "· done" in str(lines()))
        calls.toggle()
        await wait_until(pilot, lambda: "wrote one" in str(lines()))


# ---- what each key does with a message, and what it leaves behind in the store ---------------------------------------


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
        await press(pilot, "left_square_bracket", until=lambda: app.toasted("no further version"))
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
