"""The chat stands in one column with one left and one right edge, and notices stand away from the prompt."""

from __future__ import annotations

import time
from typing import Any

import pytest
from textual.events import MouseScrollUp
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets._toast import Toast

from app.tui.screens.chat.screen import NARROW
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.transcript import QueuedPrompts
from storage import Store
from tests.app.tui.scripted import ScriptedCore, store_turns, wait_until
from tests.app.tui.window import Window, started

CODE = "Use it:\n\n```sh\n" + "ls -l\n" * 3 + "```\n"
COLUMN = 100
"""The widest that the column may be, in cells."""


def edges(widget: Widget) -> tuple[int, int]:
    return widget.region.x, widget.region.right


@pytest.mark.parametrize("size", [(60, 24), (200, 50)])
async def test_all_parts_have_one_right_edge_with_a_scrollbar_and_without(store: Store, size: tuple[int, int]) -> None:
    app = Window(ScriptedCore(store))
    conversations = [store_turns(store, "title", [("q", CODE)] * turns) for turns in (1, 12)]
    for conversation in conversations:
        store.queue.add(conversation, "later")
    async with app.run_test(size=size) as pilot:
        for conversation in conversations:
            await app.turn_to(pilot, conversation, until=lambda: app.screen.query_one(QueuedPrompts).region.height > 0)
            await wait_until(pilot, lambda: app.screen.query(AnswerView).last().prose.region.height > 0)
            question, answer = app.screen.query(QuestionView).last(), app.screen.query(AnswerView).last()
            left, right = edges(app.prompt)
            assert edges(question) == edges(answer) == (left, right)
            assert answer.prose.region.right == app.screen.query_one(QueuedPrompts).region.right == right
            main = app.screen.query_one("#main").region
            assert right - left <= COLUMN
            assert abs((left - main.x) - (main.right - right)) <= 1, "it stands in the middle"
            if size[0] <= COLUMN:
                most = 1 if size[0] < NARROW else 4
                assert main.width - (right - left) <= most, "no room is wasted"


async def test_the_wheel_scrolls_beside_the_column(store: Store) -> None:
    conversation = store_turns(store, "title", [("q", CODE * 3)] * 12)
    async with started(ScriptedCore(store), (200, 30), at=conversation) as (app, pilot):
        transcript = app.chat.query_one("Transcript")
        await wait_until(pilot, lambda: transcript.scroll_y > 0 and transcript.scroll_y == transcript.max_scroll_y)
        before, main = transcript.scroll_y, app.screen.query_one("#main").region
        await pilot._post_mouse_events([MouseScrollUp], offset=(main.right - 2, 10), times=3)
        await wait_until(pilot, lambda: transcript.scroll_y < before)


class Drawn(Window):
    """Knows when the whole screen was drawn last."""

    whole = 0.0

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if getattr(renderable, "region", None) == screen.size.region:
            self.whole = time.monotonic()
        super()._display(screen, renderable)


async def test_all_is_drawn_again_once_a_notice_has_gone_and_none_covers_the_prompt(store: Store) -> None:
    app = Drawn(ScriptedCore(store))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        app.notify("notice", timeout=0.2)
        await wait_until(pilot, lambda: bool(app.screen.query(Toast)))
        await wait_until(pilot, lambda: not app.screen.query(Toast))
        gone = time.monotonic()
        await wait_until(pilot, lambda: app.whole > gone)
        app.prompt.write("\n".join("a long prompt" for _ in range(20)))
        for number in range(3):
            app.notify(f"notice {number}", title="Title")
        await wait_until(pilot, lambda: len(app.screen.query(Toast)) == 3 and app.prompt.region.height > 9)
        await wait_until(pilot, lambda: all(toast.region.height for toast in app.screen.query(Toast)))
        for width in (80, 200):
            await pilot.resize_terminal(width, 24)
            await wait_until(pilot, lambda: app.screen.size.width == width and app.prompt.region.height > 9)  # noqa: B023
            await pilot.pause()
            assert max(toast.region.bottom for toast in app.screen.query(Toast)) <= app.prompt.region.y, width


async def test_the_head_of_a_code_block_names_its_language_and_copies_it_alone(store: Store) -> None:
    text = "One:\n\n```python\nprint(1)\n```\n\nTwo:\n\n```\nls\n```\n"
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        await app.chat.open_conversation(store_turns(store, "title", [("q", text)]))
        await wait_until(pilot, lambda: app.answers == [text])
        prose = app.screen.query_one(AnswerView).prose
        await wait_until(pilot, lambda: prose.region.height > 6)
        rows = [prose.render_line(y).text for y in range(prose.size.height)]
        heads = [(at, row.split()) for at, row in enumerate(rows) if "copy" in row]
        assert [words for _, words in heads] == [["python", "copy", "1"], ["copy", "2"]]
        for (at, _), code in zip(heads, ("print(1)", "ls"), strict=True):
            assert rows[at + 1].strip() == code
            await pilot.click(prose, offset=(rows[at].index("copy") + 1, at))
            await wait_until(pilot, lambda: app.clipboard == code)  # noqa: B023
