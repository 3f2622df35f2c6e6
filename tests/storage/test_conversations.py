from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import AlreadyFinished, Conversation, Message, NotFound, Store

TOKENS = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans()), max_size=40)
TEXTS = st.text(st.characters(codec="utf-8"))  # Surrogates excepted, NUL included.


def test_a_message_is_stored_when_add_message_returns(path: Path, store: Store, question: Message) -> None:
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT id, text FROM messages").fetchall() == [(question.id, question.text)]


def test_times_are_utc(question: Message) -> None:
    created = datetime.fromisoformat(question.created)
    assert created.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=5)


def test_conversations_come_newest_first(store: Store) -> None:
    first, second = store.create_conversation("first"), store.create_conversation("second")
    assert [conversation.id for conversation in store.conversations()] == [second.id, first.id]
    store.rename(second.id, "renamed")
    assert store.conversation(second.id).title == "renamed"
    assert [conversation.id for conversation in store.conversations()] == [second.id, first.id]


def test_writing_to_a_conversation_makes_it_the_newest(store: Store, answer: Message) -> None:
    later = store.create_conversation()
    with store._write() as database:
        database.execute("UPDATE conversations SET updated = '2026-01-01T00:00:00.000+00:00'")
    store.finish(answer.id, [], [], "tar", "done", {})
    assert [conversation.id for conversation in store.conversations()] == [answer.conversation_id, later.id]


def test_an_answer_from_its_question_to_its_end(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    assert [(message.id, message.status) for message in store.thread(conversation.id)] == [
        (question.id, "done"),
        (answer.id, "pending"),
    ]
    store.checkpoint(answer.id, [5], [True], "tar")
    store.checkpoint(answer.id, [5, 6], [True, False], "tar -x")
    streaming = store.thread(conversation.id)[-1]
    assert (streaming.status, streaming.text) == ("streaming", "tar -x")
    assert (streaming.tokens, streaming.provenance) == ((5, 6), (True, False))

    stats = {"tau": 3.5, "rounds": 2, "mode": "edge", "rtt_ms": None}
    store.finish(answer.id, [5, 6, 7], [True, True, True], "tar -xf", "done", stats)
    done = store.thread(conversation.id)[-1]
    assert (done.status, done.text, done.tokens, done.stats) == ("done", "tar -xf", (5, 6, 7), stats)
    assert store.conversation(conversation.id).tip_id == answer.id


def test_recent_answers_are_the_newest_finished_ones(store: Store, question: Message, answer: Message) -> None:
    assert store.recent_answers(100) == []
    store.checkpoint(answer.id, [9], [True], "not yet")
    assert store.recent_answers(100) == []
    store.finish(answer.id, [1, 2, 3], [True] * 3, "one", "stopped", {})
    other = store.create_conversation("other").id
    asked = store.add_message(other, "user", "and now?", parent_id=None, status="done")
    empty = store.add_message(other, "assistant", "", parent_id=asked.id, status="pending")
    store.finish(empty.id, [], [], "", "failed", {})
    newest = store.add_message(other, "assistant", "", parent_id=asked.id, status="pending")
    store.finish(newest.id, [4, 5], [False] * 2, "two", "done", {})
    assert [found.tokens for found in store.recent_answers(100)] == [(4, 5), (1, 2, 3)]
    assert [found.text for found in store.recent_answers(3)] == ["two", "one"]
    assert [found.tokens for found in store.recent_answers(2)] == [(4, 5)] and store.recent_answers(0) == []


def test_checkpoints_go_to_the_side_row_only(store: Store, answer: Message) -> None:
    store.checkpoint(answer.id, [5], [True], "bsdtar")
    with store._read() as database:
        assert database.execute("SELECT text FROM messages WHERE id = ?", (answer.id,)).fetchone() == ("",)
        assert database.execute("SELECT text FROM partials").fetchall() == [("bsdtar",)]
    assert store.search("bsdtar") == []
    store.finish(answer.id, [5], [True], "bsdtar", "stopped", {})
    with store._read() as database:
        assert database.execute("SELECT text FROM partials").fetchall() == []
    assert [hit.message.id for hit in store.search("bsdtar")] == [answer.id]


def test_a_finished_message_never_changes(store: Store, question: Message, answer: Message) -> None:
    store.finish(answer.id, [5], [True], "tar", "done", {})
    finished = store.message(answer.id)
    with pytest.raises(AlreadyFinished, match="done"):
        store.finish(answer.id, [], [], "other", "failed", {})
    with pytest.raises(AlreadyFinished):
        store.checkpoint(answer.id, [], [], "other")
    with pytest.raises(AlreadyFinished):
        store.checkpoint(question.id, [], [], "other")
    assert store.message(answer.id) == finished


@pytest.mark.parametrize("change", ["text = 'other'", "status = 'failed'", "owner = 'me'"])
def test_not_even_other_code_can_change_a_finished_message(store: Store, question: Message, change: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="never changes"), store._write() as database:
        database.execute(f"UPDATE messages SET {change} WHERE id = ?", (question.id,))
    assert store.message(question.id) == question


def test_regenerating_and_editing_keep_the_old_branch(
    store: Store, conversation: Conversation, question: Message, answer: Message
) -> None:
    store.finish(answer.id, [5], [True], "tar", "done", {})
    again = store.add_message(conversation.id, "assistant", "bsdtar", parent_id=question.id, status="done")
    assert [message.id for message in store.thread(conversation.id)] == [question.id, again.id]
    edited = store.add_message(conversation.id, "user", "and a zip?", parent_id=None, status="done")
    assert [message.id for message in store.thread(conversation.id)] == [edited.id]

    store.set_tip(conversation.id, answer.id)
    assert [message.text for message in store.thread(conversation.id)] == [question.text, "tar"]
    assert [message.id for message in store.messages(conversation.id)] == [question.id, answer.id, again.id, edited.id]


def test_parent_and_tip_lie_in_the_same_conversation(store: Store, question: Message) -> None:
    other = store.create_conversation()
    with pytest.raises(NotFound, match=question.id):
        store.add_message(other.id, "assistant", "", parent_id=question.id, status="done")
    with pytest.raises(NotFound, match=question.id):
        store.set_tip(other.id, question.id)
    assert store.thread(other.id) == []
    with pytest.raises(sqlite3.IntegrityError), store._write() as database:
        database.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (question.id, other.id))


