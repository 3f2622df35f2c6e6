"""What replicas need no Ray for: which one answers a session, and how the server of several starts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.verifier.replicas.affinity import ranked, session_of
from remote.verifier.replicas.replicas import RAY_ADDRESS, cluster_address, cpus, reach


def test_the_cluster_is_the_one_that_the_environment_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(RAY_ADDRESS, raising=False)
    assert cluster_address() is None
    for told, cluster in (("", None), ("local", None), ("localhost:6379", "localhost:6379"), ("auto", "auto")):
        monkeypatch.setenv(RAY_ADDRESS, told)
        assert cluster_address() == cluster


def test_replicas_on_one_machine_share_its_cores():
    assert [cpus(cores, None, 2) for cores in (1, 2, 3, 8)] == [0.5, 1, 1, 4]
    assert 3 * cpus(2, None, 3) <= 2
    assert cpus(None, None, 1) == 1 and cpus(None, 6, 1) == 6


def test_an_address_where_nothing_listens_is_told_at_once():
    with pytest.raises(OSError):
        reach("127.0.0.1:1")
    with pytest.raises(OSError):
        reach("ray://[::1]:1")
    reach("auto")  # A word that Ray looks up itself.


# ---- which replica answers -------------------------------------------------------------------------------------------


NAMES = st.lists(st.text("abcdefghij0123456789", min_size=1, max_size=8), min_size=1, max_size=6, unique=True)
SESSIONS = [f"session {number}" for number in range(400)]


def order(session: str, names: list[str]) -> list[str]:
    return list(ranked(session, [(name, name) for name in names]))


@given(st.text(), NAMES, st.randoms())
def test_the_order_is_the_same_whoever_computes_it_and_if_one_is_lost(session: str, names: list[str], random):
    before = order(session, names)
    assert order(session, random.sample(names, len(names))) == before and sorted(before) == sorted(names)
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
