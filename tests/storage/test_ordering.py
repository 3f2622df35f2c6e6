from __future__ import annotations

import pytest

from storage import Conversation, NotFound, Store


def test_two_that_wait_change_places(store: Store, conversation: Conversation) -> None:
    ids = [store.enqueue(conversation.id, text).id for text in ("one", "two", "three")]
    store.swap_queued(ids[0], ids[2])
    assert [queued.text for queued in store.queued()] == ["three", "two", "one"]
    store.swap_queued(ids[1], ids[1])
    assert [queued.text for queued in store.queued()] == ["three", "two", "one"]
    assert store.next_queued() == store.queued()[0]
    store.unqueue(ids[1])
    with pytest.raises(NotFound, match="any more"):
        store.swap_queued(ids[0], ids[1])
    assert [queued.text for queued in store.queued()] == ["three", "one"]


def test_several_wait_in_an_order_of_their_own(store: Store, conversation: Conversation) -> None:
    ids = [store.enqueue(conversation.id, text).id for text in ("one", "two", "three", "four")]
    store.order_queued([ids[3], "c0ffee", ids[0], ids[1]])
    assert [queued.text for queued in store.queued()] == ["four", "one", "three", "two"]
    store.order_queued([])
    assert [queued.place for queued in store.queued()] == sorted(queued.place for queued in store.queued())
