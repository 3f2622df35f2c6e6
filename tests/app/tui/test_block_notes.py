"""What stands below a code block: what its commands would do, in words and colour."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from app.commands.risk import Risk
from app.events import Drafted, Retracted, Verified
from app.tui.block_notes import MOST_LINES, UNASKED, UNCHECKED, answer_notes, notes_of_block
from app.tui.code_blocks import CodeBlock
from app.tui.markdown.notes import NO_BLOCK_NOTES
from app.tui.widgets.markdown_view import MarkdownView
from app.tui.widgets.message import AnswerView
from storage import Store
from tests.app.tui.scripted import ScriptedCore, Step, finished, press, store_turns, wait_until
from tests.app.tui.window import Window, started

SIZE = (100, 40)
DELETES = "Use:\n\n```sh\nls\nrm -rf build\n```\n"


def said(request: str, code: str, language: str = "sh") -> list[str]:
    """The lines below a block."""
    notes = notes_of_block(request, CodeBlock(1, language, code))
    return ["".join(text for text, _ in line.parts) for line in notes.lines]


def marked(code: str, language: str = "sh", request: str = "") -> list[tuple[str, str]]:
    """The coloured words of a block."""
    notes = notes_of_block(request, CodeBlock(1, language, code))
    return [(code[start:end], style) for start, end, style in notes.marks]


def rows(view: MarkdownView) -> list[str]:
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def noted(app: Window) -> list[str]:
    """The notes that are on the screen."""
    shown = [row for view in app.screen.query(MarkdownView) for row in rows(view)]
    return [row for row in shown if row.startswith(("notice", "warning", "danger"))]


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_a_risk_is_one_line_with_its_severity_and_what_it_is_about() -> None:
    (line,) = said("delete the build folder", "rm -rf build")
    assert line.startswith("warning: ") and "`build`" in line
    (line,) = said("make some room", "rm -rf build")
    assert line.startswith(f"warning, {UNASKED}: ")
    assert said("anything", "ls -l | sort") == []


def test_the_words_that_do_it_are_coloured() -> None:
    assert marked("ls\nrm -rf build\nls") == [("rm -rf build", ".warning")]
    assert ("rm -rf /", ".danger") in marked("rm -rf /")
    assert marked("chmod +x run.sh") == [], "a notice colours no words"


def test_prompts_and_output_of_a_session_are_no_commands() -> None:
    code = "$ ls\nrm -rf build\n$ rm -rf dist\n"
    assert marked(code, "console") == [("rm -rf dist", ".warning")]
    assert all("build" not in line for line in said("", code, "console"))


def test_other_code_has_no_notes() -> None:
    assert notes_of_block("", CodeBlock(1, "python", "rm -rf /")) is NO_BLOCK_NOTES
    assert said("", "total 12\n)( drwx", "") == [], "a block without a language may be output"
    assert len(said("", "echo )(", "sh")) == 1


def test_the_worst_comes_first_and_a_long_list_is_cut() -> None:
    lines = said("", "\n".join([*(f"rm -rf dir{n}" for n in range(30)), "rm -rf /"]))
    assert lines[0].startswith("danger") and lines[1].startswith("warning")
    assert len(lines) == MOST_LINES and lines[-1] == f"and {31 - MOST_LINES + 1} more"
    assert len(said("", "\n".join(["rm -rf build"] * 5))) == 1, "an equal line stands once"


def test_blocks_are_noted_by_number_whatever_stands_around_them() -> None:
    listed = "- x\n\n    ```python\n    rm = 1\n    ```\n\n    ```bash\n    rm -rf b\n    ```\n"
    text = f"> ```sh\n> rm -rf a\n> ```\n\n{listed}"
    notes = answer_notes("", text, ())
    assert [number for number, _ in notes.blocks] == [1, 3]


@given(st.text(max_size=300), st.sampled_from(["", "sh", "console", "python"]))
def test_any_code_can_be_noted(code: str, language: str) -> None:
    block = CodeBlock(1, language, code)
    notes = notes_of_block("delete it", block)
    assert notes is not UNCHECKED
    assert all(0 <= start <= end <= len(code) for start, end, _ in notes.marks)


def test_a_rule_that_fails_takes_no_answer_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(command: str) -> tuple[Risk, ...]:
        raise RecursionError(command)

    monkeypatch.setattr("app.commands.risks.risks", broken)
    assert said("q", "rm -rf this/one") == ["notice: Outrider could not check this code"]
    notes_of_block.cache_clear()


# ---- on the screen ---------------------------------------------------------------------------------------------------


async def opened(pilot: Pilot[None], app: Window, conversation: str, answers: int = 1) -> None:
    await app.turn_to(pilot, conversation, until=lambda: len(app.answers) == answers)
    await wait_until(pilot, lambda: all(one.region.height for one in app.screen.query(AnswerView)))


async def test_a_stored_answer_has_its_notes_below_the_block(store: Store) -> None:
    async with started(ScriptedCore(store), SIZE) as (app, pilot):
        await opened(pilot, app, store_turns(store, "title", [("make some room", DELETES)]))
        prose = app.screen.query_one(AnswerView).prose
        shown = rows(prose)
        at = next(at for at, row in enumerate(shown) if row.strip() == "rm -rf build")
        assert shown[at + 1].startswith(f"warning, {UNASKED}: ")
        colours = {segment.text: segment.style.color for segment in prose.render_line(at) if segment.style is not None}
        plain = {segment.text: segment.style.color for segment in prose.render_line(at - 1) if segment.style}
        assert colours["rm -rf build"] != plain["ls"]


async def test_notes_come_when_the_block_ends_and_those_of_a_withdrawn_draft_go_with_it(store: Store) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    first: list[Step] = [
        Verified("Use:\n\n```sh\nrm -rf build\n", 3, 0),
        gates[0],
        Verified("```\n\nIt", 3, 0),
        gates[1],
        Verified(" deletes.\n", 3, 0),
        finished(9),
    ]
    second: list[Step] = [
        Drafted("```sh\nrm -rf build\n```\n\nIt", 3),
        gates[2],
        Retracted(3),
        Verified("```sh\nls\n```\n\nIt", 3, 0),
        gates[3],
        finished(9),
    ]
    async with started(ScriptedCore(store, [first, second]), SIZE) as (app, pilot):
        await pilot.press(*"room", "enter")
        await wait_until(pilot, lambda: app.drawing and any("rm -rf build" in row for row in rows(view(app))))
        assert noted(app) == []
        gates[0].set()
        await wait_until(pilot, lambda: len(noted(app)) == 1)
        assert app.screen.query_one(AnswerView).turn.running
        gates[1].set()
        await wait_until(pilot, lambda: len(app.answers) == 1 and len(noted(app)) == 1)
        await press(pilot, "ctrl+n", *"room", "enter", until=lambda: app.drawing and len(noted(app)) == 1)
        gates[2].set()
        await wait_until(pilot, lambda: noted(app) == [])
        gates[3].set()
        await wait_until(pilot, lambda: app.answers == ["```sh\nls\n```\n\nIt"])


async def test_a_follow_up_in_a_conversation_is_read_with_the_question_before(store: Store) -> None:
    turns = [("Delete the build folder", "```sh\nrm -r build\n```")]
    script = [Verified(DELETES, 2, 0), finished(2)]
    async with started(ScriptedCore(store, [script, script]), SIZE) as (app, pilot):
        await opened(pilot, app, store_turns(store, "title", turns))
        await press(pilot, *"again", "enter", until=lambda: len(app.answers) == 2 and len(noted(app)) == 2)
        assert all(UNASKED not in row for row in noted(app))
        await press(pilot, *"again", "enter", until=lambda: len(app.answers) == 3 and len(noted(app)) == 3)
        assert UNASKED in noted(app)[-1], "two questions later it is forgotten"


def view(app: Window) -> MarkdownView:
    return app.screen.query(AnswerView).last().prose


def test_what_the_whole_answer_leaves_out_of_the_question_is_noted() -> None:
    request, text = "delete *.log files older than a week", "```sh\nfind . -mtime +7 -delete\n```"
    (_, notes), *rest = answer_notes(request, text, ()).blocks
    assert not rest and "".join(part for part, _ in notes.lines[-1].parts).endswith("question says: `*.log`")
    assert answer_notes(request, f"```sh\nls *.log\n```\n{text}", ()).blocks[-1][1].lines == notes.lines[:1]
    assert notes_of_block(request, CodeBlock(1, "sh", "find . -mtime +7 -delete")).lines == notes.lines[:1], (
        "it goes on"
    )
