"""What a drafter needs of earlier answers: memory of their tokens, and how they were drafted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import NotFound, Store, replays
from tests.storage.stored import add

FORMAT = b"\x01" * 16


def test_what_is_in_the_bin_makes_room_and_then_the_least_recently_used_conversation(store: Store) -> None:
    store.memory.budget = 100
    first, second, third = (store.conversations.create().id for _ in range(3))
    store.memory.save(first, FORMAT, 0, 1, b"x" * 40)
    for _ in range(5):  # A chunk that is replaced gives its bytes back.
        store.memory.save(second, FORMAT, 0, 1, b"x" * 40)
    assert len(store.memory.load(first, FORMAT)) == 1
    store.memory.save(third, FORMAT, 0, 1, b"x" * 40)
    assert [len(store.memory.load(conversation, FORMAT)) for conversation in (first, second, third)] == [1, 0, 1]
    assert store.memory.load(first, b"another format") == []
    store.bin.delete(third)
    store.memory.save(second, FORMAT, 0, 1, b"x" * 40)
    store.bin.restore(third)
    assert [len(store.memory.load(conversation, FORMAT)) for conversation in (first, second, third)] == [1, 1, 0]


def test_newer_memory_wins_and_the_budget_holds(tmp_path: Path) -> None:
    saves = st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 10), st.integers(0, 60)), max_size=30
    )
    with Store.open(tmp_path / "outrider.db") as store:
        store.memory.budget = 150

        @settings(max_examples=30, deadline=None)
        @given(saves)
        def check(saves: list[tuple[int, int, int, int]]) -> None:
            conversations = [store.conversations.create().id for _ in range(4)]
            newest: dict[tuple[str, int], bytes] = {}
            for number, (which, start, count, size) in enumerate(saves):
                data = bytes([number]) * size
                store.memory.save(conversations[which], FORMAT, start, count, data)
                newest.update({(conversations[which], token): data for token in range(start, start + count)})
            kept = 0
            for conversation in conversations:
                chunks = store.memory.load(conversation, FORMAT)
                covered = [token for start, count, _ in chunks for token in range(start, start + count)]
                assert covered == sorted(set(covered))
                for start, count, data in chunks:
                    assert {newest[conversation, token] for token in range(start, start + count)} == {data}
                    kept += len(data)
            assert kept <= store.memory.budget

        check()


DIGEST = b"d" * 16
ROUNDS = [(12, 0), (15, 11), (21, 14)]


def answered(store: Store, title: str = "one") -> tuple[str, str]:
    """A conversation with a finished answer: their ids."""
    conversation = store.conversations.create(title).id
    return conversation, add(store, conversation, "so", add(store, conversation, "how"), role="assistant")


def test_how_answers_were_drafted_comes_back_oldest_first_and_what_is_deleted_is_not_learnt_from(store: Store) -> None:
    answers = [answered(store, title) for title in ("one", "two", "three")]
    for _, answer in answers:
        store.replays.save(answer, DIGEST, 12, ROUNDS[:1])
        store.replays.save(answer, DIGEST, 12, ROUNDS)
    found = store.replays.all(DIGEST, 10)
    assert [(one.conversation_id, one.message_id) for one in found] == answers
    assert all((one.prompt, list(one.rounds)) == (12, ROUNDS) for one in found), "the second one took its place"
    assert [one.message_id for one in store.replays.all(DIGEST, 2)] == [answer for _, answer in answers[1:]]
    assert store.replays.all(b"e" * 16, 10) == []
    with pytest.raises(NotFound):
        store.replays.save("nobody", DIGEST, 12, ROUNDS)
    assert not store.replays.holds(["nobody"]) and store.replays.holds([])
    conversation, answer = answers[0]
    assert store.replays.holds([answer])
    store.bin.delete(conversation)
    assert len(store.replays.all(DIGEST, 10)) == 2 and not store.replays.holds([answer])
    store.bin.restore(conversation)
    assert len(store.replays.all(DIGEST, 10)) == 3 and store.replays.holds([answer])
    store.replays.clear()
    assert store.replays.all(DIGEST, 10) == [] and store.messages.get(answer).text == "so"


def test_what_the_target_might_have_said_comes_back_and_is_erased_with_its_answer(tmp_path: Path) -> None:
    path, told = tmp_path / "outrider.db", dict[str, bytes]()

    def found(answer: str) -> bool:
        return any(told[answer] in each.read_bytes() for each in tmp_path.iterdir())

    with Store.open(path) as store:
        (conversation, first), (_, second) = answered(store), answered(store, "two")
        for answer in (first, second):
            told[answer] = os.urandom(200)
            # More than a page of the database holds.
            store.replays.save(answer, DIGEST, 12, ROUNDS, told[answer] + bytes(9000))
        assert [one.distributions[:200] for one in store.replays.all(DIGEST, 9)] == list(told.values())
        assert found(first) and found(second)
        store.bin.erase(conversation)
    assert not found(first) and found(second)
    with Store.open(path) as store:
        store.replays.clear()
    assert not found(second)


def test_older_answers_lose_it_when_all_takes_too_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MOST_BYTES", 1000)
    for number in range(5):
        _, answer = answered(store, f"{number}")
        store.replays.save(answer, DIGEST, 12, ROUNDS, bytes([number]) * 300)
    kept = store.replays.all(DIGEST, 9)
    assert [len(one.distributions) for one in kept] == [0, 0, 300, 300, 300]
    assert all(list(one.rounds) == ROUNDS for one in kept), "how they were drafted stays"
    store.replays.save(answer, DIGEST, 12, ROUNDS, bytes(2000))
    assert not any(one.distributions for one in store.replays.all(DIGEST, 9))
