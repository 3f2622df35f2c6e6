from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, BloomConfig, DynamicCache

from models.engines.engine import BrokenTarget, Engine, TargetContext, UnfitDrafter, UnverifiableTarget
from models.engines.target import cache_argument
from models.engines.torch_engine import TorchEngine
from models.memory import Bits, quantise_row, unpack_memory
from models.tree import DraftTree
from tests.models.engines.conftest import accept, holding
from tests.remote.verifier.tiny import (
    CONFIGS,
    VOCABULARY,
    generated,
    plain_logits,
    random_tree,
    tiny_encoder,
    tiny_model,
    tree_around,
)

PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]


def greedy_round(engine: Engine, context: TargetContext, tree: DraftTree) -> int:
    """Verify and commit, and return how many nodes were accepted."""
    return len(accept(context, tree, engine.verify(context, tree)))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return TorchEngine(tiny_model(), tiny_encoder(), chunk=8)


@pytest.mark.parametrize("kind", CONFIGS)
def test_greedy_rounds_give_what_generate_gives(kind: str) -> None:
    model = tiny_model(kind)
    expected = generated(model, PROMPT, 24)
    engine = TorchEngine(model, chunk=4)
    for trees in ("none", "random", "perfect", "adversarial"):
        rng = random.Random(trees)
        context = holding(engine, PROMPT)
        rounds = 0
        while (done := len(context.tokens) - len(PROMPT)) < 24:
            ahead = expected[done:][: rng.randrange(1, 6)]
            tree = {
                "none": DraftTree.empty(),
                "random": random_tree(rng, 9),
                "perfect": tree_around(rng, ahead, 12),
                # Right up to the last token, which is wrong everywhere.
                "adversarial": DraftTree.chain([*ahead[:-1], (ahead[-1] + 1) % VOCABULARY, *ahead]),
            }[trees]
            accepted = greedy_round(engine, context, tree)
            if trees == "perfect":
                assert accepted >= len(ahead)
            rounds += 1
        assert context.tokens[len(PROMPT) :][:24] == expected, trees
        assert (rounds == 24) if trees == "none" else (rounds <= 24)


def test_tokens_that_are_sent_again_stay_computed(engine: Engine) -> None:
    context = holding(engine, PROMPT)
    engine.verify(context, DraftTree.empty())
    context.assign(4, PROMPT[4:] + [8])
    assert (context.computed, context.rewinds) == (len(PROMPT), 0)
    context.assign(4, [PROMPT[4], 0, 0])
    assert (context.computed, context.rewinds) == (5, 1)
    assert context.tokens == PROMPT[:5] + [0, 0]


def test_a_forward_that_fails_half_way_loses_nothing() -> None:
    engine = TorchEngine(tiny_model())
    context = holding(engine, PROMPT)
    greedy_round(engine, context, DraftTree.empty())
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


@pytest.mark.parametrize("bits", [4, 8])
def test_memory_is_the_encoders_view_of_the_targets_own_cache(
    engine: Engine, bits: Bits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.encoder, "config", msgspec.structs.replace(engine.encoder.config, memory_bits=bits))
    context = holding(engine, PROMPT)
    tree = DraftTree.chain([4, 5, 6])
    engine.verify(context, tree)
    context.commit(tree, [0, 1], 9)
    cache = DynamicCache()
    with torch.inference_mode():
        engine.model(input_ids=torch.tensor([context.tokens]), **cache_argument(engine.model, cache))
        heads = [
            torch.cat((layer.keys[0, head], layer.values[0, head]), -1) for layer in cache.layers for head in range(2)
        ]
        keys_values = torch.stack(heads, 1)[: context.computed].reshape(context.computed, 3, 32)
        expected = engine.encoder(keys_values, torch.arange(context.computed))
    rows = unpack_memory(engine.memory(context, 2, context.computed), context.computed - 2, engine.encoder.layers)
    assert len(rows) == 2
    for row, (keys, values) in zip(rows, expected):
        wanted = quantise_row(keys[2:].numpy(), values[2:].numpy(), bits)
        # Float noise may move a number across a rounding edge, by one step.
        assert np.abs(row.keys.astype(int) - wanted.keys).max() <= 1
        assert np.abs(row.values.astype(int) - wanted.values).max() <= 1
        np.testing.assert_allclose(row.key_scales, wanted.key_scales, rtol=2e-3)


def test_a_target_that_returns_nan_is_refused() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.model.norm.weight[3] = float("nan")
    with pytest.raises(BrokenTarget, match="damaged"):
        TorchEngine(model)


def test_a_target_without_positions_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(BloomConfig(vocab_size=32, hidden_size=16, n_layer=1, n_head=2))
    with pytest.raises(UnverifiableTarget, match="position_ids"):
        TorchEngine(model)


def test_a_target_that_ignores_the_mask_is_refused() -> None:
    model = tiny_model()
    for layer in model.model.layers:
        layer.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, "attention_mask": None}), with_kwargs=True
        )
    with pytest.raises(UnverifiableTarget, match="differently"):
        TorchEngine(model)


def test_a_drafter_of_another_target_is_refused() -> None:
    with pytest.raises(UnfitDrafter, match="1 x 8"):
        TorchEngine(tiny_model("llama-multi-query"), tiny_encoder())
