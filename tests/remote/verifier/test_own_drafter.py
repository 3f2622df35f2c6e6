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
QUESTIONS = ("list files", "and hidden ones", "unpack a tar archive", "find large files", "who am I?")
REPEATED = [7, 8, 9, 10, 11, 12, 13, 14] * 3


def drafting(pair: Path, drafter: Path, call_seconds: float = 0.01) -> OwnDrafter:
    """A drafter that is called for so long, beside a target that has written some rounds without it."""
    own = OwnDrafter(Drafter.load(drafter), TorchEngine(load_target(str(pair / "target")).model))
    for _ in range(PLAIN):
        own.payoff.gained(tokens=1, nodes=0, seconds=0.0, drafted=False)
    own.payoff.allowance.left = SAVED
    own.payoff.calls.add(4 * call_seconds, 4)
    rounds(own.payoff, 30, sessions=1)
    return own


def after(drafts: OwnDrafts, tokens: list[int]) -> DraftTree:
    drafts.begin(tokens)
    return drafts.looked_up()


def test_so_much_is_known_before_any_answer(tiny_pair: Path) -> None:
    own = OwnDrafter(Drafter.load(tiny_pair / "drafter"), TorchEngine(load_target(str(tiny_pair / "target")).model))
    own.warm()
    assert own.payoff.calls.count == own.payoff.reading.count == 1
    assert len(after(own.drafts(), REPEATED)) == 0, "what a row costs is not known yet"


def test_what_was_said_before_is_a_draft_where_it_pays(tiny_pair: Path) -> None:
    own = drafting(tiny_pair, tiny_pair / "drafter")
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


def test_the_drafters_answers_in_training_are_looked_up(tiny_pair: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
    save_datastore(folder / DATASTORE, [[3, 4, 5, 6, 7, 8]] * 3)
    write_config(folder, read_config(folder))
    assert after(drafting(tiny_pair, folder).drafts(), [20, 21, 3, 4]).tokens.tolist()[:2] == [5, 6]


def test_the_drafters_draft_is_taken_where_it_gains_more(tiny_pair: Path) -> None:
    own = drafting(tiny_pair, tiny_pair / "drafter", call_seconds=0.0005)
    payoff, drafts = own.payoff, own.drafts()
    assert len(after(drafts, REPEATED)) == 0, "what the drafter gains is not known, so it is tried"
    for tokens, nodes, seconds, looked_up in ((2, 0, 0.002, True), (60, 8, 0.004, False)):
        for _ in range(40):
            payoff.gained(tokens=tokens, nodes=nodes, seconds=seconds, drafted=True)
        assert payoff.gain > 0 and (len(after(drafts, REPEATED)) > 0) == looked_up


# ---- streams ---------------------------------------------------------------------------------------------------------


def serving(pair: Path) -> tuple[Sessions, Drafter]:
    engine = TorchEngine(load_target(str(pair / "target")).model, MemoryEncoder.load(pair / "drafter"))
    drafter = Drafter.load(pair / "drafter")
    own = OwnDrafter(drafter, engine)
    return Sessions(engine, LIMITS, frozenset(), max_sessions=16, max_bytes=1 << 30, own=own), drafter


def asked(sessions: Sessions, drafter: Drafter, name: str, question: str, **fields: int) -> list[Progress | Memory]:
    """The frames of an answer of 120 tokens."""
    frames = streaming(sessions, [], drafter.text.render([("user", question)]), session=name, most=120, **fields)
    return [frame for frame in frames if isinstance(frame, Progress | Memory)]


def test_a_drafter_that_guesses_nothing_is_called_a_few_times_in_all(
    guessing_nothing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamPayoff, "looking", lambda self, most: None)
    sessions, drafter = serving(guessing_nothing)
    assert sessions.own is not None
    for number, question in enumerate(QUESTIONS * 2):
        frames = asked(sessions, drafter, str(number), question)
        assert sum(isinstance(frame, Progress) for frame in frames) > 100
    assert 1 <= sessions.own.payoff.calls.count <= TRIAL, "of 1,200 rounds"


@pytest.mark.parametrize("pays", [False, True])
def test_memory_comes_together_where_the_server_does_not_draft(
    tiny_pair: Path, monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    monkeypatch.setattr(OwnDrafts, "pays", lambda self, length: pays)
    monkeypatch.setattr(StreamPayoff, "looking", lambda self, most: None)
    monkeypatch.setattr(StreamPayoff, "cost", Cost(round=0.01, level=0.001, node=0.001))
    sessions, drafter = serving(tiny_pair)
    frames = asked(sessions, drafter, "s", QUESTIONS[0], memory_from=0)
    memory = [frame for frame in frames if isinstance(frame, Memory)]
    length = max(frame.length for frame in frames if isinstance(frame, Progress))
    seen = sorted(token for frame in memory for token in range(frame.start, frame.start + frame.count))
    assert seen == list(range(length - 1)), "each token once, but the last"
    written = sum(isinstance(frame, Progress) for frame in frames)
    assert len(memory) <= length // HELD_TOKENS + 1 if not pays else len(memory) >= written - 1
