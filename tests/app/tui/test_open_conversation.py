"""The state of the open conversation and what can be done with it, without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.events import Drafted, Event, Failed, ModeChanged, Verified
from app.titles import TITLE_LENGTH
from app.tui.open_conversation import NotPossible, OpenConversation, ReplyRunning
from app.tui.running_reply import RunningReply
from app.tui.turn import Part
from storage import NotFound, Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, store_turns, verified

OFFLINE = ModeChanged("offline", "no route")
TURNS = (("one", "first"), ("two", "second"))


async def opened(conversation: OpenConversation, conversation_id: str | None, message_id: str | None = None) -> None:
    stored = await conversation.read(conversation_id, message_id)
    assert stored is not None
    conversation.open(stored)


async def two_turns(store: Store, *scripts: list[Step]) -> OpenConversation:
    """A conversation with two answered questions, open."""
    conversation = OpenConversation(ScriptedCore(store, scripts))
    await opened(conversation, store_turns(store, "title", TURNS))
    return conversation


async def heard(conversation: OpenConversation, reply: RunningReply) -> list[Event]:
    """Runs a reply to its end."""
    events: list[Event] = []

    async def tell(event: Event) -> None:
        events.append(event)

    conversation.start(reply)
    await conversation.listen(reply, tell)
    return events


def shown(conversation: OpenConversation) -> list[tuple[str, str]]:
    return [(turn.question, turn.text) for turn in conversation.turns]


async def drafted(store: Store, mode: ModeChanged, *scripts: list[Step]) -> OpenConversation:
    """A conversation with one answer that nobody verified."""
    made = store.conversations.create("drafted")
    answer = store.messages.ask(made.id, "q", parent_id=None)
    store.messages.finish(answer.id, (1, 2), (False, False), "alone", "done", {})
    conversation = OpenConversation(ScriptedCore(store, scripts, mode))
    await opened(conversation, made.id)
    return conversation


# ---- replies ---------------------------------------------------------------------------------------------------------


async def test_a_question_begins_a_conversation_that_is_named_after_it(store: Store) -> None:
    conversation = OpenConversation(ScriptedCore(store, [[*verified("yes"), STATS, finished(3)]]))
    question = "how  do\nI " + "very " * 20
    reply = conversation.ask(question)
    assert conversation.live is None, "it runs from `start` on"
    events = await heard(conversation, reply)
    assert conversation.live is None and reply.turn.outcome == "done" and len(events) == 5
    assert reply.stats == STATS and reply.written == 21
    assert conversation.id == store.conversations.all()[0].id
    assert conversation.title.startswith("Very very") and len(conversation.title) <= TITLE_LENGTH
    assert conversation.title.endswith("…") and shown(conversation) == [(question, "yes")]
    assert conversation.begin("another") == conversation.id, "the open one goes on"


async def test_one_reply_runs_at_a_time(store: Store) -> None:
    conversation = await two_turns(store, [asyncio.Event()])
    conversation.start(conversation.ask("three"))
    target = conversation.target(None)
    with pytest.raises(ReplyRunning):
        conversation.check_idle()
    for act in (conversation.regenerate, conversation.resume, conversation.delete):
        with pytest.raises(ReplyRunning):
            act(target)
    with pytest.raises(ReplyRunning):
        conversation.show_version(target, 1)
    assert len(store.branches.thread(conversation.id or "")) == 4


async def test_a_reply_that_dies_or_ends_early_is_a_failed_turn(store: Store) -> None:
    async def dies() -> AsyncIterator[Event]:
        yield Verified("half", 1, 0)
        raise ValueError("no \x1b[31msuch luck")

    async def ends() -> AsyncIterator[Event]:
        yield Verified("half", 1, 0)

    async def tells(event: Event) -> None:
        raise RuntimeError("nobody draws it")

    conversation = await two_turns(store, [*verified("yes"), finished(3)])
    for events, error in ((dies(), "The answer failed: no such luck."), (ends(), "The answer ended early.")):
        reply = conversation.ask("three")
        reply.events = events
        await heard(conversation, reply)
        assert reply.turn.outcome == "failed" and reply.turn.error.startswith(error) and reply.turn.text == "half"
    reply = conversation.ask("four")
    conversation.start(reply)
    await conversation.listen(reply, tells)
    assert reply.turn.error.startswith("The answer failed: nobody draws it.") and conversation.live is None


async def test_what_is_stopped_leaves_the_queue(store: Store) -> None:
    conversation = OpenConversation(ScriptedCore(store, mode=OFFLINE))
    conversation.enqueue("later")
    (queued,) = conversation.queued()
    conversation.start(conversation.send(queued))
    conversation.stop()
    assert store.queue.all() == []
    conversation.stop()  # It is gone already, and that is no error.


async def test_a_running_reply_stands_in_its_place_when_its_conversation_is_opened_again(store: Store) -> None:
    other = store_turns(store, "other", [("q", "a")])
    hold = asyncio.Event()
    conversation = await two_turns(store, [Verified("thi", 1, 0), hold, Verified("rd", 1, 0), finished(2)])
    first = conversation.id
    reply = conversation.ask("three")
    running = asyncio.create_task(heard(conversation, reply))
    while not reply.turn.text:
        await asyncio.sleep(0)
    await opened(conversation, other)
    assert shown(conversation) == [("q", "a")]
    await opened(conversation, first)
    assert conversation.turns[-1] is reply.turn and len(conversation.turns) == 3
    hold.set()
    await running
    assert shown(conversation)[-1] == ("three", "third")


# ---- what is stored --------------------------------------------------------------------------------------------------


async def test_of_two_conversations_to_be_opened_the_later_one_is(store: Store) -> None:
    conversation = await two_turns(store)
    other = store_turns(store, "other", [("q", "a")])
    slow = asyncio.create_task(conversation.read(other))
    await asyncio.sleep(0)
    assert await conversation.read(None) is not None
    assert await slow is None
    with pytest.raises(NotFound):
        await conversation.read("no such conversation")
    assert shown(conversation) == list(TURNS), "what is open stays as it was"


async def test_what_another_window_wrote_is_noticed(store: Store) -> None:
    conversation = await two_turns(store)
    assert conversation.id and conversation.ends_as_stored and not conversation.outdated
    store.messages.ask(conversation.id, "elsewhere", parent_id=store.conversations.get(conversation.id).tip_id)
    assert not conversation.ends_as_stored and conversation.outdated
    conversation.start(conversation.ask("three"))
    assert not conversation.outdated, "while a reply runs here, the store is behind"
    store.bin.delete(conversation.id)
    with pytest.raises(NotFound):
        assert conversation.ends_as_stored


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


# ---- messages --------------------------------------------------------------------------------------------------------


async def test_what_an_action_is_about(store: Store) -> None:
    conversation = OpenConversation(ScriptedCore(store))
    with pytest.raises(NotPossible, match="no message yet"):
        conversation.target(None)
    conversation = await two_turns(store)
    assert conversation.target(None) == (1, conversation.turns[1], "answer"), "the last answer"
    first = conversation.turns[0]
    target = conversation.target((first, "question"))
    assert target == (0, first, "question")
    assert conversation.question_id(target) == store.branches.thread(conversation.id or "")[0].id
    await opened(conversation, conversation.id)
    with pytest.raises(NotPossible):
        conversation.target((first, "question"))  # That turn is not shown any more.


async def test_a_second_version_replaces_what_follows_and_the_versions_are_walked(store: Store) -> None:
    conversation = await two_turns(store, [*verified("again"), finished(3)])
    reply = conversation.regenerate(conversation.target((conversation.turns[0], "answer")))
    await heard(conversation, reply)
    assert shown(conversation) == [("one", "again")]
    await conversation.place_versions()
    assert conversation.turns[0].versions == (2, 2)
    assert conversation.show_version(conversation.target(None), -1) == "answer"
    await opened(conversation, conversation.id)
    assert shown(conversation) == list(TURNS)
    with pytest.raises(NotPossible, match="only this version"):
        conversation.show_version(conversation.target(None), -1)
    await conversation.place_versions()
    with pytest.raises(NotPossible, match="no other version"):
        conversation.show_version(conversation.target((conversation.turns[0], "answer")), -1)


@pytest.mark.parametrize("edited", [True, False])
async def test_where_nothing_comes_of_a_second_version_the_first_is_shown_again(store: Store, edited: bool) -> None:
    conversation = await two_turns(store, [Failed("no route", "unavailable")])
    target = conversation.target((conversation.turns[0], "answer"))
    before = store.branches.thread(conversation.id or "")
    question = conversation.question_id(target)
    reply = conversation.edit(0, question, "other") if edited else conversation.regenerate(target)
    await heard(conversation, reply)
    assert reply.turn.error == "no route"
    assert conversation.undo_version(reply) == edited
    assert store.branches.thread(conversation.id or "") == before


async def test_deletions_are_taken_back_one_by_one_until_another_conversation_is_opened(store: Store) -> None:
    conversation = await two_turns(store)
    with pytest.raises(NotPossible, match="Nothing was deleted"):
        conversation.undelete()
    parts: tuple[tuple[Part, list[tuple[str, str]]], ...] = (
        ("answer", [("one", "first"), ("two", "")]),
        ("question", [("one", "first")]),
    )
    for part, left in parts:
        assert conversation.delete(conversation.target((conversation.turns[1], part)))
        await opened(conversation, conversation.id)
        assert shown(conversation) == left
    conversation.undelete()
    conversation.undelete()
    await opened(conversation, conversation.id)
    assert shown(conversation) == list(TURNS)
    conversation.delete(conversation.target(None))
    first = conversation.id
    await opened(conversation, None)
    await opened(conversation, first)
    with pytest.raises(NotPossible):
        conversation.undelete()


async def test_a_fork_holds_all_up_to_its_message(store: Store) -> None:
    conversation = await two_turns(store)
    copy = conversation.fork(conversation.target((conversation.turns[0], "answer")))
    assert copy is not None and copy != conversation.id
    await opened(conversation, copy)
    assert shown(conversation) == [("one", "first")]


async def test_what_nobody_verified_is_shaded(store: Store) -> None:
    conversation = await drafted(store, OFFLINE)
    await conversation.shade()
    assert conversation.turns[0].shaded
    conversation.unshade()
    assert not conversation.turns[0].shaded


# ---- the queue, the context ------------------------------------------------------------------------------------------


async def test_a_prompt_waits_and_is_taken_back(store: Store) -> None:
    conversation = OpenConversation(ScriptedCore(store, mode=OFFLINE))
    with pytest.raises(NotPossible, match="Nothing is queued"):
        conversation.take_back()
    conversation.enqueue("first")
    conversation.enqueue("second")
    await opened(conversation, None)
    conversation.enqueue("of another conversation")
    await opened(conversation, next(one.id for one in store.conversations.all() if one.title == "first"))
    assert conversation.queued_prompts() == ["first", "second"]
    assert conversation.take_back() == ("second", ())
    assert conversation.queued_prompts() == ["first"]


async def test_a_verification_waits_while_no_server_answers(store: Store) -> None:
    conversation = await drafted(store, OFFLINE)
    assert conversation.verify(None) is None and conversation.queued_prompts() == []
    assert conversation.turns[0].awaiting and len(store.queue.all()) == 1
    assert conversation.verify(None) is None and store.queue.all() == [], "again: not any more"


async def test_a_verification_takes_the_place_of_the_draft(store: Store) -> None:
    ready = ScriptedCore(store).mode
    conversation = await drafted(store, ready, [Verified("own", 1, 0), finished(1)])
    draft = conversation.turns[0]
    reply = conversation.verify((draft, "answer"))
    assert reply is not None and conversation.start(reply) is draft and conversation.turns == [reply.turn]
    with pytest.raises(NotPossible, match="No answer here"):
        conversation.verify(None)


async def test_the_context_is_counted_and_a_full_one_told_once(store: Store) -> None:
    core = ScriptedCore(store, [[Drafted("x", 1), asyncio.Event()]])
    conversation = OpenConversation(core)
    assert await conversation.measure() is None and conversation.context is None
    await opened(conversation, store_turns(store, "t", [("q" * 50, "a" * 50)]))
    core.limit = 21
    told = await conversation.measure()
    assert told is not None and (told.used, told.limit) == (20, 21)
    assert await conversation.measure() is None, "the person knows"
    core.limit = 1000
    await conversation.measure()
    core.limit = 21
    assert await conversation.measure() is not None, "it was less in between"
    reply = conversation.ask("more")
    conversation.start(reply)
    reply.stats = STATS
    assert conversation.context is not None and conversation.context.used == 20 + 21, "with the reply that runs"


def test_what_others_write_is_noticed_from_the_start_on(store: Store) -> None:
    conversation = OpenConversation(ScriptedCore(store))
    with Store.open(store.path) as other:
        other.conversations.create("before the first look")
        assert conversation.changed_elsewhere() and not conversation.changed_elsewhere()
        store.conversations.create("by this window")
        assert not conversation.changed_elsewhere()
        other.conversations.create("later")
        assert conversation.changed_elsewhere() and not conversation.changed_elsewhere()
