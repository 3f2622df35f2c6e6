from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import AlreadyFinished, Conversation, Message, NotFound, Role, Stats, Store
from tests.storage.stored import add, found

TOKENS = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans()), max_size=40)
TEXTS = st.text(st.characters(codec="utf-8"))  # Without surrogates, with NUL.


def test_what_was_said_elsewhere_is_put_into_a_conversation_at_once(store: Store) -> None:
    conversation = store.conversations.create().id
    store.conversations.set_origin(conversation, "gateway")
    turns: list[tuple[Role, str]] = [("system", "Be \udcc3\udca9"), ("user", "unpack\ud800 it"), ("assistant", "解凍")]
    last = store.messages.put(conversation, turns)
    thread = store.branches.thread(conversation)
    read = ["Be é", "unpack? it", "解凍"]  # The first was UTF-8 that a locale did not decode.
    assert [one.text for one in thread] == read and [one.role for one in thread] == [role for role, _ in turns]
    assert thread[-1].id == last and all(one.finished for one in thread)
    assert found(store, "unpack") == [], "it is searched once a person goes on with it"
    store.conversations.set_origin(conversation, None)
    assert [found(store, word) for word in ("unpack", "be", "解凍")] == [[one] for one in (read[1], read[0], read[2])]
    assert store.messages.put(store.conversations.create().id, []) == ""


def test_a_finished_message_never_changes(store: Store, question: Message, answer: Message) -> None:
    store.messages.finish(answer.id, [5], [True], "tar", "done", {})
    finished = store.messages.get(answer.id)
    with pytest.raises(AlreadyFinished, match="done"):
        store.messages.finish(answer.id, [], [], "other", "failed", {})
    with pytest.raises(AlreadyFinished):
        store.messages.checkpoint(answer.id, [], [], "other")
    with pytest.raises(AlreadyFinished):
        store.messages.checkpoint(question.id, [], [], "other")
    for change in ("text = 'other'", "owner = 'me'"):  # Not even by other code.
        with pytest.raises(sqlite3.IntegrityError, match="never changes"), store.database.write() as database:
            database.execute(f"UPDATE messages SET {change} WHERE id = ?", (answer.id,))
    assert store.messages.get(answer.id) == finished


def test_what_is_no_sound_row_is_refused(store: Store, question: Message, answer: Message) -> None:
    other = store.conversations.create()
    with pytest.raises(NotFound, match=question.id):
        store.messages.add(other.id, "assistant", "", parent_id=question.id, status="done")
    assert store.branches.thread(other.id) == []
    with pytest.raises(sqlite3.IntegrityError), store.database.write() as database:
        database.execute("UPDATE conversations SET tip_id = ? WHERE id = ?", (question.id, other.id))
    with pytest.raises(sqlite3.IntegrityError):
        store.messages.checkpoint(answer.id, [5, 6], [True], "tar")
    assert store.messages.get(answer.id).status == "pending"


def test_erasing_leaves_nothing_behind(store: Store, conversation: Conversation, answer: Message) -> None:
    other = store.conversations.create("kept")
    add(store, other.id, "the only tarball")
    store.messages.checkpoint(answer.id, [5], [True], "tar")
    store.memory.save(conversation.id, b"format", 0, 1, b"data")
    store.bin.erase(conversation.id)
    assert [found.id for found in store.conversations.all()] == [other.id]
    assert found(store, "tarball") == ["the only tarball"]
    assert store.memory.load(conversation.id, b"format") == []
    with store.database.read() as database:
        for table in ("partials", "memories", "memory_chunks"):
            assert database.execute(f"SELECT * FROM {table}").fetchall() == []
    with pytest.raises(NotFound, match="deleted"):
        store.messages.checkpoint(answer.id, [5], [True], "tar")


def test_any_answer_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    with Store.open(tmp_path / "outrider.db") as store:
        conversation = store.conversations.create()
        stats: Stats = {"tau": 3.5, "rounds": 2, "mode": "edge", "rtt_ms": None}

        @settings(max_examples=50, deadline=None)
        @given(TEXTS, TOKENS, TEXTS, TOKENS)
        def check(early: str, partial: list[tuple[int, bool]], late: str, whole: list[tuple[int, bool]]) -> None:
            answer = store.messages.add(conversation.id, "assistant", "", parent_id=None, status="pending").id
            store.messages.checkpoint(answer, *apart(partial), early)
            read = store.messages.get(answer)
            assert (read.text, list(zip(read.tokens, read.provenance))) == (early, partial)
            assert (read.status, read.stats) == ("streaming", {})
            store.messages.finish(answer, *apart(whole), late, "done", stats)
            read = store.messages.get(answer)
            assert (read.text, list(zip(read.tokens, read.provenance))) == (late, whole)
            assert (read.status, read.stats) == ("done", stats)

        def apart(tokens: list[tuple[int, bool]]) -> tuple[list[int], list[bool]]:
            return [token for token, _ in tokens], [verified for _, verified in tokens]

        check()


def test_a_thread_is_the_path_to_the_newest_end_of_what_is_shown(tmp_path: Path) -> None:
    with Store.open(tmp_path / "outrider.db") as store:

        @settings(max_examples=30, deadline=None)
        @given(st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=15))
        def check(steps: list[tuple[bool, int]]) -> None:
            conversation = store.conversations.create().id
            paths: list[list[str]] = [[]]  # The path to each message; the first path is empty.
            shown: list[str] = []
            for move, choice in steps:
                path = paths[choice % len(paths)]
                if move and path:
                    store.branches.show(path[-1])
                    shown = [found for found in paths if found[: len(path)] == path][-1]
                else:
                    shown = [*path, add(store, conversation, "", path[-1] if path else None)]
                    paths.append(shown)
                assert [message.id for message in store.branches.thread(conversation)] == shown
            assert [message.id for message in store.messages.of(conversation)] == [path[-1] for path in paths[1:]]

        check()


def test_questions_come_once_where_last_asked(store: Store, conversation: Conversation, question: Message) -> None:
    other = store.conversations.create("other")
    for text in ("ls", "df", "ls", ""):
        add(store, other.id, text)
    add(store, conversation.id, "tar xf", question.id, role="assistant")
    assert store.messages.asked(100) == [question.text, "df", "ls"]
    assert store.messages.asked(2) == ["df", "ls"]
    store.bin.delete(other.id)
    assert store.messages.asked(100) == [question.text]
