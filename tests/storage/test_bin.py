"""Deleting hides at once and loses nothing; what comes back is what went."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Conversation, Message, NotFound, Store


def said(store: Store, conversation: str) -> list[str]:
    return [message.text for message in store.thread(conversation)]


def found(store: Store, words: str) -> list[str]:
    return [hit.message.text for hit in store.search(words)]


def add(store: Store, conversation: str, text: str, parent: str | None, *, role: str = "user") -> str:
    return store.add_message(conversation, role, text, parent_id=parent, status="done").id  # type: ignore[arg-type]


def assert_sound(store: Store) -> None:
    """The indexes hold what is in view and nothing else."""
    with store._read() as database:
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        database.execute("INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)")
        database.execute("INSERT INTO titles_fts (titles_fts, rank) VALUES ('integrity-check', 1)")


def age(store: Store, days: float) -> None:
    """Everything in the bin has been there for so long."""
    then = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    with store._write() as database:
        for table in ("messages", "conversations"):
            database.execute(f"DROP TRIGGER IF EXISTS {table}_take_their_messages")
            database.execute(f"UPDATE {table} SET deleted = ? WHERE deleted IS NOT NULL", (then,))


def test_a_conversation_leaves_every_view_and_comes_back_whole(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    store.finish(answer.id, [5, 6], [True, False], "tar x", "done", {"rounds": 1})
    store.pin(conversation.id, True)
    store.enqueue(conversation.id, "and a zip?")
    store.enqueue_verification(answer.id)
    store.save_memory(conversation.id, b"format", 0, 1, b"data")
    before = store.conversation(conversation.id), store.messages(conversation.id), store.queued()

    store.delete(conversation.id)
    assert_sound(store)
    assert store.conversations() == store.recent_conversations(9) == store.queued() == store.recent_answers(9) == []
    assert store.next_queued() is None and store.find("tarballs") == store.find("tar") == store.search("tar") == []
    assert [gone.id for gone in store.deleted_conversations()] == [conversation.id]
    calls: list[Callable[[], object]] = [
        lambda: store.conversation(conversation.id),
        lambda: store.thread(conversation.id),
        lambda: store.message(question.id),
        lambda: store.branch(question.id),
        lambda: store.siblings(question.id),
        lambda: store.versions(conversation.id),
        lambda: store.rename(conversation.id, "x"),
        lambda: store.pin(conversation.id, False),
        lambda: store.delete(conversation.id),
        lambda: store.delete_message(question.id),
        lambda: store.restore_message(question.id),
        lambda: store.add_message(conversation.id, "user", "x", parent_id=None, status="done"),
        lambda: store.ask(conversation.id, "x", parent_id=question.id),
        lambda: store.enqueue(conversation.id, "x"),
        lambda: store.enqueue_verification(answer.id),
        lambda: store.save_memory(conversation.id, b"format", 0, 1, b"data"),
    ]
    for call in calls:
        with pytest.raises(NotFound):
            call()

    store.restore(conversation.id)
    assert_sound(store)
    assert (store.conversation(conversation.id), store.messages(conversation.id), store.queued()) == before
    assert found(store, "tar x") == ["tar x"]
    assert [one.conversation for one in store.find("tarballs")] == [store.conversation(conversation.id)]
    assert store.load_memory(conversation.id, b"format") == [(0, 1, b"data")]
    assert store.deleted_conversations() == []
    store.restore(conversation.id)  # Undone twice, from two windows.


def test_memory_of_what_is_in_the_bin_makes_room_first(store: Store, conversation: Conversation) -> None:
    other, third = store.create_conversation().id, store.create_conversation().id
    store.save_memory(other, b"format", 0, 1, b"data")
    store.save_memory(conversation.id, b"format", 0, 1, b"data")
    store.delete(conversation.id)
    store.memory_budget = 8
    store.save_memory(third, b"format", 0, 1, b"data")
    store.restore(conversation.id)
    kept = [bool(store.load_memory(one, b"format")) for one in (other, conversation.id, third)]
    assert kept == [True, False, True]


def test_an_answer_is_finished_in_the_bin(store: Store, conversation: Conversation, answer: Message) -> None:
    store.delete(conversation.id)
    store.checkpoint(answer.id, [5], [True], "bsd")
    store.finish(answer.id, [5, 6], [True, True], "bsdtar", "done", {})
    assert_sound(store)
    assert found(store, "bsdtar") == []
    store.restore(conversation.id)
    assert found(store, "bsdtar") == ["bsdtar"] and said(store, conversation.id)[-1] == "bsdtar"
    assert_sound(store)


def test_what_a_crash_left_in_the_bin_is_recovered(path: Path, conversation: Conversation, answer: Message) -> None:
    with closing(Store.open(path)) as dying:
        theirs = dying.ask(conversation.id, "and a zip?", parent_id=answer.id)
        dying.checkpoint(theirs.id, [7], [True], "unz")
        dying.delete_message(theirs.id)
    with closing(Store.open(path)) as store:
        store.restore_message(theirs.id)
        assert (store.message(theirs.id).status, store.message(theirs.id).text) == ("stopped", "unz")
        assert_sound(store)


def test_a_message_goes_with_all_that_was_said_after_it(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    other = add(store, conversation.id, "other", first, role="assistant")
    mine = add(store, conversation.id, "mine", first, role="assistant")
    after = add(store, conversation.id, "after", mine)
    store.delete_message(mine)
    assert_sound(store)
    assert said(store, conversation.id) == ["first", "other"], "the version before it is shown"
    assert [message.id for message in store.messages(conversation.id)] == [first, other]
    assert found(store, "mine") == found(store, "after") == [] and store.versions(conversation.id) == {}
    with pytest.raises(NotFound, match="deleted"):
        store.message(after)
    with pytest.raises(NotFound, match="deleted"):
        store.add_message(conversation.id, "user", "x", parent_id=mine, status="done")
    store.restore_message(mine)
    assert said(store, conversation.id) == ["first", "mine", "after"]
    assert found(store, "after") == ["after"] and store.versions(conversation.id) == {mine: (2, 2)}
    assert_sound(store)


def test_without_another_version_what_stood_before_it_is_shown(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    answer = add(store, conversation.id, "answer", first, role="assistant")
    store.delete_message(answer)
    assert said(store, conversation.id) == ["first"]
    store.delete_message(first)
    assert said(store, conversation.id) == [] and store.conversation(conversation.id).tip_id is None
    again = add(store, conversation.id, "again", None)
    store.restore_message(answer)
    assert said(store, conversation.id) == ["first", "answer"], "what it followed comes back, too"
    assert store.siblings(again) == store.siblings(first) and len(store.siblings(first)) == 2


def test_the_first_version_makes_way_for_the_second(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    second = add(store, conversation.id, "second", None)
    add(store, conversation.id, "below", second, role="assistant")
    store.show(first)
    store.delete_message(first)
    assert said(store, conversation.id) == ["second", "below"]


def test_the_first_of_three_versions_makes_way_for_the_second(store: Store, conversation: Conversation) -> None:
    first, second, third = (add(store, conversation.id, text, None) for text in ("one", "two", "three"))
    store.set_tip(conversation.id, first)
    store.delete_message(first)
    assert said(store, conversation.id) == ["two"]
    store.set_tip(conversation.id, third)
    store.delete_message(third)
    assert said(store, conversation.id) == ["two"]


def test_what_is_not_shown_leaves_the_shown_branch_alone(store: Store, conversation: Conversation) -> None:
    hidden = add(store, conversation.id, "hidden", None)
    add(store, conversation.id, "shown", None)
    store.delete_message(hidden)
    assert said(store, conversation.id) == ["shown"]


def test_what_was_deleted_before_stays_deleted(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    kept = add(store, conversation.id, "kept", first, role="assistant")
    below = add(store, conversation.id, "below", first, role="assistant")
    store.delete_message(below)
    store.delete_message(first)
    store.delete(conversation.id)
    store.restore(conversation.id)
    assert store.messages(conversation.id) == []
    store.restore_message(first)
    assert [message.id for message in store.messages(conversation.id)] == [first, kept]
    store.restore_message(below)
    assert said(store, conversation.id) == ["first", "below"]


def test_a_verification_of_what_was_deleted_waits_until_it_is_back(
    store: Store, conversation: Conversation, answer: Message
) -> None:
    store.finish(answer.id, [5], [False], "tar x", "done", {})
    store.enqueue_verification(answer.id)
    prompt = store.enqueue(conversation.id, "and a zip?")
    store.delete_message(answer.id)
    assert store.queued() == [prompt]
    store.restore_message(answer.id)
    assert [queued.kind for queued in store.queued()] == ["verify", "ask"]


def test_a_conversation_of_deleted_messages_outlives_its_queue(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    store.delete_message(first)
    store.unqueue(store.enqueue(conversation.id, "second").id)
    store.restore_message(first)
    assert said(store, conversation.id) == ["first"]


def test_a_verified_answer_that_was_deleted_meanwhile_takes_no_place(
    store: Store, conversation: Conversation, answer: Message
) -> None:
    store.finish(answer.id, [5], [False], "tar x", "done", {})
    beside = store.add_beside(answer.id)
    assert beside is not None
    store.delete_message(beside.id)
    store.finish(beside.id, [5], [True], "tar", "done", {}, settles=answer.id)
    assert said(store, conversation.id)[-1] == "tar x"


def test_the_bin_is_emptied_after_thirty_days(path: Path, store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    gone = add(store, conversation.id, "gone", first, role="assistant")
    below = add(store, conversation.id, "below", gone)
    store.delete_message(below)
    store.delete_message(gone)
    other = store.create_conversation("other").id
    add(store, other, "elsewhere", None)
    store.delete(other)
    for days, there in ((29.9, True), (30.1, False)):
        age(store, days)
        with closing(Store.open(path)) as opened:
            assert (len(opened.deleted_conversations()) == 1) == there
            with opened._read() as database:
                (messages,) = database.execute("SELECT count(*) FROM messages").fetchone()
            assert messages == (4 if there else 1)
            assert_sound(opened)
    for call in (lambda: store.restore(other), lambda: store.erase(other), lambda: store.restore_message(gone)):
        with pytest.raises(NotFound):
            call()
    assert said(store, conversation.id) == ["first"]


def test_the_bin_is_emptied_whatever_the_clock_did(path: Path, store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first", None)
    below = add(store, conversation.id, "below", first, role="assistant")
    store.delete_message(below)
    store.delete_message(first)
    with store._write() as database:
        database.execute("UPDATE messages SET deleted = '2020-01-01' WHERE id = ?", (first,))
    with closing(Store.open(path)) as opened, opened._read() as database:
        assert database.execute("SELECT count(*) FROM messages").fetchone() == (0,)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET deleted = 'now', text = 'other' WHERE id = :message",
        "UPDATE messages SET deleted = 'now' WHERE id = :message",
        "UPDATE conversations SET tip_id = :deleted WHERE id = :conversation",
        "INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created) "
        "VALUES ('x', :conversation, :deleted, 'user', '', 'done', '')",
        "INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created) "
        "VALUES ('x', :bin, NULL, 'user', '', 'done', '')",
        "UPDATE conversations SET pinned = 2",
    ],
)
def test_not_even_other_code_can_show_or_follow_what_is_deleted(
    store: Store, conversation: Conversation, statement: str
) -> None:
    shown = add(store, conversation.id, "shown", None)
    deleted = add(store, conversation.id, "deleted", shown)
    store.delete_message(deleted)
    bin = store.create_conversation().id
    store.delete(bin)
    before = store.messages(conversation.id)
    with pytest.raises(sqlite3.IntegrityError), store._write() as database:
        database.execute(statement, {"message": shown, "deleted": deleted, "conversation": conversation.id, "bin": bin})
    assert store.messages(conversation.id) == before


def test_what_is_deleted_and_restored_is_what_it_was(tmp_path: Path) -> None:
    """Any tree: delete some messages, restore them in reverse, and nothing has changed but the tip."""
    with closing(Store.open(tmp_path / "outrider.db")) as store:

        @settings(max_examples=40, deadline=None)
        @given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.lists(st.integers(0, 20), max_size=5))
        def check(parents: list[int], deletions: list[int]) -> None:
            conversation = store.create_conversation().id
            ids: list[str] = []
            for choice in parents:
                parent = None if choice == 0 or not ids else ids[choice % len(ids)]
                ids.append(add(store, conversation, f"text{len(ids)}", parent))
            before = store.messages(conversation)
            deleted = []
            for choice in deletions:
                if visible := [message.id for message in store.messages(conversation)]:
                    deleted.append(visible[choice % len(visible)])
                    store.delete_message(deleted[-1])
                    seen = {message.id: message for message in store.messages(conversation)}
                    assert all(message.parent_id in (None, *seen) for message in seen.values())
                    thread = store.thread(conversation)
                    assert {message.id for message in thread} <= set(seen)
                    assert bool(thread) == bool(seen)
            for message_id in reversed(deleted):
                store.restore_message(message_id)
                assert message_id in [message.id for message in store.thread(conversation)]
            assert store.messages(conversation) == before
            assert_sound(store)

        check()
