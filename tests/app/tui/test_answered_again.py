"""What the screen says where a server that checks no drafts has answered a question after the device did, offline."""

from __future__ import annotations

import pytest

from app.events import AnsweredAgain, Judged
from app.reply.judgement import judge_again, judgement_stats
from app.tui.widgets.message import AnswerView, WithdrawnLine
from storage import Store
from tests.app.tui.scripted import ScriptedCore, wait_until
from tests.app.tui.window import Window

DRAFT = "Use `tar` to unpack it:\n\n```sh\ntar xf file\n```\n"
OWN = "Use `tar` like this:\n\n```sh\ntar xvzf file\n```\n"
NEVER = ("verified", "checked", "target", "τ")


def answered(store: Store, again: AnsweredAgain) -> tuple[str, Judged]:
    """A conversation whose offline answer was answered again, and what was found out."""
    conversation = store.conversations.create("t").id
    drafted = store.messages.ask(conversation, "Unpack it", parent_id=None)
    store.messages.finish(drafted.id, range(40), [False] * 40, DRAFT, "done", {})
    judged = judge_again(store.messages.get(drafted.id), OWN, again)
    newer = store.messages.verify(drafted.id)
    assert newer is not None and judged is not None
    stats = {"model": again.model, "streamed": 9, **judgement_stats(judged)}
    store.messages.finish(newer.id, (), (), OWN, "done", stats, settles=drafted.id)
    return conversation, judged


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
@pytest.mark.parametrize(
    ("again", "said"),
    [
        (AnsweredAgain("talker", False), "answered again by talker; 50 % of the words are the same"),
        (
            AnsweredAgain("talker", True, (12, 4)),
            "talker got the offline answer as a suggestion and kept 12 of 16 tokens; 50 % of the words",
        ),
    ],
)
async def test_the_note_says_who_answered_and_what_agrees(
    store: Store, size: tuple[int, int], again: AnsweredAgain, said: str
) -> None:
    conversation, judged = answered(store, again)
    app = Window(ScriptedCore(store))
    async with app.run_test(size=size) as pilot:
        await app.chat.open_conversation(conversation)
        answer = app.screen.query_one(AnswerView)
        await wait_until(pilot, lambda: bool(answer.query(WithdrawnLine)))
        assert answer.turn.judged == judged and said in answer.turn.note
        line = answer.query_one(WithdrawnLine)
        assert str(line.content) == "▸ 4 words of the offline answer are not in this one" and answer.turn.struck is None
        await wait_until(pilot, lambda: answer.region.height > 0)
        shown = f"{answer.turn.note} {line.content}"
        assert not any(word in shown for word in NEVER), shown
        height = answer.prose.region.height
        await pilot.press("alt+up", "w")
        await wait_until(pilot, lambda: answer.prose.region.height > height)
        struck = answer.turn.struck
        assert struck is not None and struck.at == len(OWN), "it stands in no place of its own"
        assert [one for one in struck.text.split() if one != "…"] == ["to", "unpack", "it:", "xf"]


async def test_both_versions_say_so(store: Store) -> None:
    conversation, judged = answered(store, AnsweredAgain("talker", True))
    app = Window(ScriptedCore(store))
    async with app.run_test(size=(120, 36)) as pilot:
        await app.chat.open_conversation(conversation)
        await wait_until(pilot, lambda: app.answers == [OWN])
        store.branches.show(judged.message)
        await app.chat.open_conversation(conversation)
        await wait_until(pilot, lambda: app.answers == [DRAFT])
        note = app.screen.query_one(AnswerView).turn.note
        assert "drafted offline" in note and str(judged) in note
        assert not app.screen.query(WithdrawnLine), "the offline answer has all its own words"
