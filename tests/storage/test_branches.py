"""Conversations: their order, and their branches with the versions of a message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import storage
from storage import Choices, Conversation, Message, NotFound, Store
from tests.storage.stored import add, found, said


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


def test_versions_are_counted_on_the_shown_branch_only(store: Store, conversation: Conversation) -> None:
    key = conversation.id
    question = add(store, key, "question")
    first, second, third = (add(store, key, text, question, role="assistant") for text in ("first", "second", "third"))
    assert store.branches.versions(key) == {third: (3, 3)}
    follow, other = (add(store, key, text, second) for text in ("follow", "other"))
    assert store.branches.versions(key) == {second: (2, 3), other: (2, 2)}
    assert ids(store.branches.siblings(third)) == [first, second, third]
    assert ids(store.branches.siblings(follow)) == [follow, other]
    edited = add(store, key, "edited question")
    ordered = add(store, key, "be brief", role="system")  # A file from another program may have it beside a question.
    assert ids(store.branches.siblings(question)) == [question, edited]
    assert ids(store.branches.siblings(ordered)) == [ordered] and store.branches.versions(key) == {}
    store.branches.show(edited)
    assert store.branches.versions(key) == {edited: (2, 2)}
    assert store.branches.versions(store.conversations.create().id) == {}


def test_a_try_that_came_to_nothing_is_no_version(store: Store, conversation: Conversation, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    failed = store.messages.verify(answer.id)
    assert failed is not None and (failed.verifies, failed.stats) == (answer.id, {})
    store.messages.finish(failed.id, [], [], "", "failed", {})
    stopped = store.messages.verify(answer.id)
    assert stopped is not None
    store.messages.checkpoint(stopped.id, [5], [True], "tar")
    assert ids(store.branches.siblings(answer.id)) == [answer.id], "nor is one that is not done yet"
    store.messages.finish(stopped.id, [5], [True], "tar", "stopped", {})
    empty = store.messages.add(conversation.id, "assistant", "", parent_id=answer.parent_id, status="failed")
    assert store.branches.versions(conversation.id) == {empty.id: (2, 2)}, "it is what is shown"
    store.branches.show(str(answer.parent_id))
    assert store.branches.thread(conversation.id)[-1].id == answer.id
    assert store.branches.versions(conversation.id) == {}
    store.branches.show(empty.id)
    later = add(store, conversation.id, "go on", empty.id)
    store.branches.show(answer.id)
    assert store.branches.versions(conversation.id) == {answer.id: (1, 2)}, "something was said after it"
    store.branches.show(empty.id)
    assert store.branches.thread(conversation.id)[-1].id == later
    done = store.messages.verify(answer.id)
    assert done is not None
    store.messages.finish(done.id, [5], [True], "tar", "done", {})
    assert ids(store.branches.siblings(answer.id)) == [answer.id, empty.id, done.id]


def test_an_answer_that_is_written_is_a_version_once_it_says_something(store: Store, answer: Message) -> None:
    conversation = answer.conversation_id
    add(store, conversation, "other", answer.parent_id, role="assistant")
    assert store.branches.versions(conversation) == {}
    store.messages.checkpoint(answer.id, [5], [True], "tar")
    assert list(store.branches.versions(conversation).values()) == [(2, 2)]


def test_a_resumed_answer_begins_with_what_there_was(store: Store, conversation: Conversation, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "stopped", {})
    cut = store.messages.get(answer.id)
    resumed = store.messages.resume(answer.id)
    assert (resumed.text, resumed.tokens, resumed.provenance) == (cut.text, cut.tokens, cut.provenance)
    assert (resumed.status, resumed.resumes) == ("pending", answer.id)
    assert store.branches.thread(conversation.id)[1:] == [resumed]
    store.messages.finish(resumed.id, [5, 6], [True, False], "tar x", "failed", {})
    assert store.branches.versions(conversation.id) == {resumed.id: (2, 2)}, "it is shown"
    store.branches.show(answer.id)
    assert store.branches.versions(conversation.id) == {}, "it holds nothing more"
    longer = store.messages.resume(answer.id)
    store.messages.finish(longer.id, [5, 6, 7], [True, False, True], "tar xf", "failed", {})
    store.branches.show(answer.id)
    assert store.branches.versions(conversation.id) == {answer.id: (1, 2)}
    assert store.messages.get(answer.id) == cut


def test_a_question_and_its_answer_are_stored_together(store: Store, conversation: Conversation) -> None:
    answer = store.messages.ask(conversation.id, "one", parent_id=None)
    assert (answer.role, answer.status, store.branches.path(answer.id)[0].text) == ("assistant", "pending", "one")
    with pytest.raises(NotFound, match="c0ffee"):
        store.messages.ask(conversation.id, "two", parent_id="c0ffee")
    other = store.conversations.create()
    with pytest.raises(NotFound, match=answer.id):
        store.messages.ask(other.id, "two", parent_id=answer.id)
    assert said(store, conversation.id) == ["one", ""] and store.messages.of(other.id) == []


def test_a_copy_holds_the_branch_and_shares_nothing(store: Store, conversation: Conversation, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "done", {"rounds": 2})
    other = add(store, conversation.id, "other", answer.parent_id, role="assistant")
    further = store.messages.ask(conversation.id, "and a zip?", parent_id=answer.id)
    store.messages.checkpoint(further.id, [7], [True], "unz")
    store.conversations.pin(conversation.id, True)
    copy = store.branches.duplicate(conversation.id, further.id)
    assert (copy.title, copy.pinned) == (conversation.title, False) and store.conversations.recent(1) == [copy]
    originals, copies = store.branches.path(further.id), store.branches.thread(copy.id)
    for original, copied in zip(originals, copies, strict=True):
        for name in ("role", "text", "tokens", "provenance", "stats", "created"):
            assert getattr(original, name) == getattr(copied, name)
        assert copied.conversation_id == copy.id and original.id != copied.id
    assert [message.status for message in copies] == ["done", "done", "done", "stopped"]
    assert store.messages.of(copy.id) == copies
    assert found(store, "unz") == ["unz"]

    store.bin.erase(conversation.id)
    assert store.branches.thread(copy.id) == copies
    with pytest.raises(NotFound, match=other):
        store.branches.duplicate(copy.id, other)
    assert len(store.branches.duplicate(copy.id, copies[0].id).id) == 16


# ---- conversations ---------------------------------------------------------------------------------------------------


def test_conversations_come_newest_first_and_a_command_continues_the_given_or_the_last_one(store: Store) -> None:
    with pytest.raises(NotFound, match="to continue"):
        store.conversations.to_continue(None, last=True)
    first, second, third = (store.conversations.create(title).id for title in ("first", "second", "third"))
    store.conversations.rename(first, "renamed")
    assert [one.title for one in store.conversations.all()] == ["third", "second", "renamed"]
    store.conversations.pin(first, True)
    listed = [(one.id, one.pinned) for one in store.conversations.all()]
    assert listed == [(first, True), (third, False), (second, False)]
    assert [one.id for one in store.conversations.recent(2)] == [third, second]
    assert store.conversations.to_continue(None, last=True) == third
    assert store.conversations.to_continue(first, last=False) == first
    assert store.conversations.to_continue(None, last=False) is None
    with pytest.raises(NotFound):
        store.conversations.to_continue("c0ffee", last=False)
    store.conversations.pin(first, False)
    assert [one.id for one in store.conversations.all()] == [third, second, first]


def test_the_last_conversation_is_the_one_written_to_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the clock said then: it may have been ahead for a while, or begin in 1970 without a network."""
    first, second = (store.conversations.create(title).id for title in ("first", "second"))
    for identifier, clock in ((first, "2099"), (second, "2026"), (first, "1970"), (second, "2030")):
        moment = f"{clock}-06-01T12:00:00.000+00:00"
        for module in (storage.rows, storage.messages, storage.queue, storage.conversations):
            monkeypatch.setattr(module, "now", lambda moment=moment: moment)
        question = add(store, identifier, "hello")
        assert store.conversations.to_continue(None, last=True) == identifier
        assert [one.id for one in store.conversations.all()][0] == identifier
        answer = store.messages.ask(identifier, "again", parent_id=question)
        store.messages.finish(answer.id, [], [], "yes", "done", {})
        assert store.conversations.recent(1)[0].updated == moment
        third = store.conversations.create("third").id
        assert store.conversations.to_continue(None, last=True) == third
        store.queue.add(identifier, "waits")
        assert store.conversations.to_continue(None, last=True) == identifier


