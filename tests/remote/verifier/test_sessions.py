from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.engines.engine import Engine, Forward
from models.memory import unpack_memory
from models.tree import Candidates, DraftTree
from remote.protocol import Frame, Memory, Round, Sampling, Tree, Verdict, digest_of, pack_tokens
from remote.verifier.drafting import pruner
from remote.verifier.drafting.pruner import Pruner
from remote.verifier.drafting.stream_payoff import Judged
from remote.verifier.refusals import BadRound, Dropped, Overloaded, Superseded, TooLong, UnknownPrefix
from remote.verifier.sessions.sessions import SHORTEST_SHARED, Sessions
from remote.verifier.sessions.turns import advanced, alone, computed_together
from tests.remote.verifier.conftest import LIMITS
from tests.remote.verifier.test_http import PROMPT, round_of
from tests.remote.verifier.tiny import STOP, VOCABULARY, generated, random_tree

LONG = [2 + token % 40 for token in range(280)]
"""A prompt that is read in several chunks."""


class Reply(NamedTuple):
    """Everything that came of a round."""

    verdict: Verdict
    memory: list[Memory]


def frames_of(sessions: Sessions, message: Round) -> Iterator[Frame]:
    """The frames of a round, as they come: without the turns whose result stays inside the verifier."""
    return (frame for frame in alone(sessions.engine, sessions.round(message)) if frame is not None)


def answered(sessions: Sessions, message: Round) -> Reply:
    verdict, *memory = frames_of(sessions, message)
    assert isinstance(verdict, Verdict) and all(isinstance(frame, Memory) for frame in memory)
    return Reply(verdict, memory)  # type: ignore[arg-type]


class Device:
    """The other side of one session: its tokens and round numbers."""

    def __init__(self, sessions: Sessions, name: str = "a") -> None:
        self.sessions, self.name = sessions, name
        self.tokens: list[int] = []
        self.round = 0

    def message(self, append: list[int], tree: DraftTree | None = None, **fields: object) -> Round:
        self.round += 1
        return round_of(self.round, self.tokens, append, tree, session=self.name, **fields)

    def play(self, append: list[int], tree: DraftTree | None = None, **fields: object) -> Reply:
        tree = tree or DraftTree.empty()
        reply = answered(self.sessions, self.message(append, tree, **fields))
        verdict = reply.verdict
        self.tokens += append + [int(tree.tokens[node]) for node in verdict.accepted]
        self.tokens += [] if verdict.bonus is None else [verdict.bonus]
        assert (verdict.length, verdict.digest) == (len(self.tokens), digest_of(self.tokens))
        return reply


def table(target: Engine, stop: int | None = None, max_sessions: int = 4, max_bytes: int = 1 << 30) -> Sessions:
    stops = frozenset() if stop is None else frozenset({stop})
    return Sessions(target, LIMITS, stops, max_sessions=max_sessions, max_bytes=max_bytes)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.5, top_p=0.95, seed=11)])
def test_no_tree_changes_what_rounds_give(target: Engine, sampling: Sampling) -> None:
    off, on, rng = Device(table(target)), Device(table(target)), random.Random(0)
    off.play(PROMPT, sampling=sampling)
    while len(off.tokens) < 60:
        off.play([], sampling=sampling)
    if not sampling.temperature:
        assert off.tokens == PROMPT + generated(target.model, PROMPT, len(off.tokens) - len(PROMPT))
    on.play(PROMPT, random_tree(rng, 20), sampling=sampling)
    while len(on.tokens) < 60:
        ahead = off.tokens[len(on.tokens) :][: rng.randrange(6)]
        on.play([], DraftTree.chain(ahead) if rng.random() < 0.6 else random_tree(rng, 20), sampling=sampling)
    assert on.tokens[:60] == off.tokens[:60]


def test_what_is_left_of_a_pruned_tree_gives_the_same_text_and_its_nodes_keep_their_numbers(
    target: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "LONGEST_READ", -1)  # Only the times below count, not those of this machine.
    expected, sessions = generated(target.model, PROMPT, 120), table(target)
    device, sessions.pruner = Device(sessions), Pruner(lambda: 100.0)
    device.play(PROMPT)
    for _ in range(40):  # A row takes a millisecond, in which others gain half a token.
        sessions.pruner.forwards.add(1, 1000, 1.0)
        sessions.pruner.forwards.add(1, 500, 0.5)
    sessions.pruner.ran("b", Judged((), None, [7] * 1000, rows=1, seconds=2.0, sessions=1), pending=1000)
    while len(device.tokens) < len(PROMPT) + 115:
        ahead = expected[len(device.tokens) - len(PROMPT) :][:4]
        pruned = sessions.counters.pruned_nodes
        tree = DraftTree(np.array([(ahead[0] + 1) % VOCABULARY, *ahead]), np.array([-1, -1, 1, 2, 3]))
        assert device.play([], tree).verdict.accepted == (1, 2, 3, 4)
    assert sessions.counters.pruned_nodes == pruned + 1, "the first one is always wrong"
    assert device.tokens[len(PROMPT) :][:115] == expected[:115]


