"""What a context gives depends on its tokens and its memory, not on how they came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.cache import CHUNK, DraftCache
from drafter.context import DraftContext
from drafter.search import Pace
from drafter.step import StepGraph
from models.memory import MalformedMemory, MemoryRow
from models.tree import NEVER
from tests.drafter.trees import BUSH, few, same_tree, seeds

CHAIN = Pace(depth=6, breadth=1, nodes=6)


def piece(rows, start, end):
    return [MemoryRow(*(part[start:end] for part in row)) for row in rows]


class Watched:
    """A real step graph that notes how many tokens each call runs."""

    def __init__(self, step: StepGraph) -> None:
        self.step, self.cache_shapes, self.slab, self.calls = step, step.cache_shapes, step.slab, []

    def __call__(self, tokens, *rest):
        self.calls.append(len(tokens))
        return self.step(tokens, *rest)


def watched(tiny, tokens, memory=None):
    step = Watched(tiny.step)
    context = DraftContext(DraftCache(step, tiny.config.memory_layers), tiny.config.vocabulary)
    context.commit(tokens)
    if memory:
        context.remember(0, memory)
    return context, step.calls


@few
@given(seeds)
def test_a_verdict_within_the_expanded_tree_leaves_one_new_row(tiny, seed):
    context, calls = watched(tiny, tiny.tokens(seed, 12))
    tree = context.draft(CHAIN)
    assert calls == [12, 1, 1, 1, 1, 1]
    assert (context.taken[0], context.read) == (5, 12), "the call that read the prompt is none of the draft's"
    context.commit([*tree.tokens[:4].tolist(), 3])
    calls.clear()
    context.draft(BUSH)
    assert calls[0] == 1 and len(calls) == BUSH.depth and max(calls) <= BUSH.breadth
    levels, seconds = context.taken
    assert (levels, context.read) == (len(calls), 0) and seconds > 0


@pytest.mark.parametrize(("other", "same"), [([1, 2, 3, 4], 3), ([1, 2], 2), ([1, 9, 3], 1), ([], 0)])
def test_following_equals_beginning_anew(tiny, other, same):
    context = tiny.context([1, 2, 3])
    assert context.follow(other) == same and context.tokens == other
    if other:
        same_tree(context.draft(BUSH), tiny.context(other).draft(BUSH))


@pytest.mark.parametrize(
    ("order", "lengths"),
    [([(0, 4), (4, 9), (9, 11)], [4, 9, 11]), ([(9, 11), (0, 4), (3, 9)], [0, 4, 11])],
    ids=["in order", "gaps and overlaps"],
)
def test_memory_in_any_order_equals_all_at_once(tiny, order, lengths):
    tokens, memory = tiny.tokens(3, 12), tiny.memory(3, 11)
    context = tiny.context(tokens)
    if order[0][0]:
        context.draft(CHAIN)  # Memory replaces rows that the drafter has guessed by then.
    for (start, end), length in zip(order, lengths):
        context.remember(start, piece(memory, start, end))
        assert context.memory_length == length, "up to the first gap"
    same_tree(context.draft(BUSH), tiny.context(tokens, memory).draft(BUSH))


@few
@given(seeds, st.integers(1, 8), st.integers(2, 4))
def test_rewinding_equals_never_having_gone_on(tiny, seed, length, more):
    tokens, memory = tiny.tokens(seed, 12), tiny.memory(seed, 12)
    context = tiny.context(tokens, memory)
    context.draft(BUSH)
    context.rewind(length)
    assert context.memory_length == length
    other = tiny.tokens(seed + 1, more)
    context.commit(other)
    same_tree(context.draft(BUSH), tiny.context(tokens[:length] + other, piece(memory, 0, length)).draft(BUSH))


def test_a_long_prompt_runs_in_chunks(tiny):
    tokens = tiny.tokens(0, 2 * CHUNK + 7)
    context, calls = watched(tiny, tokens)
    log_probs, ids = context._run_tokens()
    assert calls == [CHUNK, CHUNK, 7]
    count = len(tokens)
    empty = [(np.zeros((heads, 0, size), np.float32),) * 2 for heads, size in tiny.step.cache_shapes]
    mask = np.triu(np.full((count, count), NEVER), k=1)
    whole = tiny.step(np.array(tokens), np.arange(count), mask, empty, empty[0])
    np.testing.assert_allclose(log_probs[0], whole.log_probs[-1], atol=2e-4)


def test_what_makes_no_sense_is_refused_and_changes_nothing(tiny):
    context, memory = tiny.context(tiny.tokens(0, 5)), tiny.memory(0, 6)
    with pytest.raises(MalformedMemory, match="tokens 0 to 6 of 5"):
        context.remember(0, memory)
    with pytest.raises(MalformedMemory, match="tokens -1"):
        context.remember(-1, piece(memory, 0, 3))
    with pytest.raises(MalformedMemory, match="0 rows"):
        context.remember(0, [])
    with pytest.raises(MalformedMemory, match="shape"):
        context.remember(0, [MemoryRow(*(part[:, :1] for part in row)) for row in piece(memory, 0, 3)])
    with pytest.raises(ValueError, match="vocabulary of 61"):
        context.commit([3, 61])
    with pytest.raises(ValueError, match="cannot rewind 5"):
        context.rewind(6)
    with pytest.raises(ValueError, match="nothing to continue"):
        tiny.context().draft(CHAIN)
    assert context.tokens == tiny.tokens(0, 5) and context.memory_length == 0
