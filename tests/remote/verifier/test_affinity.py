"""Which replica a session goes to: always the same one, and another one only if that is gone."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from remote.verifier.affinity import LONGEST_SESSION, ranked, session_of

NAMES = st.lists(st.text("abcdefghij0123456789", min_size=1, max_size=8), min_size=1, max_size=6, unique=True)
SESSIONS = [f"session {number}" for number in range(400)]


def order(session: str, names: list[str]) -> list[str]:
    return list(ranked(session, [(name, name) for name in names]))


@given(st.text(), NAMES, st.randoms())
def test_the_order_is_the_same_whoever_computes_it(session: str, names: list[str], random):
    shuffled = random.sample(names, len(names))
    assert order(session, names) == order(session, shuffled)
    assert sorted(order(session, names)) == sorted(names)


@given(st.text(), NAMES)
def test_the_others_keep_their_order_if_one_is_lost(session: str, names: list[str]):
    before = order(session, names)
    for lost in names:
        assert order(session, [name for name in names if name != lost]) == [name for name in before if name != lost]


def test_sessions_are_spread_evenly():
    names = ["a", "b", "c", "d"]
    counts = Counter(order(session, names)[0] for session in SESSIONS)
    assert set(counts) == set(names)
    assert all(60 < count < 140 for count in counts.values()), counts  # 100 each, and 4 standard deviations.


def test_the_session_is_read_from_the_headers_that_clients_send():
    assert session_of([(b"accept", b"*/*"), (b"x-session-id", b" abc ")]) == "abc"
    assert session_of([(b"X-Dynamo-Session-ID", b"research-run-42:researcher")]) == "research-run-42:researcher"
    assert session_of([(b"x-dynamo-session-id", b"theirs"), (b"x-session-id", b"ours")]) == "ours"
    assert session_of([(b"x-session-id", b""), (b"x-dynamo-session-id", b"theirs")]) == "theirs"
    assert session_of([(b"x-session-id", b"\xff\x00")]) == "\xff\x00"
    assert session_of([]) is None and session_of([(b"x-session-id", b"  ")]) is None


def test_a_name_of_any_length_and_any_characters_has_a_replica():
    assert order("\udc80" * 10, ["a", "b"]) and order("", ["a", "b"])
    assert order("x" * LONGEST_SESSION, ["a", "b"]) == order("x" * 100_000, ["a", "b"])
