"""A draft made ahead is the one that would be made then, and leaves no trace if something else comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter.ahead import Halted
from drafter.multicandidate import DraftSampling
from drafter.ngram import NGramIndex
from drafter.search import Pace
from drafter.second_stage import SecondStage
from models.tree import ROOT
from tests.drafter.test_context import piece, watched
from tests.drafter.trees import BUSH, few, same_tree, seeds, write_alone

NEXT = Pace(depth=3, breadth=3, nodes=12)


def prepared(context, most=3, final=()):
    """The outcomes that were drafted for: the likeliest ones of the last draft."""
    outcomes = context.outcomes(None, final)[:most]
    assert outcomes and all(context.prepare(outcome, NEXT) for outcome in outcomes)
    return outcomes


@few
@given(seeds, st.integers(0, 10), st.integers(0, 2), st.data())
def test_an_adopted_draft_and_all_after_it_equal_a_fresh_context_s(tiny, seed, known, rank, data):
    tokens, memory = tiny.tokens(seed, 12), tiny.memory(seed, known)
    context = tiny.context(tokens, memory)
    context.draft(BUSH)
    outcomes = prepared(context)
    came = outcomes[min(rank, len(outcomes) - 1)].tokens
    context.commit(came)
    fresh = tiny.context([*tokens, *came], memory)
    assert context.ready is not None
    tree = context.adopt()
    same_tree(tree, fresh.draft(NEXT))
    # Its rows are where the next verdict looks for them, and what is drafted ahead of that is right again.
    node = data.draw(st.integers(ROOT, len(tree) - 1))
    again = prepared(context)
    more = data.draw(st.sampled_from([again[0].tokens, (*(int(tree.tokens[at]) for at in tree.path(node)), 7)]))
    context.commit(more)
    fresh.commit(more)
    same_tree(context.adopt() if context.ready is not None else context.draft(NEXT), fresh.draft(NEXT))
    assert context.tokens == fresh.tokens == [*tokens, *came, *more]


@few
@given(seeds, st.integers(0, 24), st.integers(0, 60))
def test_what_did_not_come_leaves_no_trace(tiny, seed, node, calls_allowed):
    tokens, memory = tiny.tokens(seed, 12), tiny.memory(seed, 9)
    context = tiny.context(tokens, memory)
    tree = context.draft(BUSH)
    taken, left = context.taken, iter(range(calls_allowed))
    for outcome in context.outcomes():
        if not context.prepare(outcome, NEXT, halted=lambda: next(left, None) is None):
            break
    assert context.tokens == tokens and context.taken == taken
    accepted = [int(tree.tokens[at]) for at in tree.path(node - 1)]
    came = [*accepted, 7, 9]  # No verdict has two tokens that were not drafted, so it cannot have been prepared.
    context.commit(came)
    assert context.ready is None
    with pytest.raises(ValueError, match="no draft was prepared"):
        context.adopt()
    same_tree(context.draft(BUSH), tiny.context([*tokens, *came], memory).draft(BUSH))


@few
@given(seeds)
def test_memory_that_comes_in_between_counts_for_what_is_drafted_later(tiny, seed):
    tokens, memory = tiny.tokens(seed, 12), tiny.memory(seed, 14)
    context = tiny.context(tokens, piece(memory, 0, 6))
    context.draft(BUSH)
    first, *_ = prepared(context)
    context.remember(6, piece(memory, 6, 11))
    assert context.prepare(first, NEXT), "memory does not change what is in flight"
    context.commit(first.tokens)
    count = len(context.tokens) - 1
    context.remember(11, piece(memory, 11, min(count, 14)))
    assert context.ready is not None
    same_tree(context.draft(BUSH), tiny.context(context.tokens, piece(memory, 0, min(count, 14))).draft(BUSH))
    assert context.ready is None


def test_late_outcomes_are_dropped(tiny):
    context = tiny.context(tiny.tokens(0, 12))
    tree = context.draft(BUSH)
    first, *_ = prepared(context)
    context.commit([int(tree.tokens[0])])
    assert not context.prepare(first, NEXT) and context.ready is None
    context.draft(BUSH)
    assert not context.prepare(first, NEXT)
    second, *_ = prepared(context)
    context.draft(BUSH)  # It has the same tokens, but the rows of its nodes differ.
    context.commit(second.tokens)
    assert context.ready is None
    context.rewind(12)
    assert context.outcomes() == []
    context.draft(BUSH)
    second, *_ = prepared(context)
    context.commit(second.tokens)
    assert context.ready is not None
    context.rewind(len(context.tokens) - 1)
    assert context.ready is None


def test_a_halt_comes_after_one_call_at_most(tiny):
    tokens, memory = tiny.tokens(0, 12), tiny.memory(0, 12)
    context, calls = watched(tiny, tokens, memory)
    with pytest.raises(Halted):
        context.draft(BUSH, halted=lambda: len(calls) >= 2)
    assert len(calls) == 2
    same_tree(context.draft(BUSH), tiny.context(tokens, memory).draft(BUSH))
    outcome, *_ = context.outcomes()
    for allowed in range(4):
        calls.clear()
        assert context.prepare(outcome, NEXT, halted=lambda: len(calls) >= allowed) == (allowed == 3)  # noqa: B023
        assert len(calls) == allowed


def test_nothing_follows_a_final_token(tiny):
    context = tiny.context(tiny.tokens(0, 12))
    tree = context.draft(BUSH)
    everything = {token for outcome in context.outcomes() for token in outcome.tokens}
    final = {context.outcomes()[0].tokens[-1]}
    assert not any(final & set(outcome.tokens) for outcome in context.outcomes(None, final))
    assert context.outcomes(None, everything | set(tree.tokens.tolist()) | set(range(61))) == []
    context.draft(BUSH, DraftSampling(1.0, seed=3))
    assert context.outcomes() == [], "a sampled draft has none"


def test_guesses_of_a_second_stage_follow_what_is_supposed(tiny):
    tokens = tiny.tokens(0, 8) * 3
    stage, plain = SecondStage([NGramIndex()]), SecondStage([NGramIndex()])
    context, fresh = tiny.context(tokens, None, stage), tiny.context(tokens, None, plain)
    pace = Pace(depth=4, breadth=4, nodes=24, deepest=8)
    same_tree(context.draft(pace), fresh.draft(pace))
    chain = stage.chain
    assert chain.tokens == plain.chain.tokens != []
    outcomes = context.outcomes()
    for outcome in outcomes:
        assert context.prepare(outcome, pace)
    assert stage.chain == chain
    came = outcomes[-1].tokens
    context.commit(came)
    fresh.commit(came)
    same_tree(context.adopt(), fresh.draft(pace))
    assert stage.chain == plain.chain and stage.accepted == plain.accepted
    assert stage.guess() == plain.guess()


# ---- reading ahead ---------------------------------------------------------------------------------------------------


LENGTH = 40

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
@given(seeds, events)
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
    assert write_alone(reads, 8) == write_alone(waits, 8)
