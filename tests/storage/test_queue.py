"""What waits for the target, and that nothing makes it wait for ever, go lost or go twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from storage import Conversation, Message, NotFound, Store


def texts(store: Store) -> list[tuple[str, str]]:
    return [(queued.kind, queued.text) for queued in store.queued()]


@pytest.fixture
def finished(store: Store, answer: Message) -> Message:
    """An answer that the drafter gave alone."""
    store.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    return store.message(answer.id)


def test_prompts_wait_in_order_and_can_be_changed_and_taken_back(store: Store, conversation: Conversation) -> None:
    first, second = (store.enqueue(conversation.id, text) for text in ("one", "two"))
    assert texts(store) == [("ask", "one"), ("ask", "two")]
    store.edit_queued(second.id, "2")
    assert store.unqueue(first.id) == first
    assert texts(store) == [("ask", "2")]
    assert store.next_queued() == store.queued()[0]
    for call in (lambda: store.unqueue(first.id), lambda: store.edit_queued(first.id, "")):
        with pytest.raises(NotFound, match=first.id):
            call()


def test_what_waits_outlives_the_program(path: Path, store: Store, conversation: Conversation) -> None:
    queued = store.enqueue(conversation.id, "one")
    with closing(Store.open(path)) as other:
        assert other.queued() == [queued]


def test_a_conversation_with_something_queued_is_the_newest(store: Store, conversation: Conversation) -> None:
    later = store.create_conversation()
    with store._write() as database:
        database.execute("UPDATE conversations SET updated = '2026-01-01T00:00:00.000+00:00'")
    store.enqueue(conversation.id, "one")
    assert [found.id for found in store.conversations()] == [conversation.id, later.id]


def test_taking_a_prompt_stores_question_and_answer_and_queues_the_answer(
    store: Store, conversation: Conversation, finished: Message
) -> None:
    queued = store.enqueue(conversation.id, "and a zip?")
    answer = store.take(queued.id)
    assert answer is not None and answer.status == "pending"
    thread = store.thread(conversation.id)
    assert [message.text for message in thread] == ["how do I unpack a tarball?", "tar x", "and a zip?", ""]
    assert thread[-1] == answer
    assert store.queued() == [] and store.next_queued() is None, "it is being answered"
    assert store.take(queued.id) is None, "once is enough"
    with pytest.raises(NotFound, match="sent already"):
        store.edit_queued(queued.id, "other")
    store.finish(answer.id, [7], [True], "unzip", "done", {}, settles=answer.id)
    with store._read() as database:
        assert database.execute("SELECT * FROM queue").fetchall() == []


def test_an_answer_that_was_cut_waits_to_be_verified(path: Path, store: Store, conversation: Conversation) -> None:
    queued = store.enqueue(conversation.id, "one")
    with closing(Store.open(path)) as other:
        answer = other.take(queued.id)
        assert answer is not None
        other.checkpoint(answer.id, [7, 8], [True, False], "unzip a")
        assert store.take(queued.id) is None and store.add_beside(answer.id) is None, "another program is at it"
    assert [message.id for message in store.recover()] == [answer.id]
    (again,) = store.queued()
    assert (again.id, again.kind, again.message_id, again.text) == (queued.id, "verify", answer.id, "one")
    assert [message.text for message in store.thread(conversation.id)] == ["one", "unzip a"]


def test_a_verification_that_was_cut_is_made_again(
    path: Path, store: Store, conversation: Conversation, finished: Message
) -> None:
    queued = store.enqueue_verification(finished.id)
    with closing(Store.open(path)) as other:
        beside = other.add_beside(finished.id)
        assert beside is not None
        assert store.queued() == [] and store.add_beside(finished.id) is None
    store.recover()
    assert store.queued() == [queued]
    again = store.add_beside(finished.id)
    assert again is not None and again.id != beside.id
    assert [message.id for message in store.thread(conversation.id)][-1] == finished.id


def test_what_settles_an_answer_takes_its_place_at_the_tip(
    store: Store, conversation: Conversation, question: Message, finished: Message
) -> None:
    store.enqueue_verification(finished.id)
    failed = store.add_beside(finished.id)
    assert failed is not None and failed.parent_id == question.id
    store.finish(failed.id, [], [], "", "failed", {}, settles=finished.id)
    assert store.queued() == [], "failed for good"
    assert store.thread(conversation.id) == [question, finished]
    beside = store.add_beside(finished.id)
    assert beside is not None
    store.finish(beside.id, [5], [True], "tar", "done", {}, settles=finished.id)
    assert store.thread(conversation.id) == [question, store.message(beside.id)]
    assert store.message(finished.id) == finished
    assert store.branch(finished.id) == [question, finished]


def test_what_was_said_since_is_not_hidden(store: Store, conversation: Conversation, finished: Message) -> None:
    beside = store.add_beside(finished.id)
    assert beside is not None
    later = store.add_message(conversation.id, "user", "and a zip?", parent_id=finished.id, status="done")
    store.finish(beside.id, [5], [True], "tar", "done", {}, settles=finished.id)
    assert [message.id for message in store.thread(conversation.id)][-2:] == [finished.id, later.id]


def test_an_answer_is_queued_once(store: Store, finished: Message) -> None:
    assert store.enqueue_verification(finished.id) == store.enqueue_verification(finished.id)
    assert texts(store) == [("verify", "how do I unpack a tarball?")]


def test_nothing_is_sent_in_a_conversation_that_is_being_answered(
    store: Store, conversation: Conversation, answer: Message
) -> None:
    waiting = store.enqueue(conversation.id, "and a zip?")
    other = store.enqueue(store.create_conversation().id, "elsewhere")
    assert store.next_queued() == other
    assert store.take(waiting.id) is None
    store.finish(answer.id, [5], [True], "tar", "done", {})
    assert store.next_queued() == waiting


def test_a_server_that_cannot_verify_gets_prompts_only(
    store: Store, conversation: Conversation, finished: Message
) -> None:
    verification = store.enqueue_verification(finished.id)
    prompt = store.enqueue(conversation.id, "and a zip?")
    assert store.next_queued() == verification
    assert store.next_queued(verify=False) == prompt


def test_what_waits_goes_with_its_conversation(store: Store, conversation: Conversation, finished: Message) -> None:
    store.enqueue(conversation.id, "one")
    store.enqueue_verification(finished.id)
    kept = store.enqueue(store.create_conversation().id, "two")
    store.delete(conversation.id)
    assert store.queued() == [kept]


def test_a_conversation_begun_for_a_prompt_goes_with_it(
    store: Store, conversation: Conversation, finished: Message
) -> None:
    begun = store.create_conversation("one")
    first, second = store.enqueue(begun.id, "one"), store.enqueue(begun.id, "two")
    store.unqueue(first.id)
    assert store.conversation(begun.id) == store.conversations()[0]
    store.unqueue(second.id)
    store.unqueue(store.enqueue(conversation.id, "three").id)
    assert [found.id for found in store.conversations()] == [conversation.id]


def test_what_is_not_there_is_named(store: Store) -> None:
    for call in (lambda: store.enqueue("c0ffee", ""), lambda: store.enqueue_verification("c0ffee")):
        with pytest.raises(NotFound, match="c0ffee"):
            call()


@pytest.mark.parametrize("change", ["text = NULL", "message_id = :answer", "answer_id = :answer"])
def test_a_row_is_a_prompt_or_an_answer(
    store: Store, conversation: Conversation, finished: Message, change: str
) -> None:
    store.enqueue(conversation.id, "one")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"), store._write() as database:
        database.execute(f"UPDATE queue SET {change}", {"answer": finished.id})
