"""The queue for the target: nothing waits for ever, is lost, or is sent twice."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from storage import Conversation, Message, NotFound, Store
from tests.storage.stored import said


def texts(store: Store) -> list[tuple[str, str]]:
    return [(queued.kind, queued.text) for queued in store.queue.all()]


@pytest.fixture
def finished(store: Store, answer: Message) -> Message:
    """An answer that only the drafter wrote."""
    store.messages.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    return store.messages.get(answer.id)


def test_prompts_wait_in_order_and_can_be_moved_changed_and_taken_back(
    store: Store, conversation: Conversation
) -> None:
    queued = [store.queue.add(conversation.id, text) for text in ("one", "two", "three", "four")]
    ids = [one.id for one in queued]
    assert texts(store) == [("ask", "one"), ("ask", "two"), ("ask", "three"), ("ask", "four")]
    store.queue.edit(ids[1], "2")
    store.queue.order([ids[3], "c0ffee", ids[0], ids[1]])
    assert [text for _, text in texts(store)] == ["four", "one", "three", "2"]
    store.queue.order([])
    store.queue.swap(ids[0], ids[1])
    store.queue.swap(ids[2], ids[2])
    assert [text for _, text in texts(store)] == ["four", "2", "three", "one"]
    assert store.queue.ready() == store.queue.all()
    assert store.queue.remove(ids[0]) == queued[0]
    for call in (lambda: store.queue.remove(ids[0]), lambda: store.queue.edit(ids[0], "")):
        with pytest.raises(NotFound, match=ids[0]):
            call()
    with pytest.raises(NotFound, match="any more"):
        store.queue.swap(ids[0], ids[1])
    assert [text for _, text in texts(store)] == ["four", "2", "three"]


def test_a_taken_prompt_is_question_and_answer(store: Store, conversation: Conversation, finished: Message) -> None:
    queued = store.queue.add(conversation.id, "and a zip?")
    answer = store.queue.take(queued.id)
    assert answer is not None and answer.status == "pending"
    assert said(store, conversation.id) == ["how do I unpack a tarball?", "tar x", "and a zip?", ""]
    assert store.branches.thread(conversation.id)[-1] == answer
    assert store.queue.all() == store.queue.ready() == [], "it is being answered"
    assert store.queue.take(queued.id) is None, "once is enough"
    with pytest.raises(NotFound, match="sent already"):
        store.queue.edit(queued.id, "other")
    store.messages.finish(answer.id, [7], [True], "unzip", "done", {}, settles=answer.id)
    with store.database.read() as database:
        assert database.execute("SELECT * FROM queue").fetchall() == []


def test_an_answer_that_was_cut_waits_to_be_verified(path: Path, store: Store, conversation: Conversation) -> None:
    queued = store.queue.add(conversation.id, "one")
    with Store.open(path) as other:
        answer = other.queue.take(queued.id)
        assert answer is not None
        other.messages.checkpoint(answer.id, [7, 8], [True, False], "unzip a")
        assert store.queue.take(queued.id) is store.messages.verify(answer.id) is None, "another program is at it"
    assert store.messages.recover() == [answer.id]
    (again,) = store.queue.all()
    assert (again.id, again.kind, again.message_id, again.text) == (queued.id, "verify", answer.id, "one")
    assert said(store, conversation.id) == ["one", "unzip a"]


def test_a_verification_that_was_cut_is_made_again(path: Path, store: Store, finished: Message) -> None:
    queued = store.queue.add_verification(finished.id)
    assert store.queue.add_verification(finished.id) == queued
    assert texts(store) == [("verify", "how do I unpack a tarball?")]
    with Store.open(path) as other:
        beside = other.messages.verify(finished.id)
        assert beside is not None
        assert store.queue.all() == [] and store.messages.verify(finished.id) is None
    store.messages.recover()
    assert store.queue.all() == [queued]
    again = store.messages.verify(finished.id)
    assert again is not None and again.id != beside.id
    assert store.branches.thread(finished.conversation_id)[-1].id == finished.id


def test_what_settles_an_answer_takes_its_place_at_the_tip(store: Store, question: Message, finished: Message) -> None:
    conversation = finished.conversation_id
    store.queue.add_verification(finished.id)
    failed = store.messages.verify(finished.id)
    assert failed is not None and failed.parent_id == question.id
    store.messages.finish(failed.id, [], [], "", "failed", {}, settles=finished.id)
    assert store.queue.all() == [], "failed for good"
    assert store.branches.thread(conversation) == [question, finished]
    beside = store.messages.verify(finished.id)
    assert beside is not None
    store.messages.finish(beside.id, [5], [True], "tar", "done", {}, settles=finished.id)
    assert store.branches.thread(conversation) == [question, store.messages.get(beside.id)]
    assert store.messages.get(finished.id) == finished
    assert store.branches.path(finished.id) == [question, finished]


def test_nothing_is_sent_in_a_conversation_that_is_being_answered(store: Store, answer: Message) -> None:
    waiting = store.queue.add(answer.conversation_id, "and a zip?")
    other = store.queue.add(store.conversations.create().id, "elsewhere")
    assert store.queue.ready() == [other]
    assert store.queue.take(waiting.id) is None
    store.messages.finish(answer.id, [5], [True], "tar", "done", {})
    assert store.queue.ready()[0] == waiting


def test_a_question_that_returns_comes_before_those_that_were_queued_behind_it(
    store: Store, conversation: Conversation
) -> None:
    store.queue.add(store.conversations.create().id, "elsewhere")
    store.queue.add(conversation.id, "zero")
    with store.database.write() as sql:
        sql.execute("UPDATE queue SET created = '2026-11-01'")
    answer: Message | None = store.messages.ask(conversation.id, "one", parent_id=None)
    second, _ = (store.queue.add(conversation.id, text) for text in ("two", "three"))
    for _again in range(2):  # Asked at once, then sent from the queue.
        assert answer is not None and store.queue.defer(answer.id) is not None
        assert [text for _, text in texts(store)] == ["elsewhere", "zero", "one", "two", "three"]
        answer = store.queue.take(store.queue.all()[2].id, leaves=True)
    assert answer is not None and [text for _, text in texts(store)] == ["elsewhere", "zero", "two", "three"]
    store.messages.finish(answer.id, [5], [False], "un", "failed", {})
    store.queue.add_verification(answer.id, first=True)
    assert [one.message_id for one in store.queue.all()] == [None, answer.id, None, None, None]
    assert store.queue.all()[3] == second


def test_a_conversation_of_a_prompt_goes_with_it(store: Store, conversation: Conversation, finished: Message) -> None:
    begun = store.conversations.create("one")
    first, second = store.queue.add(begun.id, "one"), store.queue.add(begun.id, "two")
    store.queue.remove(first.id)
    assert store.conversations.get(begun.id) == store.conversations.all()[0]
    store.queue.remove(second.id)
    store.queue.remove(store.queue.add(conversation.id, "three").id)
    assert [found.id for found in store.conversations.all()] == [conversation.id]


# ---- several rows together -------------------------------------------------------------------------------------------


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
