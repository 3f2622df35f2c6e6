"""A stream with a drafter is at worst a plain one: what does not pay is tried a few times, and memory costs little."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafter.cost import Cost
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from remote.protocol import Limits, Memory, Progress, Stream, digest_of, pack_tokens
from remote.verifier.own_drafter import FIRST_NODES, TRIAL, OwnDrafter, OwnDrafts
from remote.verifier.sessions import HELD_TOKENS, Sessions
from remote.verifier.turns import alone

LIMITS = Limits(max_nodes=64, max_depth=32, max_tokens=900, max_body_bytes=4096)
QUESTIONS = ("list files", "and hidden ones", "unpack a tar archive", "find large files", "who am I?")


def serving(pair: Path) -> tuple[Sessions, Drafter]:
    engine = TorchEngine(load_target(str(pair / "target")).model, MemoryEncoder.load(pair / "drafter"))
    drafter = Drafter.load(pair / "drafter")
    own = OwnDrafter(drafter, engine)
    return Sessions(engine, LIMITS, frozenset(), max_sessions=16, max_bytes=1 << 30, own=own), drafter


def asked(sessions: Sessions, drafter: Drafter, name: str, question: str, **fields: int) -> list[Progress | Memory]:
    """The frames of an answer of 120 tokens."""
    append = pack_tokens(drafter.text.render([("user", question)]))
    message = Stream(session=name, round=1, base=0, digest=digest_of([]), append=append, most=120, **fields)
    frames = alone(sessions.engine, sessions.stream(message))
    return [frame for frame in frames if isinstance(frame, Progress | Memory)]


def test_a_drafter_that_guesses_nothing_is_called_a_few_times_in_all(
    guessing_nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnDrafter, "looks", False)
    sessions, drafter = serving(guessing_nothing)
    assert sessions.own is not None
    for number, question in enumerate(QUESTIONS * 2):
        frames = asked(sessions, drafter, str(number), question)
        assert sum(isinstance(frame, Progress) for frame in frames) > 100
    assert 1 <= sessions.own.calls.count <= TRIAL, "of 1,200 rounds"
    assert sessions.counters.drafted_nodes <= TRIAL * FIRST_NODES


@pytest.mark.parametrize("pays", [False, True])
def test_memory_comes_together_where_the_server_does_not_draft(
    tiny_pair: Path, monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    monkeypatch.setattr(OwnDrafts, "pays", lambda self, length: pays)
    monkeypatch.setattr(OwnDrafter, "looks", False)
    monkeypatch.setattr(OwnDrafter, "cost", Cost(round=0.01, level=0.001, node=0.001))
    sessions, drafter = serving(tiny_pair)
    frames = asked(sessions, drafter, "s", QUESTIONS[0], memory_from=0)
    memory = [frame for frame in frames if isinstance(frame, Memory)]
    length = max(frame.length for frame in frames if isinstance(frame, Progress))
    seen = sorted(token for frame in memory for token in range(frame.start, frame.start + frame.count))
    assert seen == list(range(length - 1)), "each token once, but the last"
    rounds = sum(isinstance(frame, Progress) for frame in frames)
    assert len(memory) <= length // HELD_TOKENS + 1 if not pays else len(memory) >= rounds - 1
