"""Whole conversations out of one database and into another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from storage import Conversation, Message, NotFound, Store, Whole
from tests.storage.trees import TALKS, Talk, fill, rows


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "other" / "outrider.db")) as store:
        yield store


@pytest.fixture
def thread(store: Store, conversation: Conversation, question: Message, answer: Message) -> Whole:
    """A question, its answer that waits to be verified, and the answer that the target gave to it."""
    store.finish(answer.id, [5, 6], [True, False], "tar -x", "done", {"tau": 2.0})
    store.enqueue_verification(answer.id)
    beside = store.add_message(conversation.id, "assistant", "", parent_id=question.id, status="pending")
    store.finish(beside.id, [5, 7], [True, True], "tar xf", "done", {"verifies": answer.id})
    store.enqueue(conversation.id, "and a zip?")
    return store.whole(conversation.id)


def test_a_new_conversation_arrives_as_it_was(store: Store, other: Store, thread: Whole) -> None:
    put = other.put(thread)
    assert (put.outcome, put.messages, put.renamed) == ("new", 3, False)
    assert put.queued == tuple(queued.id for queued in other.queued()) and len(put.queued) == 2
    assert rows(other) == rows(store)
    assert [hit.message.text for hit in other.search("tar")] != []
    assert other.thread(put.conversation_id)[-1].text == "tar xf"


def test_the_second_time_changes_nothing(other: Store, thread: Whole) -> None:
    other.put(thread)
    before = rows(other)
    again = other.put(thread)
    assert (again.outcome, again.messages, again.queued) == ("same", 0, ())
    assert rows(other) == before


def test_what_was_sent_meanwhile_is_not_queued_again(store: Store, thread: Whole) -> None:
    for queued in store.queued():
        store.unqueue(queued.id)
    store.put(thread)
    assert store.queued() == []


def test_a_conversation_that_went_on_is_continued(store: Store, other: Store, thread: Whole) -> None:
    other.put(thread)
    conversation = thread.conversation.id
    other.rename(conversation, "my own title")
    follow = store.add_message(conversation, "user", "why?", parent_id=thread.conversation.tip_id, status="done")
    put = other.put(store.whole(conversation))
    assert (put.outcome, put.messages) == ("added", 1)
    assert other.thread(conversation)[-1].id == follow.id
    assert other.conversation(conversation).title == "my own title"
    assert other.conversation(conversation).updated == store.conversation(conversation).updated


def test_what_was_said_here_meanwhile_stays_and_stays_shown(store: Store, other: Store, thread: Whole) -> None:
    other.put(thread)
    conversation, tip = thread.conversation.id, thread.conversation.tip_id
    there = store.add_message(conversation, "user", "why?", parent_id=tip, status="done")
    here = other.add_message(conversation, "user", "how?", parent_id=tip, status="done")
    updated = other.conversation(conversation).updated
    assert other.put(store.whole(conversation)).outcome == "added"
    assert {message.id for message in other.messages(conversation)} > {here.id, there.id}
    assert other.thread(conversation)[-1].id == here.id
    assert other.conversation(conversation).updated == max(updated, store.conversation(conversation).updated)


def test_taken_ids_are_replaced_and_references_follow(other: Store, thread: Whole) -> None:
    question, answer, beside = thread.messages
    taken = replace(thread.conversation, tip_id=question.id)
    other.put(Whole(taken, (replace(question, text="something else"),), ()))
    put = other.put(thread)
    assert (put.outcome, put.renamed) == ("new", True)
    arrived = other.whole(put.conversation_id)
    first, second, third = arrived.messages
    assert not {first.id, second.id, third.id} & {question.id, answer.id, beside.id}
    assert [message.text for message in arrived.messages] == [message.text for message in thread.messages]
    assert (second.parent_id, third.parent_id, arrived.conversation.tip_id) == (first.id, first.id, third.id)
    assert third.stats == {"verifies": second.id}
    assert [queued.message_id for queued in arrived.queue] == [second.id, None]
    before = rows(other)
    assert other.put(thread).outcome == "same"
    assert rows(other) == before


def test_an_id_of_another_conversation_is_taken(other: Store, thread: Whole) -> None:
    elsewhere = replace(thread.conversation, id="0123456789abcdef", tip_id=None)
    question = replace(thread.messages[0], conversation_id=elsewhere.id)
    other.put(Whole(elsewhere, (question,), ()))
    put = other.put(thread)
    assert put.renamed and len(other.messages(put.conversation_id)) == 3
    assert [message.text for message in other.messages(elsewhere.id)] == [question.text]


def test_an_answer_that_was_verified_elsewhere_is_another_one(other: Store, thread: Whole) -> None:
    """The same words are not the same answer: one of the two says that the target agreed to all of them."""
    other.put(thread)
    question, answer, beside = thread.messages
    put = other.put(replace(thread, messages=(question, replace(answer, provenance=(True, True)), beside)))
    assert put.renamed and put.outcome == "new"
    kept = [message.provenance for one in other.conversations() for message in other.messages(one.id)]
    assert kept.count((True, False)) == 1 and kept.count((True, True)) == 3


def test_another_conversation_of_the_same_id_is_taken(other: Store, thread: Whole) -> None:
    other.put(Whole(replace(thread.conversation, created="2020-01-01T00:00:00.000+00:00", tip_id=None), (), ()))
    assert other.put(thread).renamed
    assert len(other.conversations()) == 2


def test_a_copy_is_another_conversation(other: Store, thread: Whole) -> None:
    first, second, third = other.put(thread), other.put(thread, copy=True), other.put(thread, copy=True)
    assert len({first.conversation_id, second.conversation_id, third.conversation_id}) == 3
    assert (second.outcome, second.messages, second.renamed) == ("new", 3, True)
    assert len(other.queued()) == 2  # What waits, waits once.
    assert len(other.whole(third.conversation_id).messages) == 3


def test_an_answer_that_was_being_written_ends_as_stopped(store: Store, other: Store, answer: Message) -> None:
    store.checkpoint(answer.id, [5], [True], "tar")
    read = store.whole(answer.conversation_id)
    assert read.messages[-1].status == "streaming"
    other.put(read)
    assert (other.message(answer.id).status, other.message(answer.id).text) == ("stopped", "tar")
    store.finish(answer.id, [5, 6], [True, True], "tar -x", "done", {})
    assert store.put(read).outcome == "same"
    assert store.message(answer.id).text == "tar -x"


def test_what_was_deleted_is_not_read(store: Store, thread: Whole) -> None:
    question, answer, _ = thread.messages
    store.delete_message(answer.id)
    read = store.whole(thread.conversation.id)
    assert [message.text for message in read.messages] == [question.text, "tar xf"]
    assert [queued.kind for queued in read.queue] == ["ask"]
    store.delete(thread.conversation.id)
    with pytest.raises(NotFound):
        store.whole(thread.conversation.id)


def test_what_was_deleted_here_comes_back(other: Store, thread: Whole) -> None:
    other.put(thread)
    everything = rows(other)
    question, answer, beside = thread.messages
    other.delete_message(beside.id)
    other.delete_message(answer.id)
    put = other.put(thread)
    assert (put.outcome, put.messages) == ("added", 2)
    assert other.whole(thread.conversation.id).messages == thread.messages
    assert other.thread(thread.conversation.id)[-1].id == beside.id
    other.delete_message(question.id)
    other.delete(thread.conversation.id)
    assert other.conversations() == []
    assert other.put(thread).outcome == "added"
    assert rows(other) == everything and len(other.search("tar")) == 3


def test_all_or_nothing(other: Store, thread: Whole) -> None:
    broken = replace(thread.messages[-1], tokens=(1,), provenance=())
    with pytest.raises(Exception, match="CHECK"):
        other.put(replace(thread, messages=(*thread.messages[:-1], broken)))
    assert rows(other) == {"conversations": [], "messages": [], "queue": []}


def test_an_unknown_conversation_is_named(store: Store) -> None:
    with pytest.raises(NotFound, match="c0ffee"):
        store.whole("c0ffee")
    store.create_conversation("the connection is free again")


def test_any_store_arrives_whole(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "a.db")) as source, closing(Store.open(tmp_path / "b.db")) as target:

        @settings(max_examples=25)
        @given(TALKS)
        def check(talks: list[Talk]) -> None:
            for identifier in fill(source, talks):
                whole = source.whole(identifier)
                assert target.put(whole).outcome == "new"
                assert target.whole(identifier) == whole
            assert rows(target) == rows(source)

        check()
