"""What was said before is a draft that costs no call of the drafter, and one that guesses nothing costs little."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drafter.cost import Cost
from drafter.model import MemoryEncoder
from drafter.ngram import save_datastore
from drafter.runtime import Drafter
from models.config import DATASTORE, read_config, write_config
from models.engines.engine import Engine
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote.protocol import Limits, Memory, Progress
from remote.verifier.drafting.own_drafter import OwnDrafter, OwnDrafts
from remote.verifier.drafting.stream_payoff import PLAIN, SAVED, TRIAL, StreamPayoff
from remote.verifier.sessions.sessions import HELD_TOKENS, Sessions
from tests.remote.verifier.test_hosted import streaming
from tests.remote.verifier.test_stream_payoff import rounds

LIMITS = Limits(max_nodes=64, max_depth=32, max_tokens=900, max_body_bytes=4096)
QUESTIONS = ("list", "unpack", "find", "who")
REPEATED = [7, 8, 9, 10, 11, 12, 13, 14] * 3


def drafting(engine: Engine, drafter: Drafter) -> OwnDrafter:
    """A drafter whose calls take 10 ms, beside a target that has written some rounds without it."""
    own = OwnDrafter(drafter, engine)
    for _ in range(PLAIN):
        own.payoff.gained(tokens=1, nodes=0, seconds=0.0, drafted=False)
    own.payoff.allowance.left = SAVED
    own.payoff.calls.add(0.04, 4)
    rounds(own.payoff, 30, sessions=1)
    return own


def after(drafts: OwnDrafts, tokens: list[int]) -> DraftTree:
    drafts.begin(tokens)
    return drafts.looked_up()


def test_what_was_said_before_is_a_draft_where_it_pays(engine: Engine, drafter: Drafter) -> None:
    own = drafting(engine, drafter)
    drafts = own.drafts()
    assert not own.payoff.pays and own.payoff.gain == 0
    guess = after(drafts, [*REPEATED, 7, 8])
    assert guess.tokens.tolist()[:3] == [9, 10, 11] and len(guess) <= own.bounds.nodes
    rounds(own.payoff, 60, sessions=64)
    assert len(after(drafts, [*REPEATED, 7, 8])) < len(guess), "a row costs about as much as another's token"
    rounds(own.payoff, 90, sessions=1)
    assert len(after(drafts, [*REPEATED, 7, 8])) > 0
    for _ in range(30):
        after(drafts, [*REPEATED, 7, 8])
        after(drafts, [*REPEATED, 7, 8, 99])  # What followed before does not follow again.
    assert len(after(drafts, [*REPEATED, 7, 8])) == 0


def test_the_drafters_answers_in_training_are_looked_up(engine: Engine, tiny_pair: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
    save_datastore(folder / DATASTORE, [[3, 4, 5, 6, 7, 8]] * 3)
    write_config(folder, read_config(folder))
    drafts = drafting(engine, Drafter.load(folder)).drafts()
    assert after(drafts, [20, 21, 3, 4]).tokens.tolist()[:2] == [5, 6]


def serving(engine: Engine, drafter: Drafter) -> Sessions:
    own = OwnDrafter(drafter, engine)
    return Sessions(engine, LIMITS, frozenset(), max_sessions=16, max_bytes=1 << 30, own=own)


def asked(sessions: Sessions, drafter: Drafter, question: str, **fields: int) -> list[Progress | Memory]:
    """The frames of an answer of 120 tokens."""
    frames = streaming(sessions, [], drafter.text.render([("user", question)]), session=question, most=120, **fields)
    return [frame for frame in frames if isinstance(frame, Progress | Memory)]


def test_a_drafter_that_guesses_nothing_is_called_a_few_times_in_all(
    guessing_nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamPayoff, "looking", lambda self, most: None)
    drafter = Drafter.load(guessing_nothing / "drafter")
    encoder = MemoryEncoder.load(guessing_nothing / "drafter")
    sessions = serving(TorchEngine(load_target(str(guessing_nothing / "target")).model, encoder), drafter)
    for question in QUESTIONS:
        assert sum(isinstance(frame, Progress) for frame in asked(sessions, drafter, question)) > 100
    assert sessions.own is not None and 1 <= sessions.own.payoff.calls.count <= TRIAL, "of 400 rounds"


@pytest.mark.parametrize("pays", [False, True])
def test_memory_comes_together_where_the_server_does_not_draft(
    engine: Engine, drafter: Drafter, monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    monkeypatch.setattr(OwnDrafts, "pays", lambda self, length: pays)
    monkeypatch.setattr(StreamPayoff, "looking", lambda self, most: None)
    monkeypatch.setattr(StreamPayoff, "cost", Cost(round=0.01, level=0.001, node=0.001))
    frames = asked(serving(engine, drafter), drafter, QUESTIONS[0], memory_from=0)
    memory = [frame for frame in frames if isinstance(frame, Memory)]
    length = max(frame.length for frame in frames if isinstance(frame, Progress))
    seen = sorted(token for frame in memory for token in range(frame.start, frame.start + frame.count))
    assert seen == list(range(length - 1)), "each token once, but the last"
    written = sum(isinstance(frame, Progress) for frame in frames)
    assert len(memory) <= length // HELD_TOKENS + 1 if not pays else len(memory) >= written - 1
