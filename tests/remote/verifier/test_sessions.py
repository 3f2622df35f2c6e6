from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from models.engines.engine import Engine, Forward
from models.tree import Candidates, DraftTree
from remote.protocol import Frame, Memory, Round, Sampling, Tree, Verdict, digest_of, pack_tokens
from remote.verifier.drafting import pruner
from remote.verifier.drafting.pruner import Pruner
from remote.verifier.drafting.stream_payoff import Judged
from remote.verifier.refusals import BadRound, Dropped, Overloaded, Superseded, TooLong, UnknownPrefix
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import advanced, alone, computed_together
from tests.remote.verifier.conftest import LIMITS
from tests.remote.verifier.test_http import PROMPT, round_of
from tests.remote.verifier.tiny import STOP, VOCABULARY, generated, random_tree

LONG = [2 + token % 40 for token in range(280)]
"""A prompt that is read in several chunks."""


def frames_of(sessions: Sessions, message: Round) -> Iterator[Frame]:
    """The frames of a round, as they come: without the turns whose result stays inside the verifier."""
    return (frame for frame in alone(sessions.engine, sessions.round(message)) if frame is not None)


def answered(sessions: Sessions, message: Round) -> Verdict:
    """The verdict of a round whose memory is not asked for."""
    (verdict,) = frames_of(sessions, message)
    assert isinstance(verdict, Verdict)
    return verdict


class Device:
    """The other side of one session: its tokens and round numbers."""

    def __init__(self, sessions: Sessions, name: str = "a") -> None:
        self.sessions, self.name = sessions, name
        self.tokens: list[int] = []
        self.round = 0

    def message(self, append: list[int], tree: DraftTree | None = None, **fields: object) -> Round:
        self.round += 1
        return round_of(self.round, self.tokens, append, tree, session=self.name, **fields)

    def play(self, append: list[int], tree: DraftTree | None = None, **fields: object) -> Verdict:
        tree = tree or DraftTree.empty()
        verdict = answered(self.sessions, self.message(append, tree, **fields))
        self.tokens += append + [int(tree.tokens[node]) for node in verdict.accepted]
        self.tokens += [] if verdict.bonus is None else [verdict.bonus]
        assert (verdict.length, verdict.digest) == (len(self.tokens), digest_of(self.tokens))
        return verdict


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
        assert device.play([], tree).accepted == (1, 2, 3, 4)
    assert sessions.counters.pruned_nodes == pruned + 1, "the first one is always wrong"
    assert device.tokens[len(PROMPT) :][:115] == expected[:115]


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
        verdict = answered(sessions, message)
        assert answered(sessions, message) == verdict
        # A verifier that lost the session, and takes the round from the first token on, tosses the same coins.
        restart = msgspec.structs.replace(message, base=0, digest=digest_of([]), append=pack_tokens(device.tokens))
        again = answered(fresh, restart)
        assert (again.accepted, again.bonus) == (verdict.accepted, verdict.bonus)
        tree = message.tree.unpack(LIMITS)
        device.tokens += [*(int(tree.tokens[node]) for node in verdict.accepted), verdict.bonus]


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
    verdict = whole.play(PROMPT, DraftTree.chain(expected))
    assert (verdict.accepted, verdict.bonus, verdict.finished) == (tuple(range(at + 1)), None, True)
    bare = Device(table(target, stop=stop))
    for index in range(at + 1):
        verdict = bare.play(PROMPT if not index else [])
        assert verdict.finished == (index == at)
    assert verdict.bonus == stop
    # The conversation continues after the end of an answer.
    assert whole.play([4, 5, 6]).length == len(PROMPT) + at + 1 + 3 + 1


def test_a_full_session_finishes(target: Engine) -> None:
    prompt = [2 + token % 40 for token in range(LIMITS.max_tokens - 4)]
    expected = generated(target.model, prompt, 4)
    device = Device(table(target))
    tree = DraftTree.chain([*expected, 3, 3, 3])
    verdict = device.play(prompt, tree)
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
    assert answered(sessions, message).bonus == generated(target.model, PROMPT, 1)[0]
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


def test_a_newer_round_takes_the_place_of_one_that_is_read(target: Engine) -> None:
    sessions = table(target)
    device = Device(sessions)
    first = alone(sessions.engine, sessions.round(device.message(LONG)))
    assert next(first) is None
    device.tokens = []
    assert device.play([7, *LONG[1:]]).bonus == generated(target.model, [7, *LONG[1:]], 1)[0]
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
