"""Whole conversations move from one database to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from storage import Conversation, Message, NotFound, Store, WholeConversation
from tests.storage.trees import rows


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "other" / "outrider.db") as store:
        yield store


@pytest.fixture
def thread(store: Store, conversation: Conversation, question: Message, answer: Message) -> WholeConversation:
    """A question, a drafted answer that waits to be checked, and the answer that verifies it."""
    store.messages.finish(answer.id, [5, 6], [True, False], "tar -x", "done", {"tau": 2.0})
    store.queue.add_verification(answer.id)
    beside = store.messages.verify(answer.id)
    assert beside is not None
    store.messages.finish(beside.id, [5, 7], [True, True], "tar xf", "done", {})
    store.branches.show(beside.id)
    store.queue.add(conversation.id, "and a zip?")
    return store.transfer.whole(conversation.id)


def test_a_new_conversation_arrives_as_it_was_and_once(store: Store, other: Store, thread: WholeConversation) -> None:
    put = other.transfer.put(thread)
    assert (put.outcome, put.messages, put.conversation_id) == ("new", 3, thread.conversation.id)
    assert put.queued == tuple(queued.id for queued in other.queue.all()) and len(put.queued) == 2
    assert rows(other) == rows(store)
    again = other.transfer.put(thread)
    assert (again.outcome, again.messages, again.queued) == ("same", 0, ())
    assert rows(other) == rows(store)
    assert [hit.message.text for hit in other.search.messages("tar")] != []
    assert other.branches.thread(put.conversation_id)[-1].text == "tar xf"


def test_what_was_sent_meanwhile_is_not_queued_again(store: Store, thread: WholeConversation) -> None:
    for queued in store.queue.all():
        store.queue.remove(queued.id)
    store.transfer.put(thread)
    assert store.queue.all() == []


def test_a_conversation_that_went_on_is_continued(store: Store, other: Store, thread: WholeConversation) -> None:
    other.transfer.put(thread)
    conversation = thread.conversation.id
    other.conversations.rename(conversation, "my own title")
    follow = store.messages.add(conversation, "user", "why?", parent_id=thread.conversation.tip_id, status="done")
    put = other.transfer.put(store.transfer.whole(conversation))
    assert (put.outcome, put.messages) == ("added", 1)
    assert other.branches.thread(conversation)[-1].id == follow.id
    assert other.conversations.get(conversation).title == "my own title"
    assert other.conversations.get(conversation).updated == store.conversations.get(conversation).updated


def test_what_was_said_here_meanwhile_stays_shown(store: Store, other: Store, thread: WholeConversation) -> None:
    other.transfer.put(thread)
    conversation, tip = thread.conversation.id, thread.conversation.tip_id
    there = store.messages.add(conversation, "user", "why?", parent_id=tip, status="done")
    here = other.messages.add(conversation, "user", "how?", parent_id=tip, status="done")
    updated = other.conversations.get(conversation).updated
    assert other.transfer.put(store.transfer.whole(conversation)).outcome == "added"
    assert {message.id for message in other.messages.of(conversation)} > {here.id, there.id}
    assert other.branches.thread(conversation)[-1].id == here.id
    assert other.conversations.get(conversation).updated == max(updated, store.conversations.get(conversation).updated)


def test_taken_ids_are_replaced_and_references_follow(other: Store, thread: WholeConversation) -> None:
    question, answer, beside = thread.messages
    taken = replace(thread.conversation, tip_id=question.id)
    other.transfer.put(WholeConversation(taken, (replace(question, text="something else"),), ()))
    put = other.transfer.put(thread)
    assert put.outcome == "new" and put.conversation_id != thread.conversation.id
    arrived = other.transfer.whole(put.conversation_id)
    first, second, third = arrived.messages
    assert not {first.id, second.id, third.id} & {question.id, answer.id, beside.id}
    assert [message.text for message in arrived.messages] == [message.text for message in thread.messages]
    assert (second.parent_id, third.parent_id, arrived.conversation.tip_id) == (first.id, first.id, third.id)
    assert (third.verifies, third.stats) == (second.id, {})
    assert [queued.message_id for queued in arrived.queue] == [second.id, None]
    before = rows(other)
    assert other.transfer.put(thread).outcome == "same"
    assert rows(other) == before


def test_an_id_of_another_conversation_is_taken(other: Store, thread: WholeConversation) -> None:
    elsewhere = replace(thread.conversation, id="0123456789abcdef", tip_id=None)
    question = replace(thread.messages[0], conversation_id=elsewhere.id)
    other.transfer.put(WholeConversation(elsewhere, (question,), ()))
    put = other.transfer.put(thread)
    assert put.conversation_id != thread.conversation.id and len(other.messages.of(put.conversation_id)) == 3
    assert [message.text for message in other.messages.of(elsewhere.id)] == [question.text]


def test_an_answer_that_was_verified_elsewhere_is_another_one(other: Store, thread: WholeConversation) -> None:
    """Two answers with equal words differ: in one of them, the target has verified every token."""
    other.transfer.put(thread)
    question, answer, beside = thread.messages
    put = other.transfer.put(replace(thread, messages=(question, replace(answer, provenance=(True, True)), beside)))
    assert put.conversation_id != thread.conversation.id and put.outcome == "new"
    kept = [message.provenance for one in other.conversations.all() for message in other.messages.of(one.id)]
    assert kept.count((True, False)) == 1 and kept.count((True, True)) == 3


def test_a_copy_is_another_conversation(other: Store, thread: WholeConversation) -> None:
    first, second, third = (other.transfer.put(thread, copy=copy) for copy in (False, True, True))
    assert len({first.conversation_id, second.conversation_id, third.conversation_id}) == 3
    assert (second.outcome, second.messages) == ("new", 3)
    assert len(other.queue.all()) == 2  # Each entry waits once.
    assert len(other.transfer.whole(third.conversation_id).messages) == 3


def test_an_answer_that_was_being_written_ends_as_stopped(store: Store, other: Store, answer: Message) -> None:
    store.messages.checkpoint(answer.id, [5], [True], "tar")
    read = store.transfer.whole(answer.conversation_id)
    assert read.messages[-1].status == "streaming"
    other.transfer.put(read)
    assert (other.messages.get(answer.id).status, other.messages.get(answer.id).text) == ("stopped", "tar")
    store.messages.finish(answer.id, [5, 6], [True, True], "tar -x", "done", {})
    assert store.transfer.put(read).outcome == "same"
    assert store.messages.get(answer.id).text == "tar -x"


def test_what_was_deleted_is_not_read(store: Store, thread: WholeConversation) -> None:
    question, answer, _ = thread.messages
    store.bin.delete_message(answer.id)
    read = store.transfer.whole(thread.conversation.id)
    assert [message.text for message in read.messages] == [question.text, "tar xf"]
    assert [queued.kind for queued in read.queue] == ["ask"]
    store.bin.delete(thread.conversation.id)
    with pytest.raises(NotFound):
        store.transfer.whole(thread.conversation.id)


def test_what_was_deleted_here_comes_back(other: Store, thread: WholeConversation) -> None:
    other.transfer.put(thread)
    everything = rows(other)
    question, answer, beside = thread.messages
    other.bin.delete_message(beside.id)
    other.bin.delete_message(answer.id)
    put = other.transfer.put(thread)
    assert (put.outcome, put.messages) == ("added", 2)
    assert other.transfer.whole(thread.conversation.id).messages == thread.messages
    assert other.branches.thread(thread.conversation.id)[-1].id == beside.id
    other.bin.delete_message(question.id)
    other.bin.delete(thread.conversation.id)
    assert other.conversations.all() == []
    assert other.transfer.put(thread).outcome == "added"
    assert rows(other) == everything and len(other.search.messages("tar")) == 3
