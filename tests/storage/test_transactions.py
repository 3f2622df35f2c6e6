"""What belongs together is stored together: where one half fails, the other was never there."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from storage import Conversation, Message, Store


def forbid(store: Store, change: str) -> None:
    """Has SQLite refuse it from now on, as it refuses what a full disk has no room for."""
    with store._write() as database:
        database.execute(f"CREATE TRIGGER refused BEFORE {change} BEGIN SELECT RAISE(ABORT, 'refused'); END")


def test_an_answer_is_finished_and_leaves_the_queue_at_once(store: Store, conversation: Conversation) -> None:
    queued = store.enqueue(conversation.id, "and a zip?")
    answer = store.take(queued.id)
    assert answer is not None
    forbid(store, "DELETE ON queue")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.finish(answer.id, [1], [True], "unzip x", "done", {}, settles=answer.id)
    assert store.message(answer.id).status == "pending" and store.message(answer.id).text == ""
    with store._write() as database:
        database.execute("DROP TRIGGER refused")
    store.finish(answer.id, [1], [True], "unzip x", "done", {}, settles=answer.id)
    assert store.message(answer.id).status == "done" and store.queued() == []


def test_a_prompt_is_taken_with_its_question_or_not_at_all(store: Store, conversation: Conversation) -> None:
    queued = store.enqueue(conversation.id, "and a zip?")
    forbid(store, "UPDATE ON queue")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.take(queued.id)
    assert store.messages(conversation.id) == [] and store.queued() == [queued]


def test_an_answer_that_verifies_another_is_stored_with_its_place_in_the_queue(store: Store, answer: Message) -> None:
    store.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    queued = store.enqueue_verification(answer.id)
    before = store.messages(answer.conversation_id)
    forbid(store, "UPDATE ON queue")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.add_beside(answer.id)
    assert store.messages(answer.conversation_id) == before and store.queued() == [queued]


def test_a_conversation_arrives_whole_or_not_at_all(store: Store, answer: Message) -> None:
    store.finish(answer.id, [5, 6], [True, False], "tar x", "done", {})
    whole = store.whole(answer.conversation_id)
    renamed = replace(whole.conversation, title="other")
    store.erase(answer.conversation_id)
    forbid(store, "INSERT ON messages WHEN new.role = 'assistant'")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.put(replace(whole, conversation=renamed))
    assert store.conversations() == []
