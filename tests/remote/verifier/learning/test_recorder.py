"""What sessions leave to learn from: whole answers, with the memory that was there, within a budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drafter.learning.distributions import Distributions
from drafter.learning.samples import Replayer, Round
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.step import StepGraph
from models.config import GRAPH
from models.engines.engine import Engine
from models.engines.memory_encoder import ArrayEncoder
from models.engines.onnx_engine import OnnxEngine
from models.engines.target import load_target
from models.engines.torch_engine import TorchEngine
from models.files import TARGET_GRAPH
from models.tree import DraftTree
from remote.protocol import Limits, Memory, Progress, digest_of
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.drafting.stream_payoff import StreamPayoff
from remote.verifier.learning.answers import Answer, Answers, Piece
from remote.verifier.learning.learning import Learning
from remote.verifier.learning.trail import MOST_TOKENS
from remote.verifier.learning.worker import unpacked
from remote.verifier.options import ServeOptions
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import alone
from tests.drafter.conftest import knowing_its_first_memory
from tests.remote.verifier.test_hosted import ask, streaming, tokens_of, told
from tests.remote.verifier.test_http import round_of

LIMITS = Limits(max_nodes=200, max_depth=64, max_tokens=300, max_body_bytes=1 << 16)


@pytest.fixture(scope="module")
def engine(tiny_pair: Path, request: pytest.FixtureRequest) -> Engine:
    target, drafter = tiny_pair / "target", tiny_pair / "drafter"
    if getattr(request, "param", "torch") == "torch":
        return TorchEngine(load_target(str(target)).model, MemoryEncoder.load(drafter))
    return OnnxEngine(target / TARGET_GRAPH, ArrayEncoder.load(drafter))


class Server:
    """Sessions of two holders, with what learns from them. Nothing learns: its thread is not begun."""

    def __init__(self, engine: Engine, drafter: Drafter, base: Path, folder: Path, **options: object) -> None:
        own = OwnDrafter(drafter, engine)
        holders = frozenset({"anna", "bert"})
        self.learning = Learning(ServeOptions(made=folder, **options), base, drafter.config, own, holders)  # type: ignore[arg-type]
        self.sessions = Sessions(
            engine, LIMITS, frozenset(), max_sessions=8, max_bytes=1 << 30, own=own, learning=self.learning
        )
        self._number = 0

    def stream(self, known: list[int], append: list[int], holder: str = "anna", **more: object) -> list:
        self._number += 1
        message = ask(known, append, self._number, **{"most": 24, "memory_from": 0} | more)
        return told(alone(self.sessions.engine, self.sessions.stream(message, holder)))

    def round(self, known: list[int], append: list[int], tree: DraftTree, memory: int | None) -> list:
        self._number += 1
        message = round_of(self._number, known, append, tree, session="r", memory_from=memory)
        return told(alone(self.sessions.engine, self.sessions.round(message, "anna")))

    def kept(self, holder: str = "anna") -> list[Answer]:
        return [answer for _, answer in self.learning.answers.of(holder)]


@pytest.fixture
def server(
    engine: Engine, drafter: Drafter, tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Server:
    monkeypatch.setattr(StreamPayoff, "pays", True)  # Else a target of this size would be asked without drafts.
    return Server(engine, drafter, tiny_pair / "drafter", tmp_path)


@pytest.mark.parametrize("engine", ["torch", "onnx"], indirect=True)
def test_a_stream_is_an_answer_that_can_be_drafted_again(server: Server, drafter: Drafter, tiny_pair: Path) -> None:
    prompt = drafter.asked_as("unpack a tar archive")
    frames = server.stream([], prompt)
    (answer,) = server.kept()
    assert list(answer.tokens) == prompt + tokens_of(frames) and server.kept("bert") == []
    assert answer.rounds[0] == Round(len(prompt), 0) and answer.rounds[-1].memory > len(prompt), "memory was there"
    assert len(answer.rounds) == sum(isinstance(frame, Progress) for frame in frames)
    replayer = Replayer(StepGraph(tiny_pair / "drafter" / GRAPH, drafter.config, states=True), drafter.config)
    hits = replayer.samples(answer.tokens, answer.rounds, unpacked(answer, drafter.config)).hits
    # What the verifier's own drafts kept, a chain of first guesses keeps no more of.
    at, kept = 0, [frame.drafted for frame in frames if isinstance(frame, Progress)]
    for drafted in kept:
        assert hits[at : at + drafted + 1].argmin() <= drafted or hits[at : at + drafted + 1].all()
        at += drafted + 1
    assert hits.sum() > 4
    target = Distributions.unpack(answer.target)
    assert target.text.positions.tolist() == list(range(len(prompt), len(answer.tokens)))
    assert target.text.tokens[:, 0].tolist() == tokens_of(frames), "the target says its likeliest token"
    assert len(target.branches), "and it is known what it would have said after rejected ones"


def test_memory_that_the_drafter_knows_without_a_server_counts(
    engine: Engine, tiny_pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamPayoff, "pays", True)
    folder = Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
    drafter = knowing_its_first_memory(tiny_pair, folder)
    server, prompt = Server(engine, drafter, folder, tmp_path), drafter.asked_as("unpack a tar archive")
    server.stream([], prompt, memory_from=1)
    (answer,) = server.kept()
    assert answer.rounds[-1].memory > len(prompt)
    replayer = Replayer(StepGraph(folder / GRAPH, drafter.config, states=True), drafter.config)
    assert len(replayer.samples(answer.tokens, answer.rounds, unpacked(answer, drafter.config))) == 24


def test_a_device_answer_ends_when_the_session_moves_on_and_as_far_as_it_was_kept(
    server: Server, drafter: Drafter, engine: Engine
) -> None:
    prompt = drafter.asked_as("list files")
    known, memory = [], 0
    append, spans = prompt, []
    for _ in range(6):
        frames = server.round(known, append, DraftTree.chain([7, 8]), memory)
        verdict = frames[0]
        known = [*known, *append, *[7, 8][: len(verdict.accepted)], *([] if verdict.bonus is None else [verdict.bonus])]
        assert digest_of(known) == verdict.digest
        spans.append((len(known) - 1 - len(verdict.accepted), memory))
        memory, append = max(frame.start + frame.count for frame in frames if isinstance(frame, Memory)), []
    assert server.kept() == [], "it is not ended yet"
    server.round(known[:-1], [5, 6], DraftTree.empty(), memory)
    (answer,) = server.kept()
    assert list(answer.tokens) == known[:-1], "the device gave up the last token"
    assert answer.rounds[0] == Round(len(prompt), 0)
    assert [one.memory for one in answer.rounds[1:]] == [one for _, one in spans[1 : len(answer.rounds)]]
    chunks = unpacked(answer, drafter.config)
    assert sum(len(rows[0][0]) for _, rows in chunks) >= answer.rounds[-1].memory


def test_without_learning_nothing_is_kept(engine: Engine, drafter: Drafter) -> None:
    sessions = Sessions(engine, LIMITS, frozenset(), max_sessions=2, max_bytes=1 << 30, own=OwnDrafter(drafter, engine))
    list(streaming(sessions, [], [5, 6, 7], most=8))
    session = sessions.table.get("s")
    assert session is not None and session.trail is None


def test_long_conversations_and_those_without_drafts_are_left_out(server: Server, drafter: Drafter) -> None:
    server.stream([], drafter.asked_as("list files"), draft=False)
    assert server.kept() == []
    trail = server.learning.recorder.began("anna")
    trail.remember(MOST_TOKENS - 3, 4, b"1234")
    assert trail.bytes == 0


def answer_of(size: int) -> Answer:
    return Answer((1, 2, 3), (Round(1, 0),), (Piece(0, 1, 1, bytes(size)),), b"")


def test_the_budget_holds_and_those_who_have_most_give_first() -> None:
    answers = Answers(most=3, most_bytes=10_000)
    for size in (1_000, 1_001, 1_002, 1_003):
        answers.add("anna", answer_of(size))
    assert [number for number, _ in answers.of("anna")] == [1, 2, 3], "the newest three"
    answers.add("bert", answer_of(3_000))
    answers.add("bert", answer_of(3_100))
    assert answers.bytes <= 10_000 and len(answers.of("anna")) == 3 and len(answers.of("bert")) == 1
    assert answers.fits(7_000) and answers.bytes <= 3_000 and not answers.fits(10_001)
    answers.add("anna", answer_of(20_000))
    assert answers.of("anna") == [] and answers.bytes <= 10_000, "one that is too large is not kept"


def test_who_shares_has_to_be_joined_by_enough(
    engine: Engine, drafter: Drafter, tiny_pair: Path, tmp_path: Path
) -> None:
    server = Server(engine, drafter, tiny_pair / "drafter", tmp_path, learn="shared", learn_holders=2)
    for number in range(40):
        server.learning.answers.add("anna", answer_of(number))
    for number in range(9):
        server.learning.answers.add("bert", answer_of(number))
        assert server.learning.due() is None
    server.learning.answers.add("bert", answer_of(1))
    assert server.learning.due() == "_shared"
    assert server.learning.drafter("anna") is server.learning.drafter("bert")


def test_two_servers_do_not_learn_in_one_place(
    server: Server, engine: Engine, drafter: Drafter, tiny_pair: Path, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="another server"):
        Server(engine, drafter, tiny_pair / "drafter", tmp_path)
