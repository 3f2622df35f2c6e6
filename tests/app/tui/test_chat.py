"""The chat: its window, its conversations, and several answers at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from app.config import Settings
from app.events import Event, Failed, ModeChanged, RoundEnded, Verified
from app.tui.open_conversation import OpenConversation
from app.tui.screens.chat import screen as chat_screen
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.message import AnswerView
from app.tui.widgets.sidebar import Sidebar
from app.tui.widgets.status_bar import StatusBar
from app.tui.widgets.welcome import Welcome
from drafter.runtime import Drafter
from storage import Message, Store
from storage.database import Database
from storage.messages import Messages
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, press, store_turns, verified, wait_until
from tests.app.tui.window import started
from tests.support.conversing import assistant
from tests.support.serving import VerifierProcess

ANSWER = "Use `ls`:\n\n```sh\nls -la {{path}}\n```\n"
WARMING = ModeChanged("warming", "starting the bundled model")


async def test_the_window_opens_before_the_verifier_is_ready_and_a_question_is_answered(store: Store) -> None:
    core = ScriptedCore(store, [[*verified(ANSWER), RoundEnded(STATS), finished(21)]], WARMING)
    async with started(core, (120, 30)) as (app, pilot):
        await wait_until(pilot, lambda: app.text("#badge") == "connecting")
        assert app.text("#why") == "starting the bundled model"
        assert app.prompt.has_focus and app.screen.query_one(Welcome).display
        core.modes.put_nowait(ModeChanged("edge", "checked by shell-guide"))
        await wait_until(pilot, lambda: app.text("#badge") == "online")
        await press(pilot, *"list", "ctrl+j", *"files", "enter", until=lambda: app.answers == [ANSWER])
        assert core.prompts == [(store.conversations.all()[0].id, "list\nfiles")]
        assert app.questions == ["list\nfiles"]
        assert app.prompt.text == "" and not app.screen.query_one(Welcome).display
        await wait_until(pilot, lambda: app.titles[-1] == "▍ list files")
        assert app.text("#figures") == "42 tokens/s  21 tokens checked"
        await press(pilot, "ctrl+y", until=lambda: app.clipboard == "ls -la {{path}}")
        core.modes.put_nowait(ModeChanged("offline", "no route"))
        await wait_until(pilot, lambda: app.screen.query_one(StatusBar).has_class("-offline"))
        assert not app.screen.query_one(StatusBar).has_class("-edge")


async def test_a_failure_is_told_and_what_was_asked_or_typed_since_is_kept(store: Store) -> None:
    hold = asyncio.Event()
    failures = [Failed(f"The verifier speaks version {number}.", "incompatible") for number in range(3)]
    broke_off: list[Step] = [Verified("Use `ls", 3, 0), failures[2]]
    async with started(ScriptedCore(store, [[failures[0]], [hold, failures[1]], broke_off])) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.text("AnswerView > .error") == failures[0].message)
        assert app.prompt.text == "a"
        await pilot.press(*"new")
        assert app.prompt.text == "new", "what is typed next takes the place of what came back"
        await press(pilot, "ctrl+u", "ctrl+n", "b", "enter", until=lambda: app.prompt.answering)
        await pilot.press(*"next")
        hold.set()
        await wait_until(pilot, lambda: app.text("AnswerView > .error") == failures[1].message)
        assert app.prompt.text == "next"
        await pilot.press("up")
        assert app.prompt.text == "b", "it can be recalled"
        await pilot.press("down")
        assert app.prompt.text == "next"
        await pilot.press("ctrl+u", "ctrl+n", "c", "enter")
        await wait_until(pilot, lambda: app.text("AnswerView > .error") == failures[2].message)
        await wait_until(pilot, lambda: not app.prompt.answering)
        await pilot.press(*"then")
        assert app.prompt.text == "then", "the question whose answer broke off is not put back"
        await pilot.press("up")
        assert app.prompt.text == "c"


async def test_a_window_shows_what_another_does(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When one comes back to it, when one asks, and in sight: a terminal may tell of no focus, as tmux by default."""
    conversation = store_turns(store, "one", [("first", "a")])
    ended = asyncio.Event()
    core = ScriptedCore(store, [[ended, *verified("yes"), finished(3)]])
    with Store.open(store.path) as other:

        def go_on(question: str) -> str:
            """Ask in the other window, whose answer keeps running."""
            tip = other.conversations.get(conversation).tip_id
            return other.messages.ask(conversation, question, parent_id=tip).id

        async with started(core, (120, 30), at=conversation) as (app, pilot):
            await wait_until(pilot, lambda: any("one" in title for title in app.titles))
            app.post_message(events.AppBlur())
            go_on("elsewhere")
            other.conversations.create("two")
            app.post_message(events.AppFocus())
            await wait_until(pilot, lambda: app.questions == ["first", "elsewhere"])
            await wait_until(pilot, lambda: any("two" in title for title in app.titles))
            again = go_on("again")
            await pilot.press(*"mine", "enter")
            wanted = ["first", "elsewhere", "again", "mine"]
            await wait_until(pilot, lambda: app.questions == wanted)
            other.messages.finish(again, (1,), (True,), "ended there", "done", {})
            app.chat.conversation.changed_elsewhere()  # As the window looks around while its own answer runs.
            ended.set()
            await wait_until(pilot, lambda: app.answers[-2:] == ["ended there", "yes"])
        monkeypatch.setattr(chat_screen, "LOOK_SECONDS", 0.05)
        async with started(ScriptedCore(store), (120, 30), at=conversation) as (app, pilot):
            await wait_until(pilot, lambda: app.questions == wanted)
            other.conversations.create("three")
            await wait_until(pilot, lambda: any("three" in title for title in app.titles))
            answer = go_on("last")
            await wait_until(pilot, lambda: app.questions == [*wanted, "last"])
            said = "another window is writing it"
            await wait_until(pilot, lambda: said in [str(note.content) for note in app.screen.query(".note")])
            other.messages.finish(answer, (1,), (True,), "done there", "done", {})
            await wait_until(pilot, lambda: app.answers[-1] == "done there")


