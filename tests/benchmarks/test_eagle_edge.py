"""EAGLE over our wire drafts as it does beside the target, in whatever order its features come."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from benchmarks.baseline_drafters import FeatureTap, baseline_config, build
from benchmarks.eagle_edge import FeatureDrafter, FeatureEngine
from drafter.calibration import Calibration
from drafter.search import Pace
from models.memory import memory_bytes, unpack_memory
from models.tree import DraftTree
from remote.verifier.making.measure import rounds

MOST = 24
PACE = Pace(depth=4, breadth=4, nodes=16)


@pytest.fixture(scope="module")
def eagle(engine):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build(baseline_config(engine.model, "tiny", "eagle2")).eval()
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.2)
        model.borrow(engine.model)
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def serving(engine, eagle) -> FeatureEngine:
    return FeatureEngine(engine.model, eagle)


def frames(serving, context, start, size=8):
    """Memory of the tokens from `start` on, newest first, as a verifier sends it."""
    layers = serving.encoder.layers
    for end in range(context.computed, start, -size):
        first = max(start, end - size)
        data = serving.memory(context, first, end)
        assert len(data) == memory_bytes(end - first, layers)
        yield first, unpack_memory(data, end - first, layers)


def conversation(serving, eagle, text, prompt, take):
    """The trees of an answer drafted from what `take` makes of each round's frames."""
    draft = FeatureDrafter(eagle, text).context()
    draft.follow(prompt)
    trees, known = [], 0

    def propose(tokens):
        draft.follow(tokens)
        trees.append(draft.draft(PACE, None, Calibration()))
        return trees[-1]

    for each in rounds(serving, prompt, propose, frozenset(), MOST, opening=True):
        draft.follow(each.context.tokens)
        known = take(draft, each.context, known)
    return draft, trees


def whole(serving):
    def take(draft, context, known):
        for start, rows in frames(serving, context, known):
            draft.remember(start, rows)
        assert draft.memory_length == context.computed
        return context.computed

    return take


def same(trees, others) -> bool:
    return all(
        np.array_equal(one.tokens, other.tokens) and np.array_equal(one.parents, other.parents)
        for one, other in itertools.zip_longest(trees, others)
    )


def test_it_drafts_what_the_baseline_drafts_beside_the_target(engine, serving, eagle, drafter, prompts):
    _, trees = conversation(serving, eagle, drafter.text, prompts[0], whole(serving))
    form, beside, expected = serving.encoder, eagle.context(), []
    beside.commit(prompts[0])

    def propose(_):
        expected.append(beside.draft(PACE))
        return expected[-1]

    with FeatureTap(engine.model, eagle.config.features) as tap:
        for each in rounds(engine, prompts[0], propose, frozenset(), MOST, opening=True):
            beside.commit(each.new)
            features = tap.take(len(each.tree), each.accepted)
            packed = unpack_memory(form.pack(features), len(features), form.layers)
            beside.remember(beside.remembered, form.numbers(*packed))
            np.testing.assert_allclose(form.numbers(*packed), features, atol=features.abs().max() / 200)
    assert same(trees, expected)


def test_features_that_come_late_put_right_what_stood_in_for_them(serving, eagle, drafter, prompts):
    """All but the last of the prompt's features come when the answer is there."""
    waiting = []

    def take(draft, context, known):
        newest, *older = frames(serving, context, known, size=1)
        draft.remember(*newest)
        waiting.extend(older)
        return context.computed

    late, trees = conversation(serving, eagle, drafter.text, prompts[0], take)
    assert late.memory_length == 0 and len(waiting) >= len(prompts[0]) - 1
    late.draft(PACE)
    for start, rows in waiting:
        late.remember(start, rows)
    prompt, others = conversation(serving, eagle, drafter.text, prompts[0], whole(serving))
    assert prompt.tokens == late.tokens and not same(trees, others)
    np.testing.assert_allclose(late.draft(PACE).log_probs, prompt.draft(PACE).log_probs, atol=1e-4)


def test_a_conversation_that_goes_on_differently_forgets_what_it_has_to(serving, eagle, drafter, prompts):
    draft, _ = conversation(serving, eagle, drafter.text, prompts[0], whole(serving))
    other, _ = conversation(serving, eagle, drafter.text, prompts[0], whole(serving))
    tokens = draft.tokens[: len(prompts[0]) + 5]
    assert draft.follow(tokens) == len(tokens) == draft.memory_length
    assert draft.follow(other.tokens) == len(tokens)
    context = serving.context()
    context.assign(0, other.tokens)
    serving.verify(context, DraftTree.empty())
    for start, rows in frames(serving, context, len(tokens), size=1):
        if start < other.memory_length:  # The root has no feature yet.
            draft.remember(start, rows)
    np.testing.assert_allclose(draft.draft(PACE).log_probs, other.draft(PACE).log_probs, atol=1e-4)


def test_costs_are_told_of_rounds_and_not_of_prompts(serving, eagle, drafter, prompts):
    draft = FeatureDrafter(eagle, drafter.text).context()
    draft.follow(prompts[0] * 3)
    context = serving.context()
    context.assign(0, draft.tokens)
    serving.verify(context, DraftTree.empty())
    whole(serving)(draft, context, 0)
    draft.draft(PACE)
    assert draft.taken is None
    draft.follow([*draft.tokens, 7, 8])
    draft.draft(PACE)
    levels, seconds = draft.taken
    assert levels == 2 + PACE.depth - 1 and seconds > 0


def test_alone_it_writes_what_it_finds_likeliest(eagle, drafter, prompts):
    draft = FeatureDrafter(eagle, drafter.text).context()
    draft.follow(prompts[0])
    chain = draft.draft(Pace(depth=4, breadth=1, nodes=4)).tokens.tolist()
    written = [token for tokens in itertools.islice(draft.generate(0.0, 0), 4) for token in tokens]
    assert written == chain and draft.tokens == prompts[0] + chain
