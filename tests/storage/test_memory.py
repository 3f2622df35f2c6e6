from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Conversation, Store

FORMAT = b"\x01" * 16


def test_chunks_come_back_in_the_order_of_their_tokens(store: Store, conversation: Conversation) -> None:
    store.memory.save(conversation.id, FORMAT, 6, 2, b"newest")
    store.memory.save(conversation.id, FORMAT, 0, 6, b"older")
    assert store.memory.load(conversation.id, FORMAT) == [(0, 6, b"older"), (6, 2, b"newest")]
    assert store.memory.load(conversation.id, b"another format") == []
    assert store.memory.load(store.conversations.create().id, FORMAT) == []


def test_what_follows_an_edit_is_forgotten(store: Store, conversation: Conversation) -> None:
    for start in (0, 4, 8):
        store.memory.save(conversation.id, FORMAT, start, 4, bytes([start]))
    store.memory.forget(conversation.id, 8)
    assert [start for start, _, _ in store.memory.load(conversation.id, FORMAT)] == [0, 4]
    store.memory.forget(conversation.id, 6)
    assert [start for start, _, _ in store.memory.load(conversation.id, FORMAT)] == [0]
    store.memory.forget(conversation.id)
    assert store.memory.load(conversation.id, FORMAT) == []


def test_the_least_recently_used_conversation_makes_room(store: Store) -> None:
    store.memory.budget = 100
    first, second, third = (store.conversations.create().id for _ in range(3))
    store.memory.save(first, FORMAT, 0, 1, b"x" * 40)
    store.memory.save(second, FORMAT, 0, 1, b"x" * 20)
    store.memory.save(second, FORMAT, 1, 1, b"x" * 20)
    store.memory.load(first, FORMAT)
    store.memory.save(third, FORMAT, 0, 1, b"x" * 40)
    assert [len(store.memory.load(conversation, FORMAT)) for conversation in (first, second, third)] == [1, 0, 1]


def test_a_replaced_chunk_gives_its_bytes_back(store: Store, conversation: Conversation) -> None:
    store.memory.budget = 100
    other = store.conversations.create().id
    store.memory.save(other, FORMAT, 0, 1, b"x" * 40)
    for _ in range(5):
        store.memory.save(conversation.id, FORMAT, 0, 1, b"x" * 60)
    assert len(store.memory.load(other, FORMAT)) == 1


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