async def test_the_list_opens_a_conversation_and_one_that_is_gone_is_an_error(store: Store) -> None:
    conversation = store_turns(store, "evil \x1b]0;title\x07\x1b[2Jname", [("one", "1"), ("two", "2")])
    async with started(ScriptedCore(store)) as (app, pilot):
        conversations, sidebar = app.screen.query_one(ConversationList), app.screen.query_one(Sidebar)
        assert not sidebar.display, "hidden below 110 columns"
        await press(pilot, "ctrl+b", until=lambda: conversations.has_focus)
        await pilot.resize_terminal(40, 30)  # Where the list would take the whole width.
        await wait_until(pilot, lambda: not sidebar.display and app.prompt.has_focus)
        await pilot.resize_terminal(100, 30)
        await press(pilot, "ctrl+b", until=lambda: conversations.has_focus)
        assert app.titles == ["+ New conversation", "  evil name"]
        await press(pilot, "end", "enter", until=lambda: app.answers == ["1", "2"])
        await wait_until(pilot, lambda: app.prompt.has_focus and not sidebar.display)
        assert app.text("#title") == "evil name"
        await press(pilot, "ctrl+n", until=lambda: app.questions == [] and app.screen.query_one(Welcome).display)
        store.bin.delete(conversation)
        await app.turn_to(pilot, conversation, until=lambda: app.toasted(conversation))
        assert app.chat.conversation.id is None


