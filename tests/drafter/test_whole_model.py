"""A whole model as a drafter: whatever was drafted, supposed and taken back, it proposes what it would say afresh."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from drafter.context import DraftContext
from drafter.search import Pace, Proposals
from drafter.whole_model import TOP, Growth, ModelAway, ModelCache, WholeModel
from models.engines.engine import Engine
from models.engines.torch_engine import TorchEngine
from models.tree import ROOT, DraftTree
from remote.proposals import message_of
from remote.protocol import Limits, Proposed
from remote.verifier.refusals import RoundRefused
from remote.verifier.sessions.proposals import likeliest, propose
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.turns import alone
from tests.remote.verifier.tiny import STOP, VOCABULARY, tiny_model

LIMITS = Limits(max_nodes=24, max_depth=24, max_tokens=300, max_body_bytes=4096)
PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]
PACE = Pace(depth=4, breadth=2, nodes=8)


class Conversation:
    """A conversation with a model in this process, through the server's own sessions."""

    most_nodes = LIMITS.max_nodes
    most_tokens = LIMITS.max_tokens - 1

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions, self._name = sessions, name
        self.rows = 0
        """Rows that were computed so far."""

    def __call__(self, growth: Growth, vocabulary: int) -> Proposals:
        self.rows += len(growth.append) + len(growth.tokens)
        message = message_of(self._name, growth, vocabulary)
        try:
            (found,) = filter(None, alone(self._sessions.engine, propose(self._sessions, message)))
        except RoundRefused as refused:
            raise ModelAway(str(refused)) from refused
        assert isinstance(found, Proposed)
        return found.unpack(bool(growth.append) + len(growth.tokens), TOP, vocabulary)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return TorchEngine(tiny_model())


@pytest.fixture
def sessions(engine: Engine) -> Sessions:
    return Sessions(engine, LIMITS, frozenset({STOP}), max_sessions=8, max_bytes=1 << 26)


@pytest.fixture
def conversation(sessions: Sessions) -> Conversation:
    return Conversation(sessions, "one")


@pytest.fixture
def cache(conversation: Conversation) -> ModelCache:
    return ModelCache(WholeModel("a model", lambda: conversation), VOCABULARY)


Afresh = Callable[[Sequence[int]], tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def afresh(engine: Engine) -> Afresh:
    """What the model proposes after tokens that it reads at once."""

    def proposed(tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        context = engine.context()
        context.assign(0, list(tokens))
        log_probs, ids = likeliest(engine.verify(context, DraftTree.empty()), TOP)
        context.release()
        return log_probs[0], ids[0]

    return proposed


def same(found: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_allclose(found[0], expected[0], atol=1e-3)
    assert found[1][0] == expected[1][0]


def test_drafts_commits_and_suppositions_never_change_what_it_proposes(cache: ModelCache, afresh: Afresh) -> None:
    rng = random.Random(2)
    cache.append(PROMPT)

    def nodes(count: int) -> None:
        paths = {ROOT: list(cache.tokens)}
        same([part[0] for part in cache.run_tokens()], afresh(cache.tokens))  # type: ignore[arg-type]
        ran = 0
        while ran < count:
            wide = rng.randrange(1, 4)
            tokens, parents = list[int](), list[int]()
            for at in range(wide):
                parent, token = rng.randrange(-1, ran + at), rng.randrange(VOCABULARY)
                paths[ran + at] = [*paths[parent], token]
                tokens.append(token)
                parents.append(parent)
            log_probs, ids = cache.run_nodes(np.array(tokens), np.array(parents))
            for at in range(wide):
                same((log_probs[at], ids[at]), afresh(paths[ran + at]))
            ran += wide
        leaf = paths[rng.randrange(ran)]
        follows[:] = [*leaf[len(cache.tokens) :], rng.randrange(VOCABULARY)]

    follows = list[int]()
    for _ in range(25):
        nodes(rng.randrange(1, 6))
        expected = list(follows)
        if rng.random() < 0.5:
            with cache.supposing(expected):
                nodes(2)
        if rng.random() < 0.2:
            cache.truncate(len(cache.tokens) - rng.randrange(1, 8))
        elif rng.random() < 0.7:
            cache.append(expected)
        else:
            cache.append([rng.randrange(VOCABULARY) for _ in range(rng.randrange(1, 4))])
        if len(cache.tokens) > 100:
            cache.truncate(20)


def test_a_chain_computes_each_token_once(cache: ModelCache, conversation: Conversation) -> None:
    context = DraftContext(cache, VOCABULARY)
    context.commit(PROMPT)
    tree = context.draft(Pace(depth=8, breadth=1, nodes=8))
    assert len(tree) == 8 and conversation.rows == len(PROMPT) + 7
    context.commit([*tree.tokens[:5].tolist(), (int(tree.tokens[5]) + 1) % VOCABULARY])
    context.draft(Pace(depth=2, breadth=1, nodes=2))
    assert conversation.rows == len(PROMPT) + 7 + 2, "what was accepted is not read again"


def test_a_model_that_lost_it_costs_drafts_and_rereads(cache: ModelCache, sessions: Sessions, afresh: Afresh) -> None:
    context = DraftContext(cache, VOCABULARY)
    context.commit(PROMPT)
    expected = context.draft(PACE)
    sessions.drop("one")
    context.commit([4])
    with pytest.raises(ModelAway):
        context.draft(PACE)
    context.rewind(len(PROMPT))
    np.testing.assert_array_equal(context.draft(PACE).tokens, expected.tokens)
    first, *others = context.outcomes()
    assert context.prepare(first, PACE)
    sessions.drop("one")
    assert not any(context.prepare(other, PACE) for other in others), "while it drafts ahead"
    context.commit(first.tokens)
    assert context.ready is None
    same([part[0] for part in cache.run_tokens()], afresh(context.tokens))  # type: ignore[arg-type]


def test_no_token_is_proposed_that_the_other_model_lacks(conversation: Conversation) -> None:
    cache = ModelCache(WholeModel("a model", lambda: conversation), 20)
    cache.append([5, 9, 2])
    log_probs, ids = cache.run_tokens()
    assert ids.max() < 20 and np.isneginf(log_probs[0, 20:]).all()
