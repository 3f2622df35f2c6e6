"""What belongs together is stored together: where one half fails, the other was never there."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from storage import Conversation, Message, Store


def forbid(store: Store, change: str) -> None:
    """Has SQLite refuse it from now on, as it refuses what a full disk has no room for."""
    with store.database.write() as database:
        database.execute(f"CREATE TRIGGER refused BEFORE {change} BEGIN SELECT RAISE(ABORT, 'refused'); END")


def test_an_answer_is_finished_and_leaves_the_queue_at_once(store: Store, conversation: Conversation) -> None:
    queued = store.queue.add(conversation.id, "and a zip?")
    answer = store.queue.take(queued.id)
    assert answer is not None
    forbid(store, "DELETE ON queue")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.messages.finish(answer.id, [1], [True], "unzip x", "done", {}, settles=answer.id)
    assert store.messages.get(answer.id).status == "pending" and store.messages.get(answer.id).text == ""
    with store.database.write() as database:
        database.execute("DROP TRIGGER refused")
    store.messages.finish(answer.id, [1], [True], "unzip x", "done", {}, settles=answer.id)
    assert store.messages.get(answer.id).status == "done" and store.queue.all() == []


def test_a_prompt_is_taken_with_its_question_or_not_at_all(store: Store, conversation: Conversation) -> None:
    queued = store.queue.add(conversation.id, "and a zip?")
    forbid(store, "UPDATE ON queue")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.queue.take(queued.id)
    assert store.messages.of(conversation.id) == [] and store.queue.all() == [queued]


def test_an_answer_that_verifies_another_is_stored_with_its_place_in_the_queue(store: Store, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    queued = store.queue.add_verification(answer.id)
    before = store.messages.of(answer.conversation_id)
    forbid(store, "UPDATE ON queue")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.messages.verify(answer.id)
    assert store.messages.of(answer.conversation_id) == before and store.queue.all() == [queued]


def test_a_conversation_arrives_whole_or_not_at_all(store: Store, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "done", {})
    whole = store.transfer.whole(answer.conversation_id)
    renamed = replace(whole.conversation, title="other")
    store.bin.erase(answer.conversation_id)
    forbid(store, "INSERT ON messages WHEN new.role = 'assistant'")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.transfer.put(replace(whole, conversation=renamed))
    assert store.conversations.all() == []
