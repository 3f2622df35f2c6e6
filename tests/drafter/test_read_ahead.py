"""Reading ahead changes when the drafter works, and never what it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drafter.ahead import Halted
from drafter.search import Pace
from models.memory import MemoryRow
from tests.drafter.trees import same_tree

BUSH = Pace(depth=4, breadth=4, nodes=24)
LENGTH = 40

few = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def piece(rows: list[MemoryRow], start: int, end: int) -> list[MemoryRow]:
    return [MemoryRow(*(part[start:end] for part in row)) for row in rows]


events = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(1, 9)),
        st.tuples(st.just("remember"), st.integers(0, LENGTH), st.integers(1, 20)),
        st.tuples(st.just("read"), st.integers(1, 12), st.booleans()),
        st.tuples(st.just("rewind"), st.integers(1, 6)),
        st.tuples(st.just("draft")),
    ),
    min_size=3,
    max_size=14,
)


@few
@given(st.integers(0, 2**31), events)
def test_what_is_drafted_and_generated_is_the_same(tiny, seed, happens):
    tokens, memory = tiny.tokens(seed, LENGTH), tiny.memory(seed, LENGTH)
    reads, waits = tiny.context(tokens[:8]), tiny.context(tokens[:8])
    for event in [*happens, ("draft",)]:
        length = len(waits.tokens)
        if event[0] == "read":
            reads.read_ahead(event[1], known=event[2])
        elif event[0] == "draft":
            same_tree(reads.draft(BUSH), waits.draft(BUSH))
        else:
            for context in (reads, waits):
                if event[0] == "commit":
                    context.commit(tokens[length : length + event[1]])
                elif event[0] == "rewind":
                    context.rewind(max(2, length - event[1]))
                elif event[1] < length:
                    end = min(event[1] + event[2], length)
                    context.remember(event[1], piece(memory, event[1], end))
    written = [list(itertools.islice(context.generate(0.0, 0), 8)) for context in (reads, waits)]
    assert written[0] == written[1]


def test_it_reads_as_many_as_it_is_told_and_leaves_the_last_token(tiny):
    context = tiny.context(tiny.tokens(1, 20))
    assert context.read_ahead(12, known=False) and context.waiting == 8
    assert context.read_ahead(12, known=False) and context.waiting == 1
    assert not context.read_ahead(12, known=False) and context.waiting == 1


def test_only_tokens_with_memory_are_read_where_that_is_asked_for(tiny):
    context = tiny.context(tiny.tokens(1, 20), tiny.memory(1, 7))
    assert context.read_ahead(12, known=True) and context.waiting == 13
    assert not context.read_ahead(12, known=True)


def test_a_halted_draft_leaves_a_context_that_drafts_as_before(tiny):
    tokens, memory = tiny.tokens(3, 30), tiny.memory(3, 12)
    context, calls = tiny.context(tokens, memory), iter(range(100))
    with pytest.raises(Halted):
        context.draft(BUSH, halted=lambda: next(calls) >= 2)
    assert next(calls) == 3, "it was asked before each call, and made no other one"
    same_tree(context.draft(BUSH), tiny.context(tokens, memory).draft(BUSH))
    assert np.array_equal(context.tokens, tokens)