def test_the_same_round_gets_the_same_reply_and_memory(target: Engine) -> None:
    sessions = table(target)
    device = Device(sessions)
    device.play(PROMPT)
    message = device.message([], DraftTree.chain([1, 2]), memory_from=0)
    first = answered(sessions, message)
    assert answered(sessions, message) == first
    assert first.memory != []
    assert (sessions.counters.rounds, sessions.counters.replays) == (2, 1)


def sampled(tree: DraftTree, seed: int = 0) -> DraftTree:
    """The tree with lists that nothing was really drawn from."""
    rng = np.random.default_rng(seed)
    candidates = {
        parent: Candidates(np.arange(VOCABULARY), rng.integers(1, 1000, VOCABULARY)) for parent in tree.children()
    }
    return DraftTree(tree.tokens, tree.parents, candidates=candidates)


def test_a_sampled_tree_gets_the_same_verdict_again(target: Engine) -> None:
    sampling, rng = Sampling(temperature=1.5, seed=11), random.Random(2)
    sessions, fresh = table(target), table(target)
    device = Device(sessions)
    device.play(PROMPT, sampling=sampling)
    for _ in range(6):
        message = device.message([], sampled(random_tree(rng, 12)), sampling=sampling)
        verdict = answered(sessions, message).verdict
        assert answered(sessions, message).verdict == verdict
        # A verifier that lost the session, and takes the round from the first token on, tosses the same coins.
        restart = msgspec.structs.replace(message, base=0, digest=digest_of([]), append=pack_tokens(device.tokens))
        again = answered(fresh, restart).verdict
        assert (again.accepted, again.bonus) == (verdict.accepted, verdict.bonus)
        tree = message.tree.unpack(LIMITS)
        device.tokens += [*(int(tree.tokens[node]) for node in verdict.accepted), verdict.bonus]


def test_a_conflict_tells_true_prefixes_longest_first_and_leaves_no_trace(target: Engine) -> None:
    sessions = table(target)
    device = Device(sessions)
    with pytest.raises(UnknownPrefix) as unknown:
        answered(sessions, round_of(1, PROMPT, [4]))
    assert unknown.value.conflict.have == ((0, digest_of([])),) and len(sessions.table) == 0
    device.play(PROMPT)
    held = device.tokens[:]
    device.tokens = [*held[:6], 0, 0, 0, 0]
    with pytest.raises(UnknownPrefix) as caught:
        answered(sessions, device.message([4]))
    have = caught.value.conflict.have
    lengths = [length for length, _ in have]
    assert lengths == sorted(set(lengths), reverse=True)
    assert (lengths[0], lengths[-1]) == (len(held), 0)
    assert all(digest == digest_of(held[:length]) for length, digest in have)
    # The device continues from the longest prefix that they share, and the session is as good as before.
    shared = max(length for length, digest in have if digest == digest_of(device.tokens[:length]))
    assert 3 <= shared <= 6
    append, device.tokens = device.tokens[shared:], device.tokens[:shared]
    device.play(append)
    assert device.tokens[-1] == generated(target.model, device.tokens[:-1], 1)[0]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_shorter_base_cuts_the_session(target: Engine, data: st.DataObject) -> None:
    device = Device(table(target))
    device.play(PROMPT)
    device.play([], random_tree(random.Random(0), 6))
    for _ in range(3):
        device.tokens = device.tokens[: data.draw(st.integers(1, len(device.tokens)))]
        device.play(data.draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=5)))
        assert device.tokens[-1] == generated(target.model, device.tokens[:-1], 1)[0]


def test_memory_covers_what_was_asked_newest_first(target: Engine) -> None:
    sessions = table(target)
    device = Device(sessions)
    prompt = [token % VOCABULARY for token in range(2, 202)]
    reply = device.play(prompt, memory_from=10)
    found = reply.memory
    spans = [(frame.start, frame.start + frame.count) for frame in found]
    assert spans == [(136, 200), (72, 136), (10, 72)]
    for frame in found:
        assert frame.digest == target.encoder.digest
        unpack_memory(frame.data, frame.count, target.encoder.layers)
    assert device.play([], memory_from=None).memory == []
    latest = device.play([], memory_from=200).memory
    assert [(frame.start, frame.count) for frame in latest] == [(200, 2)]
    assert device.play([], memory_from=299).memory == []


