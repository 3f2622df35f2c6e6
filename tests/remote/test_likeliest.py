"""What the target might have said, on the wire: it survives its bytes, and what cannot be so is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.learning.distributions import MOST, NONE
from models.tree import DraftTree
from remote.errors import Incompatible
from remote.protocol import MOST_REJECTED, Likeliest, ProtocolError, pack_tokens
from remote.reply_limits import LikeliestBudget, ReplyLimits

TREE = DraftTree(np.array([3, 4, 5, 6, 7]), np.array([-1, -1, 0, 0, 1]))
"""Node 0 is accepted. The nodes 1, 2 and 3 are rejected next to the path, and 4 is out of reach."""
LIMITS = ReplyLimits(vocabulary=50, token_bytes=0)


def rows(*listed: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    tokens, log_probs = np.full((len(listed), MOST), NONE), np.full((len(listed), MOST), -np.inf, np.float32)
    for row, chances in enumerate(listed):
        tokens[row, : len(chances)], log_probs[row, : len(chances)] = list(chances), np.log(list(chances.values()))
    return tokens, log_probs


def frame(**changes: Any) -> Likeliest:
    """The right one for two new tokens after ten, and the rejected nodes 1 and 3."""
    told = rows({3: 0.5, 4: 0.25}, {7: 0.9}, {8: 0.5, 9: 0.5}, {1: 0.125})
    return msgspec.structs.replace(Likeliest.pack(10, 2, [1, 3], *told), **changes)


def budget(most: int = 8) -> LikeliestBudget:
    return LikeliestBudget(LIMITS, most, 10, "there")


def half(*log_probs: float) -> bytes:
    return np.array(log_probs, "<f2").tobytes()


def test_what_a_round_says_has_its_places() -> None:
    told = budget().take(frame(), 12, TREE, (0,))
    assert told.positions.tolist() == [10, 11, 11, 12] and told.instead.tolist() == [-1, -1, 4, 6]
    assert told.tokens[:, :2].tolist() == [[3, 4], [7, -1], [8, 9], [1, -1]]
    assert np.allclose(np.exp(told.log_probs[:, :2]), [[0.5, 0.25], [0.9, 0], [0.5, 0.5], [0.125, 0]], atol=1e-3)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"start": 9}, "not asked for"),
    ({"start": 11}, "not asked for"),
    ({"count": 0}, "not asked for"),
    ({"count": 1 << 30}, "not asked for"),
    ({"count": 1}, "distributions of 1 tokens"),
    ({"nodes": b"\1"}, "ragged"),
    ({"nodes": b"\1\0" * (MOST_REJECTED + 1)}, "rejected nodes"),
    ({"nodes": b"\3\0\1\0"}, "not rejected"),
    ({"nodes": b"\1\0\1\0"}, "not rejected"),
    ({"nodes": b"\0\0\1\0"}, "not rejected"),
    ({"nodes": b"\1\0\4\0"}, "not rejected"),
    ({"nodes": b"\1\0\xff\xff"}, "not rejected"),
    ({"counts": b""}, "distributions of 2 tokens"),
    ({"counts": b"\2\1\3\0"}, "from 1 to 8"),
    ({"counts": b"\2\1\2\2"}, "are announced"),
    ({"counts": b"\2\1\2\x09"}, "distributions of 2"),
    ({"tokens": pack_tokens([3, 4, 7, 8, 9])}, "are announced"),
    ({"tokens": pack_tokens([3, 4, 7, 8, 9, 50])}, "token 50 of a vocabulary of 50"),
    ({"tokens": pack_tokens([3, 3, 7, 8, 9, 1])}, "twice"),
    ({"tokens": np.array([3, 4, 7, 8, 9, -1], "<i4").tobytes()}, "negative"),
    ({"tokens": b"abc"}, "ragged"),
    ({"log_probs": half(-0.7, -1.4, -0.1, -0.7, -0.7)}, "are announced"),
    ({"log_probs": half(-0.7, -1.4, -0.1, -0.7, -0.7, np.nan)}, "invalid log-probability"),
    ({"log_probs": half(-0.7, -1.4, -0.1, -0.7, -0.7, -np.inf)}, "invalid log-probability"),
    ({"log_probs": half(-0.7, -1.4, -0.1, -0.7, -0.7, 0.5)}, "invalid log-probability"),
    ({"log_probs": half(-1.4, -0.7, -0.1, -0.7, -0.7, -2)}, "rise"),
    ({"log_probs": half(-0.1, -0.7, -0.1, -0.7, -0.7, -2)}, "more than 1"),
]


@pytest.mark.parametrize(("change", "why"), WRONG)
def test_what_cannot_be_so_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Incompatible, match=why):
        budget().take(frame(**change), 12, TREE, (0,))


def test_it_comes_once_and_only_where_it_was_asked_for() -> None:
    with pytest.raises(Incompatible, match="not asked for"):
        budget(0).take(frame(), 12, TREE, (0,))
    with pytest.raises(Incompatible, match="distributions of 2"):
        budget(1).take(frame(), 12, TREE, (0,))
    taken = budget()
    taken.take(frame(), 12, TREE, (0,))
    with pytest.raises(Incompatible, match="not asked for"):
        taken.take(frame(), 12, TREE, (0,))


def test_a_stream_tells_of_no_nodes() -> None:
    """The device does not know the trees of a stream, so it cannot know what a node of one is."""
    told, taken = rows({3: 0.5}), budget()
    assert taken.take(Likeliest.pack(10, 1, [], *told), 11).positions.tolist() == [10]
    assert taken.take(Likeliest.pack(11, 1, [], *told), 14).positions.tolist() == [11]
    with pytest.raises(Incompatible, match="not rejected"):
        taken.take(Likeliest.pack(12, 1, [0], *rows({3: 0.5}, {4: 0.5})), 14)


@given(
    nodes=st.binary(max_size=20), counts=st.binary(max_size=6), tokens=st.binary(max_size=30),
    log_probs=st.binary(max_size=16), count=st.integers(0, 6),
)  # fmt: skip
def test_any_bytes_are_sound_distributions_or_a_protocol_error(
    nodes: bytes, counts: bytes, tokens: bytes, log_probs: bytes, count: int
) -> None:
    told = Likeliest(start=0, count=count, nodes=nodes, counts=counts, tokens=tokens, log_probs=log_probs)
    try:
        _, listed, chances = told.unpack(8)
    except ProtocolError:
        return
    assert listed.shape == chances.shape == (len(counts), MOST) and (listed >= NONE).all()
    assert (np.exp(chances).sum(axis=1) <= 1.01).all()
