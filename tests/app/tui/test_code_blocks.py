"""Below an answer: code blocks that are chosen, copied, kept for the shell or explained, their notes, and its pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from app.commands.risk import Risk
from app.config import Settings
from app.events import Drafted, PageSource, Retracted, Verified
from app.tui.block_notes import MOST_LINES, UNASKED, answer_notes, notes_of_block
from app.tui.code_blocks import CodeBlock, code_blocks
from app.tui.screens.code_block import CodeBlockScreen
from app.tui.screens.page_sources import SourceScreen
from app.tui.turn import Turn, sources_of
from app.tui.widgets.markdown_view import MarkdownView
from app.tui.widgets.message import AnswerView
from app.tui.widgets.transcript import Transcript
from models.guide.pages import FILE
from recipes.shell_guide.index import write
from storage import Store
from tests.app.tui.scripted import ScriptedCore, Step, finished, press, shows, store_turns, wait_until
from tests.app.tui.window import Window, rows_of, started

TWO = "Use:\n\n```sh\nls -l\n```\n\nor:\n\n```sh\nls -la\ndu -sh\n```\n"
TURNS = (("one", "no code"), ("two", TWO))


async def opened(pilot: Pilot[None], app: Window, store: Store, turns: Sequence[tuple[str, str]] = TURNS) -> None:
    await app.turn_to(pilot, store_turns(store, "title", turns), until=lambda: len(app.answers) == len(turns))
    await wait_until(pilot, lambda: all(one.region.height for one in app.screen.query("QuestionView, AnswerView")))


async def menu(pilot: Pilot[None], app: Window) -> CodeBlockScreen:
    await wait_until(pilot, lambda: isinstance(app.screen, CodeBlockScreen) and app.focused is not None)
    assert isinstance(app.screen, CodeBlockScreen)
    return app.screen


def rows(app: Window) -> list[str]:
    return [row for answer in app.screen.query(AnswerView) for row in rows_of(answer.prose)]


def marked_rows(app: Window) -> list[str]:
    """The rows that have the mark of the chosen block."""
    chosen = [row.strip() for row in rows(app) if row.strip().startswith("▌")]
    return [re.sub(" {2,}", "  ", row.removeprefix("▌").strip()) for row in chosen]


def test_of_a_running_answer_only_what_has_ended_and_is_verified() -> None:
    turn = Turn("q")
    turn.apply(Verified("```sh\nrm -r", 1, 0))
    turn.apply(Drafted(" build\n```\n", 1))
    assert code_blocks(turn) == []
    turn.apply(Verified(" build\n```\n", 1, 0))
    assert [one.command for one in code_blocks(turn)] == ["rm -r build"]


async def test_tab_walks_the_blocks_of_the_chosen_answer_and_enter_or_a_click_copies_one(store: Store) -> None:
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
        prose = app.screen.query(AnswerView).last().prose
        (head,) = (at for at, row in enumerate(rows_of(prose)) if "copy 2" in row)
        await pilot.click(prose, offset=(rows_of(prose)[head].index("copy") + 1, head))
        await wait_until(pilot, lambda: app.clipboard == "ls -la\ndu -sh")


async def test_a_block_out_of_view_is_brought_into_view_and_only_commands_are_for_the_shell(store: Store) -> None:
    long = "\n\n".join(f"word {n}\n\n```python\nprint({n})\n```" for n in range(1, 15))
    async with started(ScriptedCore(store), (80, 16)) as (app, pilot):
        await opened(pilot, app, store, [("q", long)])
        transcript = app.screen.query_one(Transcript)
        await press(pilot, "alt+up", until=lambda: transcript.has_focus)
        for number in range(1, 11):
            await press(pilot, "tab", until=lambda: transcript.block == number)  # noqa: B023
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


# ---- what stands below a block: what its commands would do, in words and colour --------------------------------------

SIZE = (100, 40)


def said(request: str, code: str, language: str = "sh") -> list[str]:
    """The lines below a block."""
    notes = notes_of_block(request, CodeBlock(1, language, code))
    return ["".join(text for text, _ in line.parts) for line in notes.lines]


def noted(app: Window) -> list[str]:
    return [row for row in rows(app) if row.startswith(("notice", "warning", "danger"))]


def test_a_risk_is_one_line_with_its_severity_and_what_it_is_about() -> None:
    (line,) = said("delete the build folder", "rm -rf build")
    assert line.startswith("warning: ") and "`build`" in line
    (line,) = said("make some room", "rm -rf build")
    assert line.startswith(f"warning, {UNASKED}: ")
    for code, language in (("ls -l | sort", "sh"), ("rm -rf /", "python"), ("total 12\n)( drwx", "")):
        assert said("anything", code, language) == [], "a block without a language may be output"
    assert len(said("", "echo )(", "sh")) == 1


def test_the_words_that_do_it_are_coloured_and_output_is_no_command() -> None:
    for code, language, coloured in (
        ("ls\nrm -rf build\nls", "sh", [("rm -rf build", ".warning")]),
        ("rm -rf /", "sh", [("rm -rf /", ".danger")]),
        ("chmod +x run.sh", "sh", []),
        ("$ ls\nrm -rf build\n$ rm -rf dist\n", "console", [("rm -rf dist", ".warning")]),
    ):
        marks = notes_of_block("", CodeBlock(1, language, code)).marks
        assert [(code[start:end], style) for start, end, style in marks] == coloured


def test_the_worst_comes_first_and_a_long_list_is_cut() -> None:
    lines = said("", "\n".join([*(f"rm -rf dir{n}" for n in range(30)), "rm -rf /"]))
    assert lines[0].startswith("danger") and lines[1].startswith("warning")
    assert len(lines) == MOST_LINES and lines[-1] == f"and {31 - MOST_LINES + 1} more"
    assert len(said("", "\n".join(["rm -rf build"] * 5))) == 1, "an equal line stands once"


def test_a_rule_that_fails_takes_no_answer_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(command: str) -> tuple[Risk, ...]:
        raise RecursionError(command)

    monkeypatch.setattr("app.commands.risks.risks", broken)
    assert said("q", "rm -rf this/one") == ["notice: Outrider could not check this code"]
    notes_of_block.cache_clear()


async def test_notes_come_when_the_block_ends_and_those_of_a_withdrawn_draft_go_with_it(store: Store) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    begun: list[Step] = [Verified("Use:\n\n```sh\nrm -rf build\n", 3, 0), gates[0], Verified("```\n\nIt", 3, 0)]
    first: list[Step] = [*begun, gates[1], Verified(" deletes.\n", 3, 0), finished(9)]
    guessed: list[Step] = [Drafted("```sh\nrm -rf build\n```\n\nIt", 3), gates[2], Retracted(3)]
    second: list[Step] = [*guessed, Verified("```sh\nls\n```\n\nIt", 3, 0), gates[3], finished(9)]
    async with started(ScriptedCore(store, [first, second]), SIZE) as (app, pilot):
        await pilot.press(*"room", "enter")
        await wait_until(pilot, lambda: app.drawing and any("rm -rf build" in row for row in rows(app)))
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


def test_what_the_whole_answer_leaves_out_of_the_question_is_noted() -> None:
    request, text = "delete *.log files older than a week", "```sh\nfind . -mtime +7 -delete\n```"
    (_, notes), *rest = answer_notes(request, text, ()).blocks
    assert not rest and "".join(part for part, _ in notes.lines[-1].parts).endswith("of your question: `*.log`")
    assert answer_notes(request, f"```sh\nls *.log\n```\n{text}", ()).blocks[-1][1].lines == notes.lines[:1]
    running = notes_of_block(request, CodeBlock(1, "sh", "find . -mtime +7 -delete"))
    assert running.lines == notes.lines[:1], "it goes on"


# ---- the pages that an answer came from ------------------------------------------------------------------------------


ANSWER = "Use:\n\n```sh\nzap -x file.zap\n```\n"
ZAP = PageSource("zap", "common", "tldr")
LINE = "from the page zap (common) of tldr pages"


def raw(name: str, platform: str, *examples: tuple[str, str]) -> dict[str, Any]:
    return {
        "platform": platform,
        "name": name,
        "alias": False,
        "translations": 3,
        "description": f"The program `{name}`. More: <https://example.org/{name}>.",
        "examples": [{"task": task, "command": command} for task, command in examples],
    }


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    """A folder with an index of two pages."""
    folder = tmp_path / "drafter"
    folder.mkdir()
    pages = [
        raw("zap", "common", ("Extract a file", "zap -x {{file.zap}}"), ("Say what is in it", "zap `-l` {{file.zap}}")),
        raw("zip2", "linux", ("Pack a folder", "zip2 {{folder}}")),
    ]
    write(folder / FILE, pages, ())
    return folder


def stored(store: Store, *sources: object) -> str:
    """A conversation whose answer names these pages; its id."""
    conversation = store.conversations.create("title").id
    answer = store.messages.ask(conversation, "unzap it", parent_id=None)
    store.messages.finish(answer.id, (1, 2), (True, True), ANSWER, "done", {"sources": list(sources)})
    return conversation


async def opened_answer(pilot: Pilot[None], app: Window, conversation: str) -> MarkdownView:
    await app.turn_to(pilot, conversation, until=lambda: app.answers == [ANSWER])
    await wait_until(pilot, lambda: app.screen.query_one(AnswerView).region.height > 0)
    return app.screen.query_one(AnswerView).prose


def test_pages_of_a_message() -> None:
    for stats, pages in (
        ({"sources": "tar"}, []),
        ({"sources": [{"page": "tar"}, "tar", {"page": 3, "platform": "common"}, {"page": "", "platform": "x"}]}, []),
        ({"sources": [{"page": "tar", "platform": "common"}] * 3}, ["tar (common)"]),
        ({"sources": [{"page": "a\x1b[31m\nb", "platform": "common"}]}, ["a b (common)"]),
        ({"sources": [{"page": "x" * 200, "platform": "common"}]}, []),
        ({"sources": [{"page": str(n), "platform": "linux"} for n in range(99)]}, [f"{n} (linux)" for n in range(5)]),
    ):
        assert [f"{source.page} ({source.platform})" for source in sources_of(stats)] == pages


async def test_a_stored_answer_names_its_page_and_a_click_or_a_key_shows_it_if_it_can_be_read(
    store: Store, drafter: Path
) -> None:
    async with started(Window(ScriptedCore(store), Settings(drafter=str(drafter))), (100, 40)) as (app, pilot):
        prose = await opened_answer(pilot, app, stored(store, {"page": "zap", "platform": "common"}))
        assert rows_of(prose)[-1] == LINE
        await pilot.click(prose, offset=(8, len(rows_of(prose)) - 1))
        await wait_until(pilot, lambda: shows(app, SourceScreen))
        page = app.screen.query_one(MarkdownView)
        await wait_until(pilot, lambda: page.size.height > 0)
        shown = rows_of(page)
        assert "zap (common)" in shown[0] and any("zap -x" in row for row in shown)
        await press(pilot, "c", until=lambda: app.clipboard.startswith("# zap (common)"))
        await press(pilot, "escape", until=lambda: not isinstance(app.screen, SourceScreen))
        (drafter / FILE).write_bytes(b"no database" * 400)
        await press(pilot, "alt+up", "s", until=lambda: app.toasted("pages.db") and app.toasted("cannot be read"))


async def test_an_answer_without_a_page_says_so_and_a_new_one_names_its_page_as_soon_as_it_ends(store: Store) -> None:
    core = ScriptedCore(store, [[Verified(ANSWER, 2, 0), replace(finished(2), sources=(ZAP,))]])
    async with started(core, (100, 40)) as (app, pilot):
        await press(pilot, "/", *"source", "enter", until=lambda: app.toasted("There is no message yet."))
        prose = await opened_answer(pilot, app, stored(store))
        assert not any("tldr" in row for row in rows_of(prose))
        await press(pilot, "/", *"source", "enter", until=lambda: app.toasted("cites no page"))
        assert core.prompts == []
        await pilot.press("ctrl+n", *"unzap", "enter")
        await wait_until(pilot, lambda: app.answers == [ANSWER] and app.questions == ["unzap"])
        await wait_until(pilot, lambda: rows_of(app.screen.query_one(AnswerView).prose)[-1:] == [LINE])