def test_memory_ends_early_once_its_tokens_are_gone(target: Engine) -> None:
    sessions = table(target)
    device = Device(sessions)
    first = device.message([2] * 150, memory_from=0)
    frames = frames_of(sessions, first)
    verdict = next(frames)
    assert isinstance(verdict, Verdict) and isinstance(next(frames), Memory)
    device.tokens = [2] * 150 + [verdict.bonus or 0]
    device.play([])
    assert isinstance(next(frames), Memory)
    device.tokens = device.tokens[:100]
    device.play([3, 3])
    assert next(frames, None) is None
    later = frames_of(sessions, device.message([], memory_from=0))
    assert isinstance(next(later), Verdict)
    sessions.drop("a")
    assert next(later, None) is None


def test_a_stop_token_finishes(target: Engine) -> None:
    expected = generated(target.model, PROMPT, 8)
    stop = next(token for at, token in enumerate(expected) if at and token not in expected[:at])
    at = expected.index(stop)
    whole = Device(table(target, stop=stop))
    verdict = whole.play(PROMPT, DraftTree.chain(expected)).verdict
    assert (verdict.accepted, verdict.bonus, verdict.finished) == (tuple(range(at + 1)), None, True)
    bare = Device(table(target, stop=stop))
    for index in range(at + 1):
        verdict = bare.play(PROMPT if not index else []).verdict
        assert verdict.finished == (index == at)
    assert verdict.bonus == stop
    # The conversation continues after the end of an answer.
    assert whole.play([4, 5, 6]).verdict.length == len(PROMPT) + at + 1 + 3 + 1


def test_a_full_session_finishes(target: Engine) -> None:
    prompt = [2 + token % 40 for token in range(LIMITS.max_tokens - 4)]
    expected = generated(target.model, prompt, 4)
    device = Device(table(target))
    tree = DraftTree.chain([*expected, 3, 3, 3])
    verdict = device.play(prompt, tree).verdict
    assert (verdict.accepted, verdict.bonus, verdict.finished) == ((0, 1, 2), expected[3], True)
    assert verdict.length == LIMITS.max_tokens
    with pytest.raises(TooLong, match="300"):
        answered(device.sessions, device.message([]))
    other = Device(device.sessions, "b")
    with pytest.raises(TooLong):
        answered(other.sessions, other.message([2] * 301))


def test_the_session_used_longest_ago_leaves_first(target: Engine) -> None:
    sessions = table(target, max_sessions=2)
    first, second, third = (Device(sessions, name) for name in "abc")
    first.play(PROMPT)
    second.play(PROMPT)
    first.play([])
    third.play(PROMPT)
    assert (len(sessions.table), sessions.table.evictions) == (2, 1)
    first.play([])
    with pytest.raises(UnknownPrefix):
        answered(sessions, second.message([]))


def test_what_two_sessions_begin_with_is_computed_once(target: Engine) -> None:
    sessions = table(target)
    shared = [2 + token % 40 for token in range(50)]
    first = Device(sessions, "a")
    first.play([*shared, 3, 4])
    for name, end in (("b", [7, 5]), ("c", [9]), ("d", [])):
        before = sessions.counters.shared_tokens
        other, alone = Device(sessions, name), Device(table(target), name)
        for append in ([*shared, *end], [6, 6]):
            assert other.play(append).verdict.bonus == alone.play(append).verdict.bonus
        assert sessions.counters.shared_tokens - before == (49 if name == "d" else 50)
        sessions.drop(name)
    Device(sessions, "e").play([*shared[: SHORTEST_SHARED - 1], 1, 1])
    assert sessions.counters.shared_tokens == 149


def allocated(sessions: Sessions) -> int:
    """Bytes of all slabs, as PyTorch counts them."""
    held = [sessions.table.get(name) for name in sessions.table]
    slabs = [slab for session in held if session is not None for slab in session.context.slabs if slab.keys is not None]
    return sum(rows.untyped_storage().nbytes() for slab in slabs for rows in (slab.keys, slab.values))


