"""The open conversation where its store or its reply fails, or another window writes: what a screen shows by chance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.events import Event, Verified
from app.tui.open_conversation import OpenConversation
from storage import NotFound, Store
from tests.app.tui.scripted import ScriptedCore, store_turns

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
    for events, tell, error in (
        (dies(), draws, "The answer failed: no such luck."),
        (ends(), draws, "The answer ended early."),
        (ends(), draws_not, "The answer failed: nobody draws it."),
    ):
        reply = conversation.ask("three")
        reply.events = events
        conversation.start(reply)
        await conversation.listen(reply, tell)
        assert reply.turn.outcome == "failed" and reply.turn.error.startswith(error) and reply.turn.text == "half"
        assert conversation.live is None


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