def test_an_import_stands_where_its_date_says(store: Store, tmp_path: Path) -> None:
    old, new = store.conversations.create("old").id, store.conversations.create("new").id
    with Store.open(tmp_path / "other.db") as other:
        for title, year in (("past", 2001), ("future", 2099)):
            identifier = other.conversations.create(title).id
            whole = other.transfer.whole(identifier)
            dated = replace(whole.conversation, updated=f"{year}-01-01T00:00:00.000+00:00")
            store.transfer.put(replace(whole, conversation=dated))
    later = store.conversations.create("later").id
    assert [one.title for one in store.conversations.all()] == ["later", "future", "new", "old", "past"]
    assert store.conversations.to_continue(None, last=True) == later and old != new


def test_what_was_chosen_stays_with_the_conversation_and_its_copies(store: Store) -> None:
    chosen = Choices(remote="home", model="qwen3", system="Be short.", temperature=0.5)
    plain, conversation = store.conversations.create(), store.conversations.create("short", chosen).id
    assert store.conversations.get(plain.id).choices == Choices()
    question = add(store, conversation, "hello")
    assert store.branches.duplicate(conversation, question).choices == chosen
    store.conversations.set_origin(conversation, "ask")
    store.conversations.choose(conversation, Choices(seed=7))
    assert store.conversations.get(conversation).choices == Choices(seed=7, origin="ask")
    store.conversations.set_origin(conversation, None)
    assert store.conversations.get(conversation).choices == Choices(seed=7)
    for garbled in ("", "[]", '{"temperature": "warm"}'):
        with store.database.write() as sql:
            sql.execute("UPDATE conversations SET choices = ? WHERE id = ?", (garbled, conversation))
        assert store.conversations.get(conversation).choices == Choices(), "another program has garbled it"
