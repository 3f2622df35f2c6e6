"""What a judgement says of the text that was not kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.events import Judged
from app.reply.judgement import judge, stored_judgement
from app.sanitise import sanitise
from storage import Message, Store


def checked(store: Store, draft: str, own: str) -> tuple[Message, Message]:
    """A drafted answer and the one that took its place, as they are stored."""
    conversation = store.conversations.create("t").id
    asked = store.messages.add(conversation, "user", "q", parent_id=None, status="done")
    drafted = store.messages.add(conversation, "assistant", "", parent_id=asked.id, status="pending")
    store.messages.finish(drafted.id, range(4), [False] * 4, draft, "done", {})
    answer = store.messages.verify(drafted.id)
    assert answer is not None
    store.messages.finish(answer.id, range(4), [True] * 4, own, "done", {"kept": 1, "of": 4}, settles=drafted.id)
    return store.messages.get(drafted.id), store.messages.get(answer.id)


@pytest.mark.parametrize(
    ("draft", "own", "dropped", "before"),
    [
        ("It knows these forms", "It knows many forms", "these forms", "It knows "),
        ("ls -la", "ls -l", "-la", "ls "),
        ("ls", "ls -l", "", "ls"),
        ("ls\x07 -la", "ls\x07 -lh", "-la", "ls "),
    ],
)
def test_the_place_of_what_was_dropped(tmp_path: Path, draft: str, own: str, dropped: str, before: str) -> None:
    with Store.open(tmp_path / "outrider.db") as store:
        drafted, answer = checked(store, draft, own)
    stored = stored_judgement(answer, drafted)
    assert stored is not None and (stored.dropped, sanitise(own)[: stored.at]) == (dropped, before)
    assert judge(drafted, (0, 9), own) == Judged(drafted.id, 1, 4, stored.dropped, stored.at)
