"""A code block of an answer: chosen with the keyboard, then copied, kept for the shell, or explained."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from textual.pilot import Pilot
from textual.widgets import OptionList

from app.events import Drafted, Verified
from app.tui.code_blocks import CodeBlock, code_blocks
from app.tui.screens.code_block import CodeBlockScreen
from app.tui.turn import Turn
from app.tui.widgets.message import AnswerView
from app.tui.widgets.transcript import Transcript
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, store_turns, wait_until
from tests.app.tui.window import Window, started

TWO = "Use:\n\n```sh\nls -l\n```\n\nor:\n\n```sh\nls -la\ndu -sh\n```\n"
PROGRAM = "Use:\n\n```python\nprint(1)\n```\n"
TURNS = (("one", "no code"), ("two", TWO))


async def opened(pilot: Pilot[None], app: Window, store: Store, turns: Sequence[tuple[str, str]] = TURNS) -> None:
    await app.chat.open_conversation(store_turns(store, "title", turns))
    await wait_until(pilot, lambda: app.answers == [answer for _, answer in turns])
    await wait_until(pilot, lambda: all(one.region.height for one in app.screen.query("QuestionView, AnswerView")))


async def menu(pilot: Pilot[None], app: Window) -> CodeBlockScreen:
    await wait_until(pilot, lambda: isinstance(app.screen, CodeBlockScreen) and app.focused is not None)
    assert isinstance(app.screen, CodeBlockScreen)
    return app.screen


def marked_rows(app: Window) -> list[str]:
    """The rows that have the mark of the chosen block."""
    views = [one.prose for one in app.screen.query(AnswerView)]
    rows = [view.render_line(y).text.strip() for view in views for y in range(view.size.height)]
    return [re.sub(" {2,}", "  ", row.removeprefix("▌").strip()) for row in rows if row.startswith("▌")]


def block(code: str, language: str = "sh") -> CodeBlock:
    return CodeBlock(1, language, code)


# ---- what a block is -------------------------------------------------------------------------------------------------


def test_blocks_of_an_answer() -> None:
    turn = Turn("q", outcome="done")
    turn.reply.solid = f"{TWO}\n{PROGRAM}\n```\nid\n```\n"
    found = [(one.number, one.language, one.command) for one in code_blocks(turn)]
    assert found == [(1, "sh", "ls -l"), (2, "sh", "ls -la\ndu -sh"), (3, "python", ""), (4, "", "id")]


def test_of_a_running_answer_only_what_has_ended_and_is_verified() -> None:
    turn = Turn("q")
    turn.apply(Verified("```sh\nrm -r", 1, 0))
    turn.apply(Drafted(" build\n```\n", 1))
    assert code_blocks(turn) == []
    turn.apply(Verified(" build\n```\n", 1, 0))
    assert [one.command for one in code_blocks(turn)] == ["rm -r build"]


def test_the_question_that_has_it_explained() -> None:
    assert block("tar xf a.tgz").question == "Explain this command: tar xf a.tgz"
    assert block("a\nb").question == "Explain these commands:\n\n```sh\na\nb\n```"
    assert block("$ ls\na\nb", "console").question == "Explain this command: ls"
    assert block("print(1)", "python").question == "Explain this code: print(1)"
    assert block("x\n```\ny").question.startswith("Explain these commands:\n\n````sh\n")


# ---- the cursor ------------------------------------------------------------------------------------------------------


async def test_tab_walks_the_blocks_of_the_chosen_answer_and_enter_offers_to_copy_one(store: Store) -> None:
    async with started(ScriptedCore(store), (100, 40)) as (app, pilot):
        await opened(pilot, app, store)
        await press(pilot, "alt+up", until=lambda: app.screen.query_one(Transcript).has_focus)
        assert marked_rows(app) == []
        await press(pilot, "tab", until=lambda: marked_rows(app) == ["sh  copy 1", "ls -l"])
        await press(pilot, "tab", until=lambda: marked_rows(app) == ["sh  copy 2", "ls -la", "du -sh"])
        await press(pilot, "shift+tab", until=lambda: marked_rows(app) == ["sh  copy 1", "ls -l"])
        await press(pilot, "alt+up", until=lambda: marked_rows(app) == [])
        await pilot.press("alt+down", "tab", "tab", "tab")
        await wait_until(pilot, lambda: app.prompt.has_focus and marked_rows(app) == [])
        await pilot.press("alt+up", "enter")
        screen = await menu(pilot, app)
        assert screen.query_one("Vertical").border_title == "Code block 2 of 2"
        await press(pilot, "c", until=lambda: app.clipboard == "ls -la\ndu -sh")
        await pilot.press("tab", "enter")
        screen = await menu(pilot, app)
        assert screen.query_one("Vertical").border_title == "Code block 1 of 2"
        await press(pilot, "enter", until=lambda: app.clipboard == "ls -l")
        await pilot.press("enter")
        await menu(pilot, app)
        await press(pilot, "escape", until=lambda: app.screen.query_one(Transcript).has_focus)
        await press(pilot, "alt+up", "alt+up", "enter", until=lambda: app.toasted("That answer has no code block."))


async def test_a_block_out_of_view_is_brought_into_view_and_code_that_is_no_command_is_not_for_the_shell(
    store: Store,
) -> None:
    long = "\n\n".join(f"word {n}\n\n```python\nprint({n})\n```" for n in range(1, 15))
    async with started(ScriptedCore(store), (80, 16)) as (app, pilot):
        await opened(pilot, app, store, [("q", long)])
        transcript = app.screen.query_one(Transcript)
        await press(pilot, "alt+up", until=lambda: transcript.has_focus)
        for number in range(1, 11):
            await pilot.press("tab")
            await wait_until(pilot, lambda: transcript.block == number)  # noqa: B023
        answer = app.screen.query_one(AnswerView)
        await pilot.pause()
        rows = answer.rows_of_block(10)
        assert rows is not None
        top = answer.virtual_region.y + rows[0]
        await wait_until(pilot, lambda: transcript.scroll_y <= top and top + 4 <= transcript.scroll_y + 16)
        await pilot.press("enter")
        screen = await menu(pilot, app)
        assert [one.id for one in screen.query_one(OptionList).options] == ["copy", "explain"]
        await press(pilot, "s", until=lambda: app.toasted("holds no command"))
        assert app.screen is screen and app.for_shell == ""


# ---- the menu --------------------------------------------------------------------------------------------------------


async def test_a_command_is_kept_for_the_shell_and_taken_back_or_explained(store: Store) -> None:
    core = ScriptedCore(store, [[Verified("It lists.", 2, 0), finished(2)]])
    async with started(core, (100, 40)) as (app, pilot):
        await opened(pilot, app, store)
        await pilot.press(*"half", "alt+up", "tab", "enter")
        await menu(pilot, app)
        await press(pilot, "s", until=lambda: app.for_shell == "ls -l" and app.toasted("ls -l"))
        await wait_until(pilot, lambda: app.screen.query_one("#for-shell").region.width > 0)
        await pilot.press("tab", "enter")
        await menu(pilot, app)
        await press(pilot, "s", until=lambda: app.for_shell == "ls -la\ndu -sh")
        await pilot.press("enter")
        screen = await menu(pilot, app)
        options = screen.query_one(OptionList)
        assert "Keep it out" in str(options.get_option("shell").prompt)
        await pilot.press("down", "enter")
        await wait_until(pilot, lambda: app.for_shell == "" and not app.screen.query_one("#for-shell").display)
        await pilot.press("shift+tab", "enter")
        await menu(pilot, app)
        await press(pilot, "e", until=lambda: app.answers[-1] == "It lists.")
        assert app.questions[-1] == "Explain this command: ls -l"
        assert app.prompt.has_focus and app.prompt.text == "half", "what was typed stays"


async def test_a_block_that_is_still_written_cannot_be_used(store: Store) -> None:
    closes, ends = asyncio.Event(), asyncio.Event()
    begun, rest = Verified("```sh\nrm -r build", 2, 0), Verified("\n```\n\nIt", 2, 0)
    async with started(ScriptedCore(store, [[begun, closes, rest, ends, finished(2)]]), (100, 40)) as (app, pilot):
        await press(pilot, *"ask", "enter", until=lambda: app.drawing)
        await press(pilot, "alt+up", "enter", until=lambda: app.toasted("still being written"))
        closes.set()
        await wait_until(pilot, lambda: "It" in app.screen.query_one(AnswerView).prose.plain)
        await pilot.press("enter")
        await menu(pilot, app)
        ends.set()
