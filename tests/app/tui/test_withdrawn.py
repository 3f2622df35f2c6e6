"""What is told of a draft whose end the check did not keep: struck through where it stood, as far as it is wanted."""

from __future__ import annotations

from rich.style import Style
from textual.pilot import Pilot

from app.events import AnsweredAgain, Judged
from app.reply.judgement import judge_again, judgement_stats
from app.tui.widgets.message import AnswerView, WithdrawnLine
from storage import Store
from tests.app.tui.scripted import ScriptedCore, press, wait_until
from tests.app.tui.window import Window, started

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


async def checked(pilot: Pilot[None], app: Window, conversation: str) -> AnswerView:
    """The checked answer, as it is shown at first."""
    await app.turn_to(pilot, conversation, until=lambda: bool(app.screen.query(WithdrawnLine)))
    answer = app.screen.query_one(AnswerView)
    await wait_until(pilot, lambda: answer.prose.size.height > 3)
    return answer


async def shown(pilot: Pilot[None], app: Window, conversation: str) -> AnswerView:
    """The checked answer, with the words that were not kept."""
    answer = await checked(pilot, app, conversation)
    await press(pilot, "alt+up", "w", until=lambda: bool(struck(answer)))
    return answer


async def test_it_is_struck_through_where_it_stood_and_can_be_hidden_and_shown_again(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        answer = await shown(pilot, app, judged(store))
        found = rows(answer)
        assert found[0] == "Use tar. It knows ~these options:~ many forms:"
        assert [row.strip() for row in found[1:6]] == [
            "",
            "• ~-x extracts~",
            "• ~-v names each~",
            "",
            "~tar xf file~",
        ]
        assert found[-1].strip() == "tar xvzf file"
        assert app.text(".withdrawn") == f"▾ {LABEL}"
        await press(pilot, "w", until=lambda: app.text(".withdrawn") == f"▸ {LABEL}" and not struck(answer))
        assert rows(answer)[0] == "Use tar. It knows many forms:"
        await pilot.click(WithdrawnLine)
        await wait_until(pilot, lambda: app.text(".withdrawn") == f"▾ {LABEL}" and "these options:" in struck(answer))
        anew = AnswerView(answer.turn)
        await app.screen.mount(anew)
        await wait_until(pilot, lambda: "these options:" in struck(anew))


async def test_struck_text_is_neither_copied_nor_selected_and_nothing_is_told_where_all_was_kept(store: Store) -> None:
    draft, own = "Try:\n\n```sh\ncd /x\ntar xf file\n```\n", "Try:\n\n```sh\ncd /x\ntar xvzf file\n```\n"
    async with started(ScriptedCore(store)) as (app, pilot):
        answer = await shown(pilot, app, judged(store, draft, own))
        assert [row.strip() for row in rows(answer)[3:]] == ["cd /x", "~tar xf file~", "tar xvzf file"]
        answer.prose.action_copy_block(1)
        await wait_until(pilot, lambda: app.clipboard == "cd /x\ntar xvzf file")
        answer.prose.text_select_all()
        await wait_until(pilot, lambda: app.screen.get_selected_text() is not None)
        assert app.screen.get_selected_text() == "Try:\ncd /x\ntar xvzf file"
        await app.chat.open_conversation(judged(store, KEPT, OWN))
        await wait_until(pilot, lambda: app.answers == [OWN])
        assert not app.screen.query(WithdrawnLine)
        app.prompt.focus()
        await press(pilot, "alt+up", "w", until=lambda: app.toasted("did not remove any words"))


AGAIN_DRAFT = "Use `tar` to unpack it:\n\n```sh\ntar xf file\n```\n"
AGAIN_OWN = "Use `tar` like this:\n\n```sh\ntar xvzf file\n```\n"
NEVER = ("verified", "checked", "target", "τ")


def answered(store: Store, again: AnsweredAgain) -> tuple[str, Judged]:
    """A conversation whose offline answer was answered again, and what was found out."""
    conversation = store.conversations.create("t").id
    drafted = store.messages.ask(conversation, "Unpack it", parent_id=None)
    store.messages.finish(drafted.id, range(40), [False] * 40, AGAIN_DRAFT, "done", {})
    judged = judge_again(store.messages.get(drafted.id), AGAIN_OWN, again)
    newer = store.messages.verify(drafted.id)
    assert newer is not None and judged is not None
    stats = {"model": again.model, "streamed": 9, **judgement_stats(judged)}
    store.messages.finish(newer.id, (), (), AGAIN_OWN, "done", stats, settles=drafted.id)
    return conversation, judged


async def test_the_note_of_both_versions_says_who_answered_and_what_agrees(store: Store) -> None:
    first = "answered again by talker; 50 % of the words are the same"
    second = "talker got the offline answer as a suggestion and kept 12 of 16 tokens; 50 % of the words"
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        for again, said in (
            (AnsweredAgain("talker", False), first),
            (AnsweredAgain("talker", True, (12, 4)), second),
        ):
            conversation, judged = answered(store, again)
            await app.chat.open_conversation(conversation)
            answer = app.screen.query_one(AnswerView)
            await wait_until(pilot, lambda: bool(answer.query(WithdrawnLine)))  # noqa: B023
            assert answer.turn.judged == judged and said in answer.turn.note
            line = answer.query_one(WithdrawnLine)
            assert str(line.content) == "▸ 4 words of the offline answer are not in this one"
            assert not answer.turn.struck
            await wait_until(pilot, lambda: answer.region.height > 0)  # noqa: B023
            shown = f"{answer.turn.note} {line.content}"
            assert not any(word in shown for word in NEVER), shown
            height = answer.prose.region.height
            app.prompt.focus()
            await pilot.press("alt+up", "w")
            await wait_until(pilot, lambda: answer.prose.region.height > height)  # noqa: B023
            (struck,) = answer.turn.struck
            assert struck.at == len(AGAIN_OWN), "it stands in no place of its own"
            assert [one for one in struck.text.split() if one != "…"] == ["to", "unpack", "it:", "xf"]
            store.branches.show(judged.message)
            await app.turn_to(pilot, conversation, until=lambda: app.answers == [AGAIN_DRAFT])
            note = app.screen.query_one(AnswerView).turn.note
            assert "drafted offline" in note and str(judged) in note
            assert not app.screen.query(WithdrawnLine), "the offline answer has all its own words"
