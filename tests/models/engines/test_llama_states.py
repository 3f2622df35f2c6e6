"""Models with states on llama.cpp: they are taken over as a whole, never cut, and a rejected node costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from models.engines.engine import Forward
from models.engines.llama_engine import STATE_TOKENS, LlamaEngine
from models.engines.llama_lane import STATES, LlamaContext
from models.tree import DraftTree
from tests.models.engines.conftest import LLAMA_CPP_TREELESS, Bench, llama_bench
from tests.remote.verifier.tiny import plain_logits

EMPTY = DraftTree.empty()
PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]


@pytest.fixture(params=LLAMA_CPP_TREELESS)
def llama(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = llama_bench(request.param, tmp_path)
    yield bench
    assert isinstance(bench.engine, LlamaEngine)
    bench.engine.close()


def begun(bench: Bench, tokens: list[int] = PROMPT) -> LlamaContext:
    """A conversation whose tokens are all computed, and one more that is not."""
    context = bench.engine.context()
    assert isinstance(context, LlamaContext)
    context.assign(0, tokens)
    bench.engine.verify(context, EMPTY)
    context.commit(EMPTY, [], 8)
    return context


def right(bench: Bench, context: LlamaContext) -> None:
    bench.close(bench.engine.verify(context, EMPTY)[0], plain_logits(bench.model, context.tokens))


def test_it_is_served_without_drafts_and_says_why(llama: Bench) -> None:
    assert not llama.engine.takes_drafts and llama.engine.most_nodes == 1 and llama.engine.encoder is None
    assert llama.engine.description.endswith(", without drafts, because its state cannot be taken back")


@pytest.mark.parametrize("accepted", [[0], []])
def test_a_node_that_is_tried_leaves_the_state_as_it_was(llama: Bench, accepted: list[int]) -> None:
    context = begun(llama)
    for token in (4, 17, 22):
        chain = DraftTree.chain([token])
        logits = llama.engine.verify(context, chain)
        llama.close(logits[0], plain_logits(llama.model, context.tokens))
        llama.close(logits[1], plain_logits(llama.model, [*context.tokens, token]))
        context.commit(chain, accepted, 6)
        assert context.computed == len(context.tokens) - 1 and context.rewinds == 0, "nothing is computed again"
    right(llama, context)


def test_a_state_is_taken_over_as_a_whole_and_copied(llama: Bench) -> None:
    first = begun(llama)
    others = []
    for end, count in (([4, 8], len(PROMPT)), ([6], len(PROMPT)), ([1, 1], 5)):
        context = llama.engine.context()
        context.assign(0, [*PROMPT[:count], *end])
        context.adopt(first, count)
        assert context.computed == (count if count == len(PROMPT) else 0), "a part of a state is no state"
        others.append(context)
    for context in (*others, first):
        right(llama, context)


def test_a_conversation_that_changes_is_computed_again(llama: Bench) -> None:
    context = begun(llama)
    context.assign(4, [1, 2, 3])
    assert context.computed == 0 and context.rewinds
    right(llama, context)
    context.park()
    context.commit(EMPTY, [], 9)
    assert context.computed == len(context.tokens) - 1
    right(llama, context)
    context.park()
    context.assign(2, [9])
    assert context.computed == 0
    right(llama, context)


def test_more_conversations_than_a_lane_has_states_are_answered(llama: Bench) -> None:
    contexts = [begun(llama, [number + 1, *PROMPT]) for number in range(STATES + 3)]
    chain = DraftTree.chain([12])
    for _ in range(2):
        asked = [Forward(context, len(context.tokens) - context.computed, chain) for context in contexts]
        for context, logits in zip(contexts, llama.engine.forward(asked)):
            assert isinstance(logits, np.ndarray)
            llama.close(logits[1], plain_logits(llama.model, [*context.tokens, 12]))
            context.commit(chain, [0], 7)
    assert len({context.lane for context in contexts}) > 1
    for context in contexts:
        right(llama, context)
        context.release()


def test_a_state_is_counted_as_some_tokens(llama: Bench) -> None:
    context = begun(llama, PROMPT * 20)
    held, rows = len(context.rows(0, context.computed)), llama.engine.bytes_per_token
    assert rows * context.computed + STATE_TOKENS > held / 2 and held > rows * STATE_TOKENS / 2
