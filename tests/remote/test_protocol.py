"""Round trips of every message, and bytes that are no message at all."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.config import DIGEST_BYTES
from models.tree import MAX_WEIGHT, Candidates, DraftTree
from remote.protocol.card import Card, DrafterOffer, Limits, MemoryFormat
from remote.protocol.codec import RunningDigest, decode, digest_of, encode, pack_tokens, unpack_tokens
from remote.protocol.fields import MAX_CANDIDATES, MAX_LIKELIEST, MAX_NODES, ProtocolError, Struct
from remote.protocol.likeliest import Likeliest
from remote.protocol.messages import Alive, Conflict, Error, Memory, Progress, Round, Sampling, Stream, Verdict
from remote.protocol.proposals import MOST_PROPOSED, Propose, Proposed
from remote.protocol.tree import Tree

unhurried = settings(deadline=None, max_examples=60)  # A busy machine is no failure.

MOST = 2**31 - 1
WIDE = Limits(max_nodes=MAX_NODES, max_depth=MAX_NODES, max_tokens=1, max_body_bytes=1)
DIGEST = bytes(range(DIGEST_BYTES))
TREE = Tree(tokens=b"t", parents=b"p", counts=b"c", candidates=b"d", weights=b"w")
PLACE: dict[str, Any] = {"round": MOST, "base": 0, "digest": DIGEST, "append": pack_tokens([0, MOST])}
ENDS: dict[str, Any] = {"length": MOST, "digest": DIGEST, "finished": True, "server_seconds": 86_400.0}
LONGEST: dict[str, Any] = {"temperature": 100.0, "top_k": MOST, "top_p": 5e-324, "seed": -(2**63)}
MESSAGES: tuple[Struct, ...] = (
    Round(session="-_" * 32, tree=TREE, sampling=Sampling(**LONGEST), memory_from=0, likeliest=MAX_LIKELIEST, **PLACE),
    Stream(session="s", most=1, alive=True, resumable=True, **PLACE),
    Verdict(round=0, accepted=(0, MOST), bonus=None, **ENDS),
    Progress(tokens=pack_tokens([5]), drafted=0, **ENDS),
    Memory(digest=DIGEST, start=0, count=1, data=b"rows"),
    Likeliest(start=MOST, count=0, counts=b"c", tokens=b"t", log_probs=b"l", nodes=b"n"),
    Alive(seconds=60),
    Card(
        version=0, target="naïve 🦀", vocabulary=MOST, tokenizer=DIGEST, chat_template="", stop_tokens=(0, MOST),
        limits=WIDE, memory=MemoryFormat(digest=DIGEST, layers=((1, MOST),)), likeness=DIGEST, while_away=MOST,
        drafter=DrafterOffer(digest=2 * DIGEST, size=1), special_tokens={"bos_token": "<s>"}, tokenizer_bytes=MOST,
    ),
    Error(code="busy", message="Full.", retry=True),
    Conflict(have=((MOST, DIGEST), (0, DIGEST))),
    Propose(session="s", base=0, since=MOST, top=MOST_PROPOSED, vocabulary=1, path=b"p", append=b"a", tokens=b"t"),
    Proposed(log_probs=b"l", tokens=b"t"),
)  # fmt: skip
"""Each kind of message, at its limits."""
KINDS = tuple(type(message) for message in MESSAGES)
token = st.integers(0, MOST)


def sampled_tree(seed: int) -> DraftTree:
    """A tree whose parents each have a list of their children and of other tokens."""
    rng = np.random.default_rng(seed)
    parents = np.array([rng.integers(-1, node) for node in range(rng.integers(41))], np.int32)
    unused = rng.choice(MOST + 1, 999, replace=False)  # A token per node keeps siblings apart.
    tree, candidates = DraftTree(unused[: len(parents)].astype(np.int32), parents), {}
    for parent, children in tree.children().items():
        listed = rng.permutation([*children, *rng.choice(unused[len(parents) :], rng.integers(6), replace=False)])
        candidates[parent] = Candidates(listed, rng.integers(1, MAX_WEIGHT + 1, len(listed)))
    return DraftTree(tree.tokens, tree.parents, candidates=candidates)


# ---- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_its_bytes_and_those_that_a_newer_peer_adds(message: Struct) -> None:
    assert decode(encode(message), type(message)) == message
    fields: dict[str, Any] = msgspec.msgpack.decode(encode(message))
    extended = msgspec.msgpack.encode({"of_the_future": [1, {"a": b""}]} | fields)
    assert decode(extended, type(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_damaged_message_is_read_or_refused_and_a_cut_one_is_refused(message: Struct) -> None:
    whole = encode(message)
    for at in range(len(whole)):
        for byte in (whole[at] ^ 1, 0, 0xC1, 0xFF):
            with contextlib.suppress(ProtocolError):
                decode(whole[:at] + bytes([byte]) + whole[at + 1 :], type(message))
        with pytest.raises(ProtocolError):
            decode(whole[:at], type(message))


@unhurried
@given(st.integers(0, 2**32).map(sampled_tree))
def test_a_tree_survives_its_bytes_with_its_candidates_and_without(tree: DraftTree) -> None:
    packed = Tree.pack(tree)
    unpacked = packed.unpack(WIDE)
    assert unpacked.tokens.tolist() == tree.tokens.tolist()
    assert unpacked.parents.tolist() == tree.parents.tolist()
    plain = Tree.pack(DraftTree(tree.tokens, tree.parents)).unpack(WIDE)
    assert (plain.tokens.tolist(), plain.parents.tolist()) == (tree.tokens.tolist(), tree.parents.tolist())
    assert plain.candidates is None
    if not len(tree):
        assert packed == Tree(tokens=b"", parents=b"") and unpacked.candidates is None
        return
    assert unpacked.candidates is not None and unpacked.candidates.keys() == tree.candidates.keys()
    for parent, candidates in tree.candidates.items():
        assert unpacked.candidates[parent].tokens.tolist() == candidates.tokens.tolist()
        assert unpacked.candidates[parent].weights.tolist() == candidates.weights.tolist()


def test_a_deterministic_tree_has_the_bytes_it_always_had() -> None:
    fields = msgspec.msgpack.decode(encode(Tree.pack(DraftTree.chain([1, 2]))))
    assert fields == {"tokens": b"\1\0\0\0\2\0\0\0", "parents": b"\xff\xff\0\0"}
    assert Tree.pack(DraftTree.chain([1, 2])).unpack(WIDE).candidates is None


@unhurried
@given(st.lists(token))
def test_tokens_survive_their_bytes(tokens: list[int]) -> None:
    assert unpack_tokens(pack_tokens(tokens)) == tokens
    for wrong in (pack_tokens(tokens) + b"\0", pack_tokens(tokens) + b"\xff\xff\xff\xff"):
        with pytest.raises(ProtocolError):
            unpack_tokens(wrong)


@unhurried
@given(st.lists(token), st.lists(token), st.integers(0, 10))
def test_a_running_digest_equals_the_digest_of_what_it_holds(one: list[int], other: list[int], keep: int) -> None:
    running = RunningDigest()
    running.extend(one)
    running.truncate(min(keep, len(one)))
    running.extend(other)
    tokens = one[:keep] + other
    assert len(running) == len(tokens)
    assert all(running.at(length) == digest_of(tokens[:length]) for length in range(len(tokens) + 1))


# ---- bytes that are no message ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\xa1x" + b"\x91" * 200_000,  # nested deeper than any stack
        b"\x81\xa4have\xdd\xff\xff\xff\xff",  # an array of 4 billion, announced only
        b"\x81\xa6append\xc6\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc1",  # the byte that msgpack never uses
        b"",
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    for kind in KINDS:
        with pytest.raises(ProtocolError):
            decode(data, kind)


@pytest.mark.parametrize(
    "change",
    [
        *({"session": name} for name in ("", "x" * 65, "../etc", "a\n")),
        *({field: -1} for field in ("round", "base", "memory_from", "likeliest")),
        *({"digest": b"short"}, {"likeliest": MAX_LIKELIEST + 1}),
        *({"sampling": {"temperature": value}} for value in (math.nan, math.inf, -math.inf, -1e-9, -1.0, 100.1)),
        *({"sampling": {"top_p": value}} for value in (math.nan, math.inf, -math.inf, -0.5, 0.0, 1.1)),
        *({"sampling": change} for change in ({"top_k": -1}, {"top_k": 1 << 31}, {"seed": 1 << 63})),
    ],
)
def test_a_round_out_of_bounds_is_refused(change: dict[str, Any]) -> None:
    fields: dict[str, Any] = msgspec.msgpack.decode(encode(MESSAGES[0]))
    with pytest.raises(ProtocolError):
        decode(msgspec.msgpack.encode(fields | change), Round)


# ---- trees and tokens that are none ----------------------------------------------------------------------------------


def test_a_tree_stays_within_the_limits() -> None:
    chain = Tree.pack(DraftTree.chain([1, 2, 3]))
    assert len(chain.unpack(Limits(max_nodes=3, max_depth=3, max_tokens=1, max_body_bytes=1))) == 3
    with pytest.raises(ProtocolError, match="3 nodes; this server takes 2"):
        chain.unpack(Limits(max_nodes=2, max_depth=3, max_tokens=1, max_body_bytes=1))
    with pytest.raises(ProtocolError, match="depth 3; this server takes 2"):
        chain.unpack(Limits(max_nodes=3, max_depth=2, max_tokens=1, max_body_bytes=1))


def test_a_tree_that_is_too_large_is_not_sent() -> None:
    Tree.pack(DraftTree.chain(np.zeros(MAX_NODES))).unpack(WIDE)
    with pytest.raises(ProtocolError, match=f"at most {MAX_NODES}"):
        Tree.pack(DraftTree.chain(np.zeros(MAX_NODES + 1)))
    few, many = ({-1: Candidates(np.arange(MAX_CANDIDATES + more), np.ones(MAX_CANDIDATES + more))} for more in (0, 1))
    Tree.pack(DraftTree(np.array([3]), np.array([-1]), candidates=few)).unpack(WIDE)
    with pytest.raises(ProtocolError, match="at most 256"):
        Tree.pack(DraftTree(np.array([3]), np.array([-1]), candidates=many)).unpack(WIDE)


SAMPLED = Tree.pack(
    DraftTree(
        np.array([5, 7, 8]),
        np.array([-1, -1, 1]),
        candidates={-1: Candidates(np.array([5, 6, 7]), np.array([9, 5, 1])), 1: Candidates(np.array([8]), np.ones(1))},
    )
)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"counts": b""}, "0 bytes of counts; 2 nodes"),
        ({"counts": b"\3\0"}, "2 bytes of counts"),
        ({"counts": b"\3\0\1\0\1\0"}, "6 bytes of counts"),
        ({"counts": b"\3\0\2\0"}, "5 candidates are announced"),
        ({"counts": b"\4\0\0\0"}, "not among the candidates"),
        ({"counts": b"\2\0\2\0"}, "not among the candidates"),
        ({"counts": b"\1\1\1\0"}, "a list of 257 candidates; at most 256"),
        ({"counts": b"\xff\xff\xff\xff"}, "at most 256"),
        ({"candidates": b""}, "0 bytes of candidates"),
        ({"candidates": SAMPLED.candidates[:-1]}, "15 bytes of candidates"),
        ({"candidates": pack_tokens([5, 6, 9, 8])}, "not among the candidates"),
        ({"candidates": pack_tokens([5, 7, 7, 8])}, "listed twice"),
        ({"candidates": pack_tokens([5, -6, 7, 8])}, "negative candidate -6"),
        ({"weights": b""}, "0 of weights"),
        ({"weights": SAMPLED.weights + b"\1"}, "9 of weights"),
        ({"weights": b"\1\0\0\0\1\0\1\0"}, "between 1 and"),
        ({"tokens": b"", "parents": b""}, "bytes of counts; 0 nodes"),
        ({"tokens": b"", "parents": b"", "counts": b""}, "0 candidates are announced"),
    ],
)
def test_malformed_candidates_are_refused(change: dict[str, bytes], why: str) -> None:
    SAMPLED.unpack(WIDE)
    with pytest.raises(ProtocolError, match=why):
        msgspec.structs.replace(SAMPLED, **change).unpack(WIDE)


@unhurried
@given(
    counts=st.lists(st.integers(0, 3), max_size=3).map(lambda counts: np.array(counts, "<u2").tobytes()),
    candidates=st.lists(st.integers(-1, 9), max_size=6).map(lambda tokens: np.array(tokens, "<i4").tobytes()),
    weights=st.lists(st.integers(0, 2), max_size=6).map(lambda weights: np.array(weights, "<u2").tobytes()),
)
def test_any_candidates_unpack_to_a_sound_tree_or_raise_protocol_error(
    counts: bytes, candidates: bytes, weights: bytes
) -> None:
    chain = Tree.pack(DraftTree.chain([1, 2]))
    try:
        tree = msgspec.structs.replace(chain, counts=counts, candidates=candidates, weights=weights).unpack(WIDE)
    except ProtocolError:
        return
    for parent, children in tree.children().items():
        assert tree.candidates is None or set(children) <= set(tree.candidates[parent].tokens.tolist())


@unhurried
@given(st.integers(0, 3), st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_unpack_to_proposals_or_raise_protocol_error(rows: int, log_probs: bytes, tokens: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        chances, ids = Proposed(log_probs=log_probs, tokens=tokens).unpack(rows, 2, 1000)
        assert chances.shape == ids.shape == (rows, 2)
        assert not np.isnan(chances).any() and ((ids >= 0) & (ids < 1000)).all()
