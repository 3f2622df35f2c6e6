"""Versions of a message, the shown branch, and copies of a branch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage import Conversation, Message, NotFound, Store
from storage.records import Role


@pytest.fixture
def add(store: Store, conversation: Conversation) -> Callable[..., str]:
    """Stores a finished message of the other role than its parent, and returns its id."""

    def add(text: str, parent: str | None = None, role: Role | None = None) -> str:
        below = parent is not None and store.messages.get(parent).role == "user"
        role = role or ("assistant" if below else "user")
        return store.messages.add(conversation.id, role, text, parent_id=parent, status="done").id

    return add


def said(store: Store, conversation: Conversation) -> list[str]:
    return [message.text for message in store.branches.thread(conversation.id)]


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


def test_versions_are_counted_on_the_shown_branch_only(
    store: Store, conversation: Conversation, add: Callable[..., str]
) -> None:
    question = add("question")
    first, second, third = (add(text, question) for text in ("first", "second", "third"))
    assert store.branches.versions(conversation.id) == {third: (3, 3)}
    follow = add("follow", second)
    other = add("other", second)
    assert store.branches.versions(conversation.id) == {second: (2, 3), other: (2, 2)}
    assert ids(store.branches.siblings(third)) == [first, second, third]
    assert ids(store.branches.siblings(follow)) == [follow, other]
    edited = add("edited question")
    ordered = add("be brief", role="system")  # A file from another program may have it beside a question.
    assert ids(store.branches.siblings(question)) == [question, edited]
    assert ids(store.branches.siblings(ordered)) == [ordered] and store.branches.versions(conversation.id) == {}
    store.branches.show(edited)
    assert store.branches.versions(conversation.id) == {edited: (2, 2)}
    assert store.branches.versions(store.conversations.create().id) == {}


def test_a_try_that_came_to_nothing_is_no_version(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    store.messages.finish(answer.id, [5, 6], [False, False], "tar x", "done", {})
    failed = store.messages.verify(answer.id)
    assert failed is not None and (failed.verifies, failed.stats) == (answer.id, {})
    store.messages.finish(failed.id, [], [], "", "failed", {})
    stopped = store.messages.verify(answer.id)
    assert stopped is not None
    store.messages.checkpoint(stopped.id, [5], [True], "tar")
    assert ids(store.branches.siblings(answer.id)) == [answer.id], "nor is one that is not done yet"
    store.messages.finish(stopped.id, [5], [True], "tar", "stopped", {})
    empty = store.messages.add(conversation.id, "assistant", "", parent_id=question.id, status="failed")
    assert store.branches.versions(conversation.id) == {empty.id: (2, 2)}, "it is what is shown"
    store.branches.show(question.id)
    assert store.branches.thread(conversation.id)[-1].id == answer.id
    assert store.branches.versions(conversation.id) == {}
    store.branches.show(empty.id)
    later = store.messages.add(conversation.id, "user", "go on", parent_id=empty.id, status="done")
    store.branches.show(answer.id)
    assert store.branches.versions(conversation.id) == {answer.id: (1, 2)}, "something was said after it"
    store.branches.show(empty.id)
    assert store.branches.thread(conversation.id)[-1].id == later.id
    done = store.messages.verify(answer.id)
    assert done is not None
    store.messages.finish(done.id, [5], [True], "tar", "done", {})
    assert ids(store.branches.siblings(answer.id)) == [answer.id, empty.id, done.id]


def test_an_answer_that_is_written_is_a_version_once_it_says_something(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    store.messages.add(conversation.id, "assistant", "other", parent_id=question.id, status="done")
    assert store.branches.versions(conversation.id) == {}
    store.messages.checkpoint(answer.id, [5], [True], "tar")
    assert list(store.branches.versions(conversation.id).values()) == [(2, 2)]


def test_a_resumed_answer_begins_with_what_there_was(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "stopped", {})
    cut = store.messages.get(answer.id)
    resumed = store.messages.resume(answer.id)
    assert (resumed.text, resumed.tokens, resumed.provenance) == (cut.text, cut.tokens, cut.provenance)
    assert (resumed.status, resumed.resumes) == ("pending", answer.id)
    assert store.branches.thread(conversation.id) == [question, resumed]
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
    assert said(store, conversation) == ["one", ""] and store.messages.of(other.id) == []


def test_a_copy_holds_the_branch_and_shares_nothing(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "done", {"rounds": 2})
    other = store.messages.add(conversation.id, "assistant", "other", parent_id=question.id, status="done")
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
    assert [hit.message.id for hit in store.search.messages("unz")] == [copies[-1].id]

    store.bin.erase(conversation.id)
    assert store.branches.thread(copy.id) == copies
    with pytest.raises(NotFound, match=other.id):
        store.branches.duplicate(copy.id, other.id)
    assert len(store.branches.duplicate(copy.id, copies[0].id).id) == 16


def test_pinned_conversations_come_first(store: Store) -> None:
    first, second, third = (store.conversations.create(title).id for title in ("first", "second", "third"))
    store.conversations.pin(first, True)
    listed = [(one.id, one.pinned) for one in store.conversations.all()]
    assert listed == [(first, True), (third, False), (second, False)]
    assert [one.id for one in store.conversations.recent(2)] == [third, second]
    store.conversations.pin(first, False)
    assert [one.id for one in store.conversations.all()] == [third, second, first]
