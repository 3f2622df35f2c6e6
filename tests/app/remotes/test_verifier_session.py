"""What a verifier has not read of a conversation: all from the first token that is another one than before."""

from __future__ import annotations

import pytest

from app.remotes.verifier_session import VerifierSession


@pytest.mark.parametrize(
    ("tokens", "unread"),
    [
        ([1, 2, 3, 4], 0),
        ([1, 2, 3, 4, 5, 6], 2),
        ([1, 2], 0),
        ([1, 9, 3, 4, 5, 6], 5),
        ([9, 2, 3], 3),
    ],
)
def test_what_follows_a_change_is_unread(tokens: list[int], unread: int) -> None:
    session = VerifierSession()
    assert session.unread(tokens) == len(tokens)
    session.record([1, 2, 3, 4])
    assert session.unread(tokens) == unread