def test_erasing_leaves_nothing_behind(store: Store, conversation: Conversation, answer: Message) -> None:
    other = store.create_conversation("kept")
    kept = store.add_message(other.id, "user", "tarball", parent_id=None, status="done")
    store.checkpoint(answer.id, [5], [True], "tar")
    store.save_memory(conversation.id, b"format", 0, 1, b"data")
    store.erase(conversation.id)
    assert [found.id for found in store.conversations()] == [other.id]
    assert [hit.message.id for hit in store.search("tarball")] == [kept.id]
    assert store.load_memory(conversation.id, b"format") == []
    with store._read() as database:
        for table in ("partials", "memories", "memory_chunks"):
            assert database.execute(f"SELECT * FROM {table}").fetchall() == []
    with pytest.raises(NotFound, match="deleted"):
        store.checkpoint(answer.id, [5], [True], "tar")


def test_what_is_not_there_is_named(store: Store) -> None:
    calls = (
        lambda: store.conversation("c0ffee"),
        lambda: store.rename("c0ffee", ""),
        lambda: store.delete("c0ffee"),
        lambda: store.thread("c0ffee"),
        lambda: store.messages("c0ffee"),
        lambda: store.message("c0ffee"),
        lambda: store.set_tip("c0ffee", "c0ffee"),
        lambda: store.add_message("c0ffee", "user", "", parent_id=None, status="done"),
        lambda: store.finish("c0ffee", [], [], "", "done", {}),
        lambda: store.save_memory("c0ffee", b"", 0, 1, b""),
    )
    for call in calls:
        with pytest.raises(NotFound, match="c0ffee"):
            call()


def test_a_token_without_provenance_is_refused(store: Store, answer: Message) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        store.checkpoint(answer.id, [5, 6], [True], "tar")
    assert store.message(answer.id).status == "pending"


def test_blobs_are_little_endian_int32_and_uint8(store: Store, answer: Message) -> None:
    store.finish(answer.id, [1, 258], [True, False], "", "done", {})
    with store._read() as database:
        row = database.execute("SELECT tokens, provenance FROM messages WHERE id = ?", (answer.id,)).fetchone()
    assert row == (b"\x01\0\0\0\x02\x01\0\0", b"\x01\0")


def test_bytes_that_the_terminal_could_not_decode_cost_no_prompt(store: Store, conversation: Conversation) -> None:
    message = store.add_message(conversation.id, "user", "what is \udcff?", parent_id=None, status="done")
    assert message.text == "what is ??"


def test_any_answer_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "outrider.db")) as store:
        conversation = store.create_conversation()

        @settings(max_examples=50, deadline=None)
        @given(TEXTS, TOKENS, TEXTS, TOKENS)
        def check(early: str, partial: list[tuple[int, bool]], late: str, whole: list[tuple[int, bool]]) -> None:
            answer = store.add_message(conversation.id, "assistant", "", parent_id=None, status="pending")
            store.checkpoint(answer.id, [token for token, _ in partial], [flag for _, flag in partial], early)
            read = store.message(answer.id)
            assert (read.text, list(zip(read.tokens, read.provenance))) == (early, partial)
            store.finish(answer.id, [token for token, _ in whole], [flag for _, flag in whole], late, "done", {})
            read = store.message(answer.id)
            assert (read.text, list(zip(read.tokens, read.provenance))) == (late, whole)

        check()


def test_a_thread_is_the_path_to_the_tip(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "outrider.db")) as store:

        @settings(max_examples=30, deadline=None)
        @given(st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=15))
        def check(steps: list[tuple[bool, int]]) -> None:
            conversation = store.create_conversation()
            paths: list[list[str]] = [[]]  # The path to each message; the first is that of no message.
            shown: list[str] = []
            for move, choice in steps:
                path = paths[choice % len(paths)]
                if move and path:
                    store.set_tip(conversation.id, path[-1])
                    shown = path
                else:
                    parent = path[-1] if path else None
                    message = store.add_message(conversation.id, "user", "", parent_id=parent, status="done")
                    shown = [*path, message.id]
                    paths.append(shown)
                assert [message.id for message in store.thread(conversation.id)] == shown
            assert [message.id for message in store.messages(conversation.id)] == [path[-1] for path in paths[1:]]

        check()
