from __future__ import annotations

from contextlib import closing
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Conversation, Store

FORMAT = b"\x01" * 16


def test_chunks_come_back_in_the_order_of_their_tokens(store: Store, conversation: Conversation) -> None:
    store.save_memory(conversation.id, FORMAT, 6, 2, b"newest")
    store.save_memory(conversation.id, FORMAT, 0, 6, b"older")
    assert store.load_memory(conversation.id, FORMAT) == [(0, 6, b"older"), (6, 2, b"newest")]
    assert store.load_memory(conversation.id, b"another format") == []
    assert store.load_memory(store.create_conversation().id, FORMAT) == []


def test_what_follows_an_edit_is_forgotten(store: Store, conversation: Conversation) -> None:
    for start in (0, 4, 8):
        store.save_memory(conversation.id, FORMAT, start, 4, bytes([start]))
    store.forget_memory(conversation.id, 8)
    assert [start for start, _, _ in store.load_memory(conversation.id, FORMAT)] == [0, 4]
    store.forget_memory(conversation.id, 6)
    assert [start for start, _, _ in store.load_memory(conversation.id, FORMAT)] == [0]
    store.forget_memory(conversation.id)
    assert store.load_memory(conversation.id, FORMAT) == []


def test_the_least_recently_used_conversation_makes_room(store: Store) -> None:
    store.memory_budget = 100
    first, second, third = (store.create_conversation().id for _ in range(3))
    store.save_memory(first, FORMAT, 0, 1, b"x" * 40)
    store.save_memory(second, FORMAT, 0, 1, b"x" * 20)
    store.save_memory(second, FORMAT, 1, 1, b"x" * 20)
    store.load_memory(first, FORMAT)
    store.save_memory(third, FORMAT, 0, 1, b"x" * 40)
    assert [len(store.load_memory(conversation, FORMAT)) for conversation in (first, second, third)] == [1, 0, 1]


def test_a_replaced_chunk_gives_its_bytes_back(store: Store, conversation: Conversation) -> None:
    store.memory_budget = 100
    other = store.create_conversation().id
    store.save_memory(other, FORMAT, 0, 1, b"x" * 40)
    for _ in range(5):
        store.save_memory(conversation.id, FORMAT, 0, 1, b"x" * 60)
    assert len(store.load_memory(other, FORMAT)) == 1


def test_newer_memory_wins_and_the_budget_holds(tmp_path: Path) -> None:
    saves = st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 10), st.integers(0, 60)), max_size=30
    )
    with closing(Store.open(tmp_path / "outrider.db")) as store:
        store.memory_budget = 150

        @settings(max_examples=30, deadline=None)
        @given(saves)
        def check(saves: list[tuple[int, int, int, int]]) -> None:
            conversations = [store.create_conversation().id for _ in range(4)]
            newest: dict[tuple[str, int], bytes] = {}
            for number, (which, start, count, size) in enumerate(saves):
                data = bytes([number]) * size
                store.save_memory(conversations[which], FORMAT, start, count, data)
                newest.update({(conversations[which], token): data for token in range(start, start + count)})
            kept = 0
            for conversation in conversations:
                chunks = store.load_memory(conversation, FORMAT)
                covered = [token for start, count, _ in chunks for token in range(start, start + count)]
                assert covered == sorted(set(covered))
                for start, count, data in chunks:
                    assert {newest[conversation, token] for token in range(start, start + count)} == {data}
                    kept += len(data)
            assert kept <= store.memory_budget

        check()
