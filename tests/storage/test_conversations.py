from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import storage
from storage import Choices, NotFound, Store


def test_conversations_come_newest_first(store: Store) -> None:
    first, second = store.conversations.create("first"), store.conversations.create("second")
    assert [conversation.id for conversation in store.conversations.all()] == [second.id, first.id]
    store.conversations.rename(second.id, "renamed")
    assert store.conversations.get(second.id).title == "renamed"
    assert [conversation.id for conversation in store.conversations.all()] == [second.id, first.id]


def test_the_last_conversation_is_the_one_that_was_written_to_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the clock said then: it may have been ahead for a while, or begin in 1970 without a network."""
    first, second = (store.conversations.create(title).id for title in ("first", "second"))
    for identifier, clock in ((first, "2099"), (second, "2026"), (first, "1970"), (second, "2030")):
        moment = f"{clock}-06-01T12:00:00.000+00:00"
        for module in (storage.rows, storage.messages, storage.queue, storage.conversations):
            monkeypatch.setattr(module, "now", lambda moment=moment: moment)
        question = store.messages.add(identifier, "user", "hello", parent_id=None, status="done")
        assert store.conversations.to_continue(None, last=True) == identifier
        assert [one.id for one in store.conversations.all()][0] == identifier
        answer = store.messages.ask(identifier, "again", parent_id=question.id)
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


def test_a_command_continues_the_given_or_the_last_conversation(store: Store) -> None:
    with pytest.raises(NotFound, match="to continue"):
        store.conversations.to_continue(None, last=True)
    first, second = (store.conversations.create(title).id for title in ("first", "second"))
    store.conversations.pin(first, True)
    assert store.conversations.to_continue(first, last=False) == first
    assert store.conversations.to_continue(None, last=True) == second
    assert store.conversations.to_continue(None, last=False) is None
    with pytest.raises(NotFound):
        store.conversations.to_continue("c0ffee", last=False)


def test_what_was_chosen_stays_with_the_conversation_and_its_copies(store: Store) -> None:
    chosen = Choices(remote="home", model="qwen3", system="Be short.", temperature=0.5)
    plain, conversation = store.conversations.create(), store.conversations.create("short", chosen)
    assert store.conversations.get(plain.id).choices == Choices()
    question = store.messages.add(conversation.id, "user", "hello", parent_id=None, status="done")
    assert store.branches.duplicate(conversation.id, question.id).choices == chosen
    store.conversations.choose(conversation.id, Choices(seed=7))
    assert store.conversations.get(conversation.id).choices.sampling == {"seed": 7}
    with pytest.raises(NotFound):
        store.conversations.choose("c0ffee", chosen)


def test_choices_that_another_program_has_garbled_are_none(store: Store) -> None:
    conversation = store.conversations.create("short", Choices(temperature=0.5))
    for garbled in ("", "[]", '{"temperature": "warm"}'):
        with store.database.write() as sql:
            sql.execute("UPDATE conversations SET choices = ? WHERE id = ?", (garbled, conversation.id))
        assert store.conversations.get(conversation.id).choices == Choices()


def test_where_it_was_begun_is_kept_beside_what_was_chosen(store: Store) -> None:
    conversation = store.conversations.create("a", Choices(model="qwen3")).id
    store.conversations.set_origin(conversation, "ask")
    assert store.conversations.get(conversation).choices == Choices(model="qwen3", origin="ask")
    store.conversations.set_origin(conversation, None)
    assert store.conversations.get(conversation).choices == Choices(model="qwen3")
    with pytest.raises(NotFound):
        store.conversations.set_origin("gone", "ask")
