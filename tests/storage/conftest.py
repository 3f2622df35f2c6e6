from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Conversation, Message, Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "outrider.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as store:
        yield store


@pytest.fixture
def conversation(store: Store) -> Conversation:
    return store.conversations.create("tarballs")


@pytest.fixture
def question(store: Store, conversation: Conversation) -> Message:
    return store.messages.add(conversation.id, "user", "how do I unpack a tarball?", parent_id=None, status="done")


@pytest.fixture
def answer(store: Store, conversation: Conversation, question: Message) -> Message:
    """An answer that is being written."""
    return store.messages.add(conversation.id, "assistant", "", parent_id=question.id, status="pending")