def test_what_is_allocated_stays_within_its_bound(target: Engine) -> None:
    bound = 500 * target.bytes_per_token
    sessions = table(target, max_sessions=99, max_bytes=bound)
    devices = [Device(sessions, str(index)) for index in range(12)]
    for device in devices:
        device.play([2] * 10)
        assert 0 < allocated(sessions) <= sessions.table.bytes <= bound
    # A session of 10 tokens holds 64 rows, and counts as them: not 12 of them fit, though their tokens would.
    assert 1 < len(sessions.table) < 8
    devices[-1].play([3] * 200, DraftTree.chain([1, 2, 3]))
    assert allocated(sessions) <= sessions.table.bytes <= bound
    with pytest.raises(TooLong, match="MB"):
        answered(table(target, max_bytes=bound // 10), Device(sessions, "z").message([2] * 200))


def test_a_session_that_runs_is_never_dropped_for_another(target: Engine) -> None:
    sessions = table(target, max_sessions=2)
    running, idle, other = (Device(sessions, name) for name in "abc")
    long = [2 + token % 40 for token in range(200)]
    frames = alone(sessions.engine, sessions.round(running.message(long, memory_from=0)))
    assert next(frames) is None, "a chunk of the prompt"
    idle.play(PROMPT)
    other.play(PROMPT)
    assert set(sessions.table) == {"a", "c"}
    others = alone(sessions.engine, sessions.round(other.message([], memory_from=0)))
    assert isinstance(next(others), Verdict)
    newcomer = Device(sessions, "d")
    message = newcomer.message(PROMPT)
    with pytest.raises(Overloaded, match="Try again"):
        answered(sessions, message)
    assert set(sessions.table) == {"a", "c"}, "who is refused has driven nobody out"
    verdict = next(frame for frame in frames if frame is not None)
    assert isinstance(verdict, Verdict) and verdict.bonus == generated(target.model, long, 1)[0]
    others.close()
    assert answered(sessions, message).verdict.bonus == generated(target.model, PROMPT, 1)[0]
    assert set(sessions.table) == {"a", "d"}
    assert sum(frame.count for frame in frames if isinstance(frame, Memory)) == 200


def test_of_an_absent_device_none_is_dropped_while_a_forward_for_its_prompt_is_on_its_way(target: Engine) -> None:
    sessions = table(target, max_sessions=1)
    reading = sessions.round(Device(sessions).message(LONG))
    sessions.table.away.add("a")
    forward = next(reading)
    assert isinstance(forward, Forward)
    message = Device(sessions, "b").message(PROMPT)
    with pytest.raises(Overloaded):
        answered(sessions, message)
    assert advanced(reading, *computed_together(target, [forward])) is None
    answered(sessions, message)
    with pytest.raises(Dropped):
        next(reading)


def test_a_long_prompt_is_read_in_turns_and_a_break_keeps_what_was_read(target: Engine) -> None:
    sessions = table(target)
    device, other = Device(sessions), Device(sessions, "b")
    first = alone(sessions.engine, sessions.round(device.message(LONG)))
    assert next(first) is None
    assert other.play(PROMPT).verdict.bonus == generated(target.model, PROMPT, 1)[0]
    assert next(first) is None
    first.close()
    computed = sessions.table.get("a").context.computed
    assert computed >= 256
    again = alone(sessions.engine, sessions.round(device.message(LONG)))
    verdict = next(again)
    assert isinstance(verdict, Verdict) and verdict.bonus == generated(target.model, LONG, 1)[0]


def test_a_newer_round_takes_the_place_of_one_that_is_read(target: Engine) -> None:
    sessions = table(target)
    device = Device(sessions)
    first = alone(sessions.engine, sessions.round(device.message(LONG)))
    assert next(first) is None
    device.tokens = []
    assert device.play([7, *LONG[1:]]).verdict.bonus == generated(target.model, [7, *LONG[1:]], 1)[0]
    with pytest.raises(Superseded):
        next(first)
    assert sessions.table.running == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"append": b"abc"},
        {"append": pack_tokens([-3])},
        {"append": pack_tokens([VOCABULARY])},
        {"tree": Tree.pack(DraftTree.chain([VOCABULARY]))},
        {"tree": Tree.pack(DraftTree.chain([2] * 17))},
        {"tree": Tree.pack(DraftTree(list(range(25)), [-1] * 25))},
        {"tree": Tree(tokens=b"\0" * 8, parents=b"\0" * 4)},
        {"tree": msgspec.structs.replace(Tree.pack(DraftTree.chain([2])), counts=b"\1\0")},
        {"tree": Tree.pack(DraftTree([2], [-1], candidates={-1: Candidates([2, VOCABULARY], [3, 1])}))},
        {"append": b""},
    ],
)
def test_a_bad_round_is_refused_and_changes_nothing(target: Engine, fields: dict[str, object]) -> None:
    sessions = table(target, stop=STOP)
    device = Device(sessions)
    with pytest.raises(BadRound):
        answered(sessions, msgspec.structs.replace(device.message(PROMPT), **fields))
    assert len(sessions.table) == 0
    device.play(PROMPT)
