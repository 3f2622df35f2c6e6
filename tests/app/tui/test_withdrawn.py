"""What is told of a draft whose end the target did not keep: below the answer, folded, as it was written."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from app.reply.judgement import midway
from app.tui.widgets.markdown_view import MarkdownView
from app.tui.widgets.message import AnswerView, WithdrawnText
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until
from tests.app.tui.window import Window

KEPT = "Use `tar`. It knows "
DRAFT = f"{KEPT}these options:\n\n- `-x` extracts\n- `-v` names each\n\n```sh\ntar xf file\n```\n"
OWN = f"{KEPT}many forms:\n\n```sh\ntar xvzf file\n```\n"


def judged(store: Store, draft: str = DRAFT, own: str = OWN) -> str:
    conversation = store.conversations.create("t").id
    asked = store.messages.add(conversation, "user", "Unpack it", parent_id=None, status="done")
    drafted = store.messages.add(conversation, "assistant", "", parent_id=asked.id, status="pending")
    store.messages.finish(drafted.id, range(40), [False] * 40, draft, "done", {})
    answer = store.messages.verify(drafted.id)
    assert answer is not None
    stats = {"kept": 11, "of": 40}
    store.messages.finish(answer.id, range(60), [True] * 60, own, "done", stats, settles=drafted.id)
    return conversation


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_it_unfolds_below_the_answer_with_its_own_lines(store: Store, size: tuple[int, int]) -> None:
    app = Window(ScriptedCore(store))
    conversation = judged(store)
    async with app.run_test(size=size) as pilot:
        await app.chat.open_conversation(conversation)
        answer = app.screen.query_one(AnswerView)
        await wait_until(pilot, lambda: bool(answer.query(WithdrawnText)))
        withdrawn = answer.query_one(WithdrawnText)
        label, prose = withdrawn.query_one(".label", Static), withdrawn.query_one(MarkdownView)
        await wait_until(pilot, lambda: label.region.height == 1)
        assert str(label.content) == "▸ 10 drafted words were not kept when the answer was checked"
        assert label.region.y >= answer.prose.region.bottom and not prose.display
        await pilot.press("alt+up", "w")
        await wait_until(pilot, lambda: prose.region.height > 5)
        assert str(label.content).startswith("▾")
        rows = [prose.render_line(row).text.strip() for row in range(prose.region.height)]
        assert rows[0] == "… these options:" and "• -x extracts" in rows and "• -v names each" in rows
        assert any(row.startswith("tar xf file") for row in rows)
        await pilot.press("w")
        await wait_until(pilot, lambda: not prose.display and str(label.content).startswith("▸"))
        await pilot.click(label)
        await wait_until(pilot, lambda: prose.display)


async def test_it_stays_unfolded_where_it_is_mounted_anew(store: Store) -> None:
    app = Window(ScriptedCore(store))
    conversation = judged(store)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.chat.open_conversation(conversation)
        await wait_until(pilot, lambda: bool(app.screen.query(WithdrawnText)))
        await pilot.press("alt+up", "w")
        turn = app.screen.query_one(AnswerView).turn
        anew = AnswerView(turn)
        await app.screen.mount(anew)
        await wait_until(
            pilot,
            lambda: bool(anew.query(WithdrawnText)) and anew.query_one(WithdrawnText).query_one(MarkdownView).display,
        )


async def test_nothing_is_told_where_all_was_kept(store: Store) -> None:
    app = Window(ScriptedCore(store))
    conversation = judged(store, KEPT, OWN)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.chat.open_conversation(conversation)
        await wait_until(pilot, lambda: app.answers == [OWN])
        assert not app.screen.query(WithdrawnText)
        await pilot.press("alt+up", "w")
        await wait_until(pilot, lambda: any("withdrawn" in one.message for one in app._notifications))


@pytest.mark.parametrize(
    ("draft", "own", "within"),
    [
        ("Use tar xf", "Use zip", True),
        ("Use tar. Then ls", "Use tar. Next", False),
        ("unzip", "tar", False),
        ("one:\n\n- two", "one:\n\n1. two", False),
        ("```sh\nls -l\n```", "```sh\nls -a\n```", True),
    ],
)
def test_where_it_begins(draft: str, own: str, within: bool) -> None:
    assert midway(draft, own) is within
