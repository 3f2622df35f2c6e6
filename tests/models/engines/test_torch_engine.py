from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from models.engines.engine import BrokenTarget, UnfitDrafter, UnverifiableTarget
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from tests.models.engines.conftest import accept, holding
from tests.remote.verifier.tiny import CONFIGS, generated, plain_logits, tiny_encoder, tiny_model, tree_around

PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]


@pytest.mark.parametrize("kind", CONFIGS)
def test_greedy_rounds_give_what_generate_gives(kind: str) -> None:
    """With drafts of every kind: test_conformance.py."""
    model, rng = tiny_model(kind), random.Random(1)
    expected = generated(model, PROMPT, 24)
    engine = TorchEngine(model, chunk=4)
    context = holding(engine, PROMPT)
    while (done := len(context.tokens) - len(PROMPT)) < 24:
        ahead = expected[done:][: rng.randrange(1, 6)]
        tree = tree_around(rng, ahead, 12)
        assert len(accept(context, tree, engine.verify(context, tree))) >= len(ahead)
    assert context.tokens[len(PROMPT) :][:24] == expected


def test_a_forward_that_fails_half_way_loses_nothing() -> None:
    engine = TorchEngine(tiny_model())
    context = holding(engine, PROMPT)
    accept(context, DraftTree.empty(), engine.verify(context, DraftTree.empty()))
    before = list(context.tokens)

    def fail(*_: object) -> None:
        raise MemoryError("no memory for this layer")

    hook = engine.model.model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(MemoryError):
        engine.verify(context, DraftTree.chain([1, 2, 3]))
    hook.remove()
    assert context.tokens == before
    logits = engine.verify(context, DraftTree.empty())
    np.testing.assert_allclose(logits[0], plain_logits(engine.model, before), atol=2e-4, rtol=2e-4)


def test_a_target_that_returns_nan_or_ignores_the_mask_and_a_drafter_of_another_are_refused() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.model.norm.weight[3] = float("nan")
    with pytest.raises(BrokenTarget, match="damaged"):
        TorchEngine(model)
    model = tiny_model()

    def unmasked(module: object, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return args, {**kwargs, "attention_mask": None}

    for layer in model.model.layers:
        layer.register_forward_pre_hook(unmasked, with_kwargs=True)
    with pytest.raises(UnverifiableTarget, match="differently"):
        TorchEngine(model)
    with pytest.raises(UnfitDrafter, match="1 x 8"):
        TorchEngine(tiny_model("llama-multi-query"), tiny_encoder())