class SlowMessages(Messages):
    """Waits, where it is told to, between what it has read and whoever wants it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.read, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    def of(self, conversation_id: str) -> list[Message]:
        found = super().of(conversation_id)
        self.read.set()
        self.goes_on.wait(15)
        return found


async def test_an_answer_goes_on_while_another_conversation_is_open_or_ends_while_its_own_opens(tmp_path: Path) -> None:
    store = Store(tmp_path / "outrider.db")
    slow = store.messages = SlowMessages(store.database)
    other = store_turns(store, "other", [("q", "stored *answer*")])
    more, rest = asyncio.Event(), asyncio.Event()
    half: list[Step] = [Verified("half", 1, 0), more, Verified(" and more", 2, 0)]
    whole: list[Step] = [rest, Verified(" and the rest", 2, 0), finished(3)]
    async with started(ScriptedCore(store, [half + whole])) as (app, pilot):
        await press(pilot, *"hi", "enter", until=lambda: app.drawing)
        asked = app.chat.conversation.id
        await app.turn_to(pilot, other, until=lambda: app.answers == ["stored *answer*"])
        await app.turn_to(pilot, asked, until=lambda: app.questions == ["hi"])
        more.set()
        await wait_until(pilot, lambda: app.screen.query_one(AnswerView).prose.source == "half and more")
        await app.chat.open_conversation(other)
        slow.read.clear()
        slow.goes_on.clear()
        opening = asyncio.create_task(app.chat.open_conversation(asked))
        await wait_until(pilot, slow.read.is_set)
        rest.set()
        await wait_until(pilot, lambda: app.chat.conversation.live is None)
        slow.goes_on.set()
        await opening
        await wait_until(pilot, lambda: app.answers == ["half and more and the rest"])
        assert app.screen.query_one(AnswerView).turn.outcome == "done"
    store.close()


async def test_over_the_assistant_itself_what_is_shown_is_what_is_stored(
    drafter: Drafter, verifier: VerifierProcess, tmp_path: Path
) -> None:
    settings = Settings(max_tokens=24)
    async with (
        assistant(drafter, tmp_path / "o.db", verifier.url, settings=settings) as core,
        started(core, (120, 40)) as (app, pilot),
    ):
        await wait_until(pilot, lambda: app.text("#badge") == "online")
        await pilot.press("f3")
        for count in (1, 2):
            await pilot.press(*"list files", "enter")
            await wait_until(pilot, lambda: len(app.answers) == count and not app.prompt.answering)  # noqa: B023
        stored = core.store.branches.thread(app.chat.conversation.id)[1::2]
        assert app.answers == [message.text for message in stored]
        assert all(all(message.provenance) for message in stored)
        await wait_until(pilot, lambda: "dimmed, retracted" in app.text("Panel Static"))
        await wait_until(pilot, lambda: f"{sum(len(m.tokens) for m in stored)}" in app.text("Panel Static"))
        await pilot.press("alt+up", "r")
        await wait_until(pilot, lambda: app.screen.query(AnswerView).last().turn.versions == (2, 2))
        await wait_until(pilot, lambda: len(app.answers) == 2 and not app.prompt.answering)


# ---- the open conversation where its store or its reply fails, or another window writes ------------------------------


TURNS = (("one", "first"), ("two", "second"))


async def opened(conversation: OpenConversation, conversation_id: str | None, message_id: str | None = None) -> None:
    stored = await conversation.read(conversation_id, message_id)
    assert stored is not None
    conversation.open(stored)


async def two_turns(store: Store) -> OpenConversation:
    """A conversation with two answered questions, open."""
    conversation = OpenConversation(ScriptedCore(store))
    await opened(conversation, store_turns(store, "title", TURNS))
    return conversation


def shown(conversation: OpenConversation) -> list[tuple[str, str]]:
    return [(turn.question, turn.text) for turn in conversation.turns]


async def test_what_another_window_writes_while_one_is_read_is_not_missed(store: Store) -> None:
    conversation = await two_turns(store)
    with Store.open(store.path) as other:
        stored = await conversation.read(conversation.id)
        assert stored is not None and conversation.id is not None
        other.messages.ask(conversation.id, "elsewhere", parent_id=other.conversations.get(conversation.id).tip_id)
        assert conversation.changed_elsewhere()
        conversation.open(stored)
    assert conversation.changed_elsewhere() and conversation.outdated
    assert not conversation.changed_elsewhere()


@pytest.mark.parametrize("dies", [False, True])
async def test_an_answer_of_another_window_is_shown_when_it_ends_though_more_was_asked_here(
    store: Store, dies: bool
) -> None:
    conversation = await two_turns(store)
    assert conversation.id is not None
    with Store.open(store.path) as other:
        there = other.messages.ask(conversation.id, "there", parent_id=store.branches.thread(conversation.id)[-1].id)
        other.messages.checkpoint(there.id, (1,), (True,), "written there")
        here = store.messages.ask(conversation.id, "here", parent_id=there.id)
        store.messages.finish(here.id, (1,), (True,), "written here", "done", {})
        await opened(conversation, conversation.id)
        assert conversation.changed_elsewhere() and not conversation.outdated
        assert [turn.outcome for turn in conversation.turns[-2:]] == ["elsewhere", "done"]
        if not dies:
            other.messages.finish(there.id, (1,), (True,), "written there", "done", {})
    assert conversation.changed_elsewhere() and conversation.outdated
    await opened(conversation, conversation.id)
    assert [turn.outcome for turn in conversation.turns[-2:]] == ["interrupted" if dies else "done", "done"]
    assert conversation.turns[-2].text == "written there" and not conversation.outdated


async def test_a_reply_that_dies_or_ends_early_is_a_failed_turn(store: Store) -> None:
    async def dies() -> AsyncIterator[Event]:
        yield Verified("half", 1, 0)
        raise ValueError("no \x1b[31msuch luck")

    async def ends() -> AsyncIterator[Event]:
        yield Verified("half", 1, 0)

    async def draws(event: Event) -> None:
        pass

    async def draws_not(event: Event) -> None:
        raise RuntimeError("nobody draws it")

    conversation = await two_turns(store)
    for said, tell, error in (
        (dies(), draws, "The answer failed: no such luck."),
        (ends(), draws, "The answer ended early."),
        (ends(), draws_not, "The answer failed: nobody draws it."),
    ):
        reply = conversation.ask("three")
        reply.events = said
        conversation.start(reply)
        await conversation.listen(reply, tell)
        assert reply.turn.outcome == "failed" and reply.turn.error.startswith(error) and reply.turn.text == "half"
        assert conversation.live is None


async def test_a_message_of_another_branch_is_found_and_its_branch_shown(store: Store) -> None:
    conversation = await two_turns(store)
    assert conversation.id is not None
    first = store.branches.thread(conversation.id)[0]
    other = store.messages.ask(conversation.id, "one, in other words", parent_id=None)
    store.messages.finish(other.id, (1,), (True,), "another", "done", {})
    await opened(conversation, conversation.id)
    assert shown(conversation) == [("one, in other words", "another")]
    stored = await conversation.read(conversation.id, first.id)
    assert stored is not None and stored.found == 0
    conversation.open(stored)
    assert shown(conversation) == list(TURNS)


# ---- several answers at once: each goes on, ends, and is stopped in its own conversation -----------------------------


WIDE = 120, 30


async def test_each_answer_has_its_own_escape_figures_and_end(store: Store) -> None:
    rest = [asyncio.Event() for _ in range(3)]
    stats = [replace(STATS, verified=100 + at) for at in range(3)]
    scripts: list[list[Step]] = [
        [
            ModeChanged("edge", f"written by server {at}"),
            Verified(f"begun {at}", 1, 0),
            RoundEnded(stats[at]),
            rest[at],
            Verified(" and ended", 2, 0),
            Failed("The line broke.", "unavailable") if at == 1 else finished(3, stats=stats[at]),
        ]
        for at in range(3)
    ]
    async with started(ScriptedCore(store, scripts), WIDE) as (app, pilot):
        opened = app.chat.conversation
        ids = list[str | None]()
        for key in "abc":
            await press(pilot, "ctrl+n", key, "enter", until=lambda: app.questions == [key] and app.drawing)  # noqa: B023
            ids.append(opened.id)
        await wait_until(pilot, lambda: {"… a", "… b", "▍ c"} <= set(app.titles))
        await wait_until(pilot, lambda: "102 tokens checked" in app.text("#figures"))
        await press(pilot, "escape", until=lambda: set(opened.replies) == set(ids[:2]) and not app.prompt.answering)
        await app.turn_to(pilot, str(ids[0]), until=lambda: app.questions == ["a"] and app.drawing)
        assert app.screen.query_one(AnswerView).turn.text == "begun 0"
        await wait_until(pilot, lambda: app.prompt.answering and "100 tokens checked" in app.text("#figures"))
        await wait_until(pilot, lambda: app.text("#why") in ("", "written by server 0"))
        rest[1].set()
        await wait_until(pilot, lambda: app.toasted("The line broke.") and "✗ b" in app.titles)
        await press(pilot, "ctrl+n", until=lambda: opened.id is None)
        await wait_until(pilot, lambda: not app.prompt.answering)
        rest[0].set()
        await wait_until(pilot, lambda: "● a" in app.titles and app.toasted("Answered a"))
        await app.turn_to(pilot, str(ids[0]), until=lambda: app.answers == ["begun 0 and ended"])
        await wait_until(pilot, lambda: {"▍ a", "✗ b", "  c"} <= set(app.titles))
        assert opened.replies == {} and set(opened.ended) == {ids[1]}


async def test_what_the_server_has_no_room_for_waits_in_its_own_conversation(store: Store) -> None:
    hold = asyncio.Event()
    core = ScriptedCore(store, [[Verified("one", 1, 0), hold, finished(1)], [Verified("two", 1, 0), finished(1)]])
    core.places = 1
    async with started(core, WIDE) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.drawing)
        await press(pilot, "ctrl+n", "b", "enter", until=lambda: app.waiting == ["b"] and app.prompt.text == "")
        assert "asked when another answer has ended" in app.text("QueuedPrompts > .note")
        await press(pilot, "ctrl+s", until=lambda: app.prompt.text == "b" and app.chat.conversation.id is None)
        await press(pilot, "enter", until=lambda: app.waiting == ["b"])
        (queued,) = store.queue.all()
        hold.set()
        await wait_until(pilot, lambda: app.chat.conversation.replies == {})
        core.outbox.returned.put_nowait(queued)
        await wait_until(pilot, lambda: app.answers == ["two"] and app.waiting == [])
        assert not store.queue.all() and app.questions == ["b"]
