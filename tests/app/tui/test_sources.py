"""The pages that an answer came from: the line below it, and the screen that shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from app.config import Settings
from app.events import PageSource, Verified
from app.tui.block_notes import source_lines
from app.tui.screens.page_sources import OWN_EXAMPLE, SourceScreen, read_sources
from app.tui.turn import sources_of
from app.tui.widgets.markdown_view import MarkdownView
from app.tui.widgets.message import AnswerView
from models.guide.pages import FILE
from recipes.shell_guide.index import write
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, wait_until
from tests.app.tui.window import Window, rows_of, started

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


async def opened(pilot: Pilot[None], app: Window, conversation: str) -> MarkdownView:
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


def test_the_lines_below_an_answer() -> None:
    tar, df = PageSource("tar", "common", "tldr"), PageSource("df", "osx", "tldr")
    own = PageSource("sort", "common", "outrider")
    assert list(source_lines([])) == []
    assert list(source_lines([tar])) == ["from the page tar (common) of tldr pages"]
    pages, examples = source_lines([own, tar, df])
    assert pages == "from the pages tar (common), df (osx) of tldr pages"
    assert examples == "from Outrider's own examples; more on the page sort (common) of tldr pages"
    assert sources_of({"sources": [{"page": "sort", "platform": "common", "by": "outrider"}]}) == (own,)


def test_pages_as_markdown(drafter: Path, tmp_path: Path) -> None:
    away, own = PageSource("zap", "osx", "tldr"), PageSource("zip2", "linux", "outrider")
    text = read_sources([tmp_path / "none", drafter], [ZAP, away, own])
    assert text.startswith("# zap (common)\n\nThe program `zap`.")
    assert "- extract a file\\\n  `zap -x {{file.zap}}`\n" in text
    assert "`` zap `-l`" in text, "backticks of a command stay in it"
    assert "# zap (osx)\n\nThis page is not in the index on this device." in text
    assert text.count(OWN_EXAMPLE) == 1 and text.index(OWN_EXAMPLE) > text.index("# zip2")
    assert "Creative Commons Attribution 4.0" in text.rsplit("---", 1)[1]


async def test_a_stored_answer_names_its_page_and_a_click_or_a_key_shows_it(store: Store, drafter: Path) -> None:
    async with started(Window(ScriptedCore(store), Settings(drafter=str(drafter))), (100, 40)) as (app, pilot):
        prose = await opened(pilot, app, stored(store, {"page": "zap", "platform": "common"}))
        assert rows_of(prose)[-1] == LINE
        await pilot.click(prose, offset=(8, len(rows_of(prose)) - 1))
        await wait_until(pilot, lambda: shows(app, SourceScreen))
        page = app.screen.query_one(MarkdownView)
        await wait_until(pilot, lambda: page.size.height > 0)
        shown = rows_of(page)
        assert "zap (common)" in shown[0] and any("zap -x" in row for row in shown)
        await press(pilot, "c", until=lambda: app.clipboard.startswith("# zap (common)"))
        await press(pilot, "escape", until=lambda: not isinstance(app.screen, SourceScreen))
        await press(pilot, "alt+up", "s", until=lambda: shows(app, SourceScreen))


async def test_an_answer_without_a_page_says_so_and_a_new_one_names_its_page_as_soon_as_it_ends(store: Store) -> None:
    core = ScriptedCore(store, [[Verified(ANSWER, 2, 0), replace(finished(2), sources=(ZAP,))]])
    async with started(core, (100, 40)) as (app, pilot):
        await press(pilot, "/", *"source", "enter", until=lambda: app.toasted("There is no message yet."))
        prose = await opened(pilot, app, stored(store))
        assert not any("tldr" in row for row in rows_of(prose))
        await press(pilot, "/", *"source", "enter", until=lambda: app.toasted("cites no page"))
        assert core.prompts == []
        await pilot.press("ctrl+n", *"unzap", "enter")
        await wait_until(pilot, lambda: app.answers == [ANSWER] and app.questions == ["unzap"])
        await wait_until(pilot, lambda: rows_of(app.screen.query_one(AnswerView).prose)[-1:] == [LINE])


async def test_a_page_that_cannot_be_read_is_an_error(store: Store, drafter: Path) -> None:
    (drafter / FILE).write_bytes(b"no database" * 400)
    async with started(Window(ScriptedCore(store), Settings(drafter=str(drafter))), (100, 40)) as (app, pilot):
        await opened(pilot, app, stored(store, {"page": "zap", "platform": "common"}))
        await press(pilot, "alt+up", "s", until=lambda: app.toasted("pages.db") and app.toasted("cannot be read"))
