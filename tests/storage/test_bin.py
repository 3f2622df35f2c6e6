"""Deleting hides at once and loses nothing; restoring brings back exactly what was deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Choices, Conversation, Message, NotFound, Store
from tests.storage.stored import add, assert_sound, found, said


def age(store: Store, days: float) -> None:
    """Sets the time of every deletion to `days` ago."""
    then = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    with store.database.write() as database:
        for table in ("messages", "conversations"):
            database.execute(f"DROP TRIGGER IF EXISTS {table}_take_their_messages")
            database.execute(f"UPDATE {table} SET deleted = ? WHERE deleted IS NOT NULL", (then,))


def test_a_conversation_leaves_all_views_and_returns(store: Store, conversation: Conversation, answer: Message) -> None:
    store.messages.finish(answer.id, [5, 6], [True, False], "tar x", "done", {"rounds": 1})
    store.conversations.pin(conversation.id, True)
    store.queue.add(conversation.id, "and a zip?")
    store.queue.add_verification(answer.id)
    store.memory.save(conversation.id, b"format", 0, 1, b"data")
    before = store.conversations.get(conversation.id), store.messages.of(conversation.id), store.queue.all()

    store.bin.delete(conversation.id)
    assert_sound(store)
    assert store.conversations.all() == store.conversations.recent(9) == store.messages.recent_answers(9) == []
    assert store.queue.all() == store.queue.ready() == store.search.messages("tar") == []
    assert store.search.conversations("tarballs") == store.search.conversations("tar") == []
    assert [gone.id for gone in store.bin.conversations()] == [conversation.id]
    bin, branches, messages, conversations = store.bin, store.branches, store.messages, store.conversations
    key = conversation.id
    of_messages: list[Callable[[str], object]] = [branches.path, branches.show, branches.siblings, messages.resume]
    of_messages += [bin.delete_message, bin.restore_message, store.queue.add_verification]
    calls: list[Callable[[], object]] = [
        *(partial(call, key) for call in (branches.thread, branches.versions, bin.delete, messages.of)),
        *(partial(call, answer.id) for call in of_messages),
        lambda: conversations.rename(key, "x"),
        lambda: conversations.pin(key, True),
        lambda: conversations.choose(key, Choices()),
        lambda: conversations.set_origin(key, "ask"),
        lambda: branches.duplicate(key, answer.id),
        lambda: messages.add(key, "user", "x", parent_id=None, status="done"),
        lambda: messages.ask(key, "x", parent_id=answer.id),
        lambda: messages.put(key, []),
        lambda: store.queue.add(key, "x"),
        lambda: store.memory.save(key, b"format", 0, 1, b"data"),
        lambda: bin.erase("c0ffee"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match=r"(conversation|message) \w+.*\.$"):
            call()

    store.bin.restore(conversation.id)
    assert_sound(store)
    assert (store.conversations.get(conversation.id), store.messages.of(conversation.id), store.queue.all()) == before
    assert found(store, "tar x") == ["tar x"]
    assert [one.conversation for one in store.search.conversations("tarballs")] == [before[0]]
    assert store.memory.load(conversation.id, b"format") == [(0, 1, b"data")]
    assert store.bin.conversations() == []
    store.bin.restore(conversation.id)  # Two windows undo the same deletion.


def test_an_answer_is_finished_in_the_bin(store: Store, conversation: Conversation, answer: Message) -> None:
    store.bin.delete(conversation.id)
    store.messages.checkpoint(answer.id, [5], [True], "bsd")
    store.messages.finish(answer.id, [5, 6], [True, True], "bsdtar", "done", {})
    assert_sound(store)
    assert found(store, "bsdtar") == []
    store.bin.restore(conversation.id)
    assert found(store, "bsdtar") == ["bsdtar"] and said(store, conversation.id)[-1] == "bsdtar"
    assert_sound(store)


def test_what_a_crash_left_in_the_bin_is_recovered(path: Path, conversation: Conversation, answer: Message) -> None:
    with Store.open(path) as dying:
        theirs = dying.messages.ask(conversation.id, "and a zip?", parent_id=answer.id)
        dying.messages.checkpoint(theirs.id, [7], [True], "unz")
        dying.bin.delete_message(theirs.id)
    with Store.open(path) as store:
        store.bin.restore_message(theirs.id)
        assert (store.messages.get(theirs.id).status, store.messages.get(theirs.id).text) == ("stopped", "unz")
        assert_sound(store)


def test_a_message_goes_with_all_that_was_said_after_it(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first")
    other = add(store, conversation.id, "other", first, role="assistant")
    mine = add(store, conversation.id, "mine", first, role="assistant")
    after = add(store, conversation.id, "after", mine)
    store.bin.delete_message(mine)
    assert_sound(store)
    assert said(store, conversation.id) == ["first", "other"], "the version before it is shown"
    assert [message.id for message in store.messages.of(conversation.id)] == [first, other]
    assert found(store, "mine") == found(store, "after") == [] and store.branches.versions(conversation.id) == {}
    with pytest.raises(NotFound, match="deleted"):
        store.messages.get(after)
    with pytest.raises(NotFound, match="deleted"):
        store.messages.add(conversation.id, "user", "x", parent_id=mine, status="done")
    store.bin.restore_message(mine)
    assert said(store, conversation.id) == ["first", "mine", "after"]
    assert found(store, "after") == ["after"] and store.branches.versions(conversation.id) == {mine: (2, 2)}
    assert_sound(store)


def test_without_another_version_what_stood_before_it_is_shown(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first")
    answer = add(store, conversation.id, "answer", first, role="assistant")
    store.bin.delete_message(answer)
    assert said(store, conversation.id) == ["first"]
    store.bin.delete_message(first)
    assert said(store, conversation.id) == [] and store.conversations.get(conversation.id).tip_id is None
    store.queue.remove(store.queue.add(conversation.id, "second").id)  # Its conversation outlives its queue.
    again = add(store, conversation.id, "again")
    store.bin.restore_message(answer)
    assert said(store, conversation.id) == ["first", "answer"], "what it followed comes back, too"
    assert store.branches.siblings(again) == store.branches.siblings(first) and len(store.branches.siblings(first)) == 2


def test_the_first_of_three_versions_makes_way_for_the_second(store: Store, conversation: Conversation) -> None:
    hidden, first, _, third = (add(store, conversation.id, text) for text in ("zero", "one", "two", "three"))
    for shown, deleted, left in ((third, hidden, "three"), (first, first, "two"), (third, third, "two")):
        store.branches.show(shown)
        store.bin.delete_message(deleted)
        assert said(store, conversation.id) == [left]


def test_what_was_deleted_before_stays_deleted(store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first")
    kept = add(store, conversation.id, "kept", first, role="assistant")
    below = add(store, conversation.id, "below", first, role="assistant")
    store.bin.delete_message(below)
    store.bin.delete_message(first)
    store.bin.delete(conversation.id)
    store.bin.restore(conversation.id)
    assert store.messages.of(conversation.id) == []
    store.bin.restore_message(first)
    assert [message.id for message in store.messages.of(conversation.id)] == [first, kept]
    store.bin.restore_message(below)
    assert said(store, conversation.id) == ["first", "below"]


def test_what_is_done_about_a_deleted_answer_waits_until_it_is_back(store: Store, answer: Message) -> None:
    store.messages.finish(answer.id, [5], [False], "tar x", "done", {})
    store.queue.add_verification(answer.id)
    prompt = store.queue.add(answer.conversation_id, "and a zip?")
    store.bin.delete_message(answer.id)
    assert store.queue.all() == [prompt]
    store.bin.restore_message(answer.id)
    assert [queued.kind for queued in store.queue.all()] == ["verify", "ask"]
    beside = store.messages.verify(answer.id)
    assert beside is not None
    store.bin.delete_message(beside.id)
    store.messages.finish(beside.id, [5], [True], "tar", "done", {}, settles=answer.id)
    assert said(store, answer.conversation_id)[-1] == "tar x", "it takes no place"


def test_the_bin_is_emptied_after_thirty_days(path: Path, store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first")
    gone = add(store, conversation.id, "gone", first, role="assistant")
    below = add(store, conversation.id, "below", gone)
    store.bin.delete_message(below)
    store.bin.delete_message(gone)
    other = store.conversations.create("other").id
    add(store, other, "elsewhere")
    store.bin.delete(other)
    for days, there in ((29.9, True), (30.1, False)):
        age(store, days)
        with Store.open(path) as opened:
            assert (len(opened.bin.conversations()) == 1) == there
            with opened.database.read() as database:
                (messages,) = database.execute("SELECT count(*) FROM messages").fetchone()
            assert messages == (4 if there else 1)
            assert_sound(opened)
    for act, key in ((store.bin.restore, other), (store.bin.erase, other), (store.bin.restore_message, gone)):
        with pytest.raises(NotFound):
            act(key)
    assert said(store, conversation.id) == ["first"]


def test_the_bin_is_emptied_whatever_the_clock_did(path: Path, store: Store, conversation: Conversation) -> None:
    first = add(store, conversation.id, "first")
    below = add(store, conversation.id, "below", first, role="assistant")
    store.bin.delete_message(below)
    store.bin.delete_message(first)
    with store.database.write() as database:
        database.execute("UPDATE messages SET deleted = '2020-01-01' WHERE id = ?", (first,))
    with Store.open(path) as opened, opened.database.read() as database:
        assert database.execute("SELECT count(*) FROM messages").fetchone() == (0,)


def test_not_even_other_code_can_show_or_follow_what_is_deleted(store: Store, conversation: Conversation) -> None:
    shown = add(store, conversation.id, "shown")
    deleted = add(store, conversation.id, "deleted", shown)
    store.bin.delete_message(deleted)
    bin = store.conversations.create().id
    store.bin.delete(bin)
    named = {"message": shown, "deleted": deleted, "conversation": conversation.id, "bin": bin}
    before = store.messages.of(conversation.id)
    insert = "INSERT INTO messages (id, conversation_id, parent_id, role, text, status, created) VALUES"
    for statement in (
        "UPDATE messages SET deleted = 'now', text = 'other' WHERE id = :message",
        "UPDATE messages SET deleted = 'now' WHERE id = :message",
        "UPDATE conversations SET tip_id = :deleted WHERE id = :conversation",
        f"{insert} ('x', :conversation, :deleted, 'user', '', 'done', '')",
        f"{insert} ('x', :bin, NULL, 'user', '', 'done', '')",
        "UPDATE conversations SET pinned = 2",
    ):
        with pytest.raises(sqlite3.IntegrityError), store.database.write() as database:
            database.execute(statement, named)
    assert store.messages.of(conversation.id) == before


def test_what_is_deleted_and_restored_is_what_it_was(tmp_path: Path) -> None:
    """In any tree: delete some messages, restore them in reverse order, and only the tip has changed."""
    with Store.open(tmp_path / "outrider.db") as store:

        @settings(max_examples=40, deadline=None)
        @given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.lists(st.integers(0, 20), max_size=5))
        def check(parents: list[int], deletions: list[int]) -> None:
            conversation = store.conversations.create().id
            ids: list[str] = []
            for choice in parents:
                parent = None if choice == 0 or not ids else ids[choice % len(ids)]
                ids.append(add(store, conversation, f"text{len(ids)}", parent))
            before = store.messages.of(conversation)
            deleted = []
            for choice in deletions:
                if visible := [message.id for message in store.messages.of(conversation)]:
                    deleted.append(visible[choice % len(visible)])
                    store.bin.delete_message(deleted[-1])
                    seen = {message.id: message for message in store.messages.of(conversation)}
                    assert all(message.parent_id in (None, *seen) for message in seen.values())
                    thread = store.branches.thread(conversation)
                    assert {message.id for message in thread} <= set(seen)
                    assert bool(thread) == bool(seen)
            for message_id in reversed(deleted):
                store.bin.restore_message(message_id)
                assert message_id in [message.id for message in store.branches.thread(conversation)]
            assert store.messages.of(conversation) == before
            assert_sound(store)

        check()


def test_a_clock_that_is_wrong_once_empties_nothing(path: Path, store: Store, conversation: Conversation) -> None:
    def write_later(days: int) -> None:
        with store.database.write() as database:
            database.execute("UPDATE conversations SET written = written + ?", (days * 86_400_000,))

    binned = [store.conversations.create().id for _ in range(2)]
    store.bin.delete(binned[0])
    age(store, 31)
    write_later(-40)
    with Store.open(path) as opened:
        assert len(opened.bin.conversations()) == 1, "nobody wrote since: the clock may be ahead"
    add(store, conversation.id, "first", None)
    with Store.open(path) as opened:
        assert opened.bin.conversations() == []
    write_later(40)
    gone = [add(store, conversation.id, text, None) for text in ("one", "two")]
    store.bin.delete(binned[1])
    for message in gone:
        store.bin.delete_message(message)
    later = (datetime.now(UTC) + timedelta(days=39)).isoformat()
    with store.database.read() as database:
        (times,) = database.execute("SELECT count(DISTINCT deleted) FROM messages WHERE deleted > ?", (later,))
        (bins,) = database.execute("SELECT count(*) FROM conversations WHERE deleted > ?", (later,))
    assert (times, bins) == ((2,), (1,)), "the clock may be behind"
