"""What goes with a question is stored with it, moves between the queue and the conversation, and is copied with it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from storage import Attachment, Store

NOTES = Attachment("notes.txt", "text/plain", "first\nsecond ü\n".encode())
PICTURE = Attachment("a b.png", "image/png", bytes(range(256)))
HOSTILE = Attachment("evil\x1b[2J\n\u202e.txt", "text/plain", b"\x00\x1b]52;c;AAAA\x07")
NOT_UTF8 = Attachment("th\udce9.txt", "text/plain", b"x")
FILES = (NOTES, PICTURE, HOSTILE, replace(NOT_UTF8, name="th?.txt"))
"""As they come back."""


def rows(store: Store) -> int:
    with store.database.read() as sql:
        return len(sql.execute("SELECT 1 FROM attachments").fetchall())


def ask(store: Store, text: str = "what is this?") -> tuple[str, str, str]:
    """A conversation with one question that has files; ids of the conversation, the question and its answer."""
    conversation = store.conversations.create(text)
    answer = store.messages.ask(conversation.id, text, parent_id=None, attachments=[*FILES[:3], NOT_UTF8])
    return conversation.id, str(answer.parent_id), answer.id


def test_they_come_back_as_they_were_in_their_order_and_never_change_nor_move(store: Store) -> None:
    conversation, question, answer = ask(store)
    assert store.messages.get(question).attachments == FILES
    assert store.messages.get(answer).attachments == ()
    assert [one.attachments for one in store.branches.path(answer)] == [FILES, ()]
    assert [one.attachments for one in store.messages.of(conversation)] == [FILES, ()]
    assert NOTES.text == "first\nsecond ü\n" and PICTURE.text == ""
    _, other, _ = ask(store, "another")
    for column in ("name", "media_type", "data", "place"):
        with pytest.raises(sqlite3.IntegrityError, match="never changes"), store.database.write() as sql:
            sql.execute(f"UPDATE attachments SET {column} = 9")
    with pytest.raises(sqlite3.IntegrityError, match="stays with its message"), store.database.write() as sql:
        sql.execute("UPDATE attachments SET message_id = ? WHERE message_id = ?", (other, question))


def test_they_go_with_their_conversation_and_a_copy_keeps_them(store: Store) -> None:
    conversation, question, answer = ask(store)
    store.messages.finish(answer, (), (), "a picture", "done", {})
    store.bin.delete(conversation)
    store.bin.restore(conversation)
    assert store.messages.get(question).attachments == FILES
    copy = store.branches.duplicate(conversation, answer)
    store.bin.erase(conversation)
    assert [one.attachments for one in store.branches.thread(copy.id)] == [FILES, ()]
    store.bin.erase(copy.id)
    assert rows(store) == 0


def test_a_queued_prompt_keeps_them_until_it_is_sent_and_when_it_comes_back(store: Store) -> None:
    conversation = store.conversations.create("later")
    queued = store.queue.add(conversation.id, "what is this?", FILES)
    assert queued.attachments == FILES
    assert [one.attachments for one in store.queue.all()] == [FILES]
    store.queue.edit(queued.id, "what is that?")
    assert [due.attachments for due in store.queue.ready()] == [FILES]

    answer = store.queue.take(queued.id)
    assert answer is not None
    assert store.messages.get(str(answer.parent_id)).attachments == FILES
    deferred = store.queue.defer(answer.id)
    assert deferred is not None
    assert (deferred.text, deferred.attachments) == ("what is that?", FILES)
    assert store.queue.take(deferred.id) is not None and rows(store) == len(FILES)

    _, _, unqueued = ask(store)
    deferred = store.queue.defer(unqueued)
    assert deferred is not None and deferred.attachments == FILES
    assert store.queue.remove(deferred.id).attachments == FILES and rows(store) == len(FILES)


def test_the_thoughts_of_a_model_are_kept_with_its_answer_and_are_no_text_to_find(store: Store) -> None:
    _, _, answer = ask(store)
    store.messages.finish(answer, (), (), "It is a cat.", "done", {}, reasoning="whiskers \ud83d, so")
    assert store.messages.get(answer).reasoning == "whiskers ?, so"
    assert store.messages.get(answer).text == "It is a cat."
    assert store.search.messages("whiskers") == []
    with pytest.raises(sqlite3.IntegrityError, match="finished"), store.database.write() as sql:
        sql.execute("UPDATE messages SET reasoning = '' WHERE id = ?", (answer,))
