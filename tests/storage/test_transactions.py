"""What belongs together is stored together: if one half fails, the other is not stored."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from storage import Conversation, Message, Store


def forbid(store: Store, change: str) -> None:
    """Makes SQLite refuse this kind of write from now on, as it does on a full disk."""
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


def test_what_is_taken_from_the_queue_is_stored_with_its_new_place_there(store: Store, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    queued = [store.queue.add_verification(answer.id), store.queue.add(answer.conversation_id, "and a zip?")]
    before = store.messages.of(answer.conversation_id)
    forbid(store, "UPDATE ON queue")
    for take, key in ((store.messages.verify, answer.id), (store.queue.take, queued[1].id)):
        with pytest.raises(sqlite3.IntegrityError, match="refused"):
            take(key)
        assert store.messages.of(answer.conversation_id) == before and store.queue.all() == queued


def test_a_conversation_arrives_whole_or_not_at_all(store: Store, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "done", {})
    whole = store.transfer.whole(answer.conversation_id)
    renamed = replace(whole.conversation, title="other")
    store.bin.erase(answer.conversation_id)
    forbid(store, "INSERT ON messages WHEN new.role = 'assistant'")
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        store.transfer.put(replace(whole, conversation=renamed))
    assert store.conversations.all() == []
