"""Training sees exactly what drafting will see: one pass under the mask equals the drafter run step by step."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from drafter.cache import DraftCache
from drafter.context import DraftContext
from drafter.model import StepModule, save_weights
from drafter.search import Pace
from drafter.step import Correction, Slab, Step, cache_shapes
from drafter.training.batches import AnsweredConversation, Batch, anchors, batches
from drafter.training.distil import Distiller, train
from drafter.training.recipe import Recipe
from drafter.training.target import Features, drafter_config, features
from models.config import ENCODER, FLOAT, DrafterConfig, write_config
from models.engines.torch_engine import TorchEngine
from models.memory import MemoryRow, dequantise, quantise_row, unpack_memory
from models.tree import DraftTree
from tests.remote.verifier.tiny import CONFIGS

pytestmark = pytest.mark.training

VOCABULARY = 61
EVERY_TOKEN = Pace(depth=1, breadth=VOCABULARY, nodes=VOCABULARY)
HASTY = Recipe(gaps=(2, 5), tail=0.2, blank=0.3)
"""Gaps that make short conversations meet every case."""


def tiny_target(seed: int = 0) -> LlamaForCausalLM:
    config = CONFIGS["llama"]()
    config.vocab_size, config.num_hidden_layers = VOCABULARY, 4
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        target = LlamaForCausalLM(config).eval().requires_grad_(False)
        widen(target, 0.25)
    return target


def tiny_distiller(target: LlamaForCausalLM, inference_layers: int, seed: int = 1, **shape: int) -> Distiller:
    """Untrained, with weights so wide that memory, cache rows and positions all move the result."""
    config = drafter_config(target, "tiny", inference_layers=inference_layers)
    config = msgspec.structs.replace(config, top=VOCABULARY, **{"layer_self_attention": True, **shape})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        distiller = Distiller(config, target).eval().requires_grad_(False)
        for part in (distiller.encoder, distiller.draft.self_attention, distiller.draft.cross_attention):
            widen(part, 0.25)
    return distiller


def widen(module: nn.Module, std: float) -> None:
    for weight in module.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=std)


def features_of(target: LlamaForCausalLM, batch: Batch, config: DrafterConfig) -> Features:
    """The target's features of a packed batch, as `train` asks for them."""
    index = torch.arange(batch.ids.shape[1])
    mask: Tensor = (batch.segments[:, :, None] == batch.segments[:, None, :])[:, None] & (index[:, None] >= index)
    return features(target, batch.ids, batch.positions, mask, config)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


class FloatStep:
    """The step graph that is exported, run by torch."""

    def __init__(self, distiller: Distiller) -> None:
        self.graph = StepModule(distiller.draft).requires_grad_(False)
        self.cache_shapes = cache_shapes(distiller.config)

    def slab(self, heads: int, size: int) -> Slab:
        return Slab(heads, size)

    def __call__(self, tokens, positions, mask, past, memory) -> Step:
        flat = [*memory, *(side for pair in past for side in pair)]
        arrays = (tokens, positions, mask.astype(np.float32), *flat, *Correction.none(self.graph.model.config))
        tensors = [torch.from_numpy(np.asarray(array)) for array in arrays]
        log_probs, ids, *rows, _ = (tensor.numpy() for tensor in self.graph(*tensors))
        return Step(log_probs, ids, list(zip(rows[::2], rows[1::2])))


def as_on_the_wire(pair):
    """Memory's keys and values (S, heads, size) after int8, as the device will see them."""
    keys, values = pair
    row = quantise_row(keys.numpy(), values.numpy())
    return tuple(
        torch.from_numpy(dequantise(*side)) for side in ((row.keys, row.key_scales), (row.values, row.value_scales))
    )


def pack(conversations: list[AnsweredConversation], rng: np.random.Generator, opening: int) -> Batch:
    """All conversations in one row, which ends with padding."""
    ids, positions, segments, start = [], [], [], []
    for number, sample in enumerate(conversations, 1):
        seen = anchors(len(sample.ids), sample.learn, opening, HASTY, rng) + len(ids)
        start += seen.tolist()
        ids += sample.ids
        positions += range(len(sample.ids))
        segments += [number] * len(sample.ids)
    arrays = [torch.tensor([[*column, 0, 0, 0]]) for column in (ids, positions, segments, start)]
    learn = arrays[2] > 0
    return Batch(arrays[0], arrays[1], arrays[2], learn, arrays[3], near=torch.zeros_like(arrays[0]))


OWN = {"exit_norm": False, "from_target": True}
"""Parts of a drafter's own, as in `drafter_config` for this target."""
SHAPES = [
    *((count, {}, seed) for seed, count in enumerate((0, 1, 2))),
    *((count, shape, 0) for count in (0, 1) for shape in ({"first_layers": 0}, {"first_layers": 2}, {"blocks": 2})),
    *((count, {own: not usual}, 0) for count in (0, 1) for own, usual in OWN.items()),
    (1, {"layer_self_attention": False}, 0),
]


@pytest.mark.parametrize(("inference_layers", "shape", "seed"), SHAPES)
def test_one_pass_equals_drafting_step_by_step(target, inference_layers, shape, seed):
    distiller = tiny_distiller(target, inference_layers, **shape)
    # Both sides get the same memory: that which crosses the wire.
    distiller.encoder.register_forward_hook(lambda _, inputs, rows: [as_on_the_wire(pair) for pair in rows])
    hidden = []
    distiller.draft.norm.register_forward_hook(lambda _, inputs, out: hidden.append(out))
    rng = np.random.default_rng(seed)
    one_turn = AnsweredConversation(rng.integers(VOCABULARY, size=16).tolist(), [(5, 16)])
    two_turns = AnsweredConversation(rng.integers(VOCABULARY, size=22).tolist(), [(4, 11), (14, 22)])
    batch = pack([one_turn, two_turns], rng, opening=2)
    seen = features_of(target, batch, distiller.config)
    distiller(batch, seen, HASTY)
    learnt = torch.log_softmax(distiller.draft.head(hidden[0][0]), dim=-1).numpy()

    memory = distiller.encoder(seen.keys_values[0], batch.positions[0])
    rows = [MemoryRow(*quantise_row(keys.numpy(), values.numpy())) for keys, values in memory]
    at = 0
    for sample in (one_turn, two_turns):
        context, known = DraftContext(DraftCache(FloatStep(distiller), distiller.config.memory_layers), VOCABULARY), 0
        for token, anchor in enumerate(batch.start[0, at : at + len(sample.ids)].tolist()):
            context.commit([sample.ids[token]])
            newest = anchor + 1 - at
            context.remember(known, [MemoryRow(*(part[at + known : at + newest] for part in row)) for row in rows])
            known = newest
            tree = context.draft(EVERY_TOKEN)
            drafted = np.zeros(VOCABULARY, np.float32)
            drafted[tree.tokens] = tree.log_probs
            np.testing.assert_allclose(drafted, learnt[at + token], atol=2e-4)
        at += len(sample.ids)


@st.composite
def conversations(draw) -> AnsweredConversation:
    """Questions of 2 .. 9 tokens, each with an answer of 1 .. 60."""
    ids, learn = 0, []
    for _ in range(draw(st.integers(1, 3))):
        begin = ids + draw(st.integers(2, 9))
        ids = begin + draw(st.integers(1, 60))
        learn.append((begin, ids))
    return AnsweredConversation(list(range(ids)), learn)


@given(st.lists(conversations(), min_size=1, max_size=5), st.integers(0, 2**31), st.integers(0, 4))
@settings(max_examples=20)
def test_batches_keep_conversations_apart_and_mark_what_predicts_an_answer(samples, seed, step):
    # Token ids tell of which conversation they are, and where.
    data = [
        AnsweredConversation(
            [1000 * number + token for token in sample.ids] + [999] * 200 * (number == 0), sample.learn
        )
        for number, sample in enumerate(samples)
    ]
    batch = next(batches(data, replace(HASTY, rows=3, seed=seed), step))
    assert batch.ids.shape == (3, HASTY.row)
    met = 0
    for row in range(3):
        numbers = batch.segments[row]
        used = int((numbers > 0).sum())
        assert (numbers[used:] == 0).all() and (numbers[:used].diff() >= 0).all()
        assert not batch.learn[row, used:].any()
        for number in range(1, int(numbers.max()) + 1):
            (index,) = torch.nonzero(numbers == number, as_tuple=True)
            ids = batch.ids[row, index].tolist()
            sample = data[ids[0] // 1000]
            assert ids == sample.ids[: HASTY.row]
            assert batch.positions[row, index].tolist() == list(range(len(ids)))
            answers = {token for begin, end in sample.learn for token in range(begin, end)}
            learnt = (torch.nonzero(batch.learn[row, index])[:, 0] + 1).tolist()
            assert learnt == sorted(token for token in answers if token <= len(ids))
            start = batch.start[row, index] - index[0]
            assert (start < torch.arange(len(ids))).all() and (start >= -1).all()
            met += 1
    assert met >= 3


@pytest.mark.parametrize(("inference_layers", "bits"), [(0, 8), (2, 4)])
def test_features_are_what_the_verifier_feeds_to_the_encoder(target, inference_layers, bits):
    distiller = tiny_distiller(target, inference_layers, memory_bits=bits)
    engine = TorchEngine(target, distiller.encoder)
    rng = np.random.default_rng(4)
    parts = [rng.integers(VOCABULARY, size=size).tolist() for size in (9, 13)]
    batch = pack([AnsweredConversation(part, [(4, len(part))]) for part in parts], rng, opening=2)
    seen = features_of(target, batch, distiller.config)
    memory = distiller.encoder(seen.keys_values[0], batch.positions[0])
    at = 0
    for part in parts:
        context = engine.context()
        context.assign(0, part)
        engine.verify(context, DraftTree.empty())
        count, layers = len(part), distiller.config.memory_layers
        wire = unpack_memory(engine.memory(context, 0, count), count, layers)
        assert len(wire) == len(memory) == 1 + inference_layers
        for row, (keys, values) in zip(wire, memory, strict=True):
            for numbers, scales, exact in ((*row[:2], keys), (*row[2:], values)):
                half = scales.astype(np.float32)[..., None] / 2
                away = np.abs(dequantise(numbers, scales) - exact[at : at + count].numpy())
                assert (away <= half * 1.001 + 1e-5).all()
        at += count


@pytest.fixture(scope="module")
def spoken(target) -> list[AnsweredConversation]:
    """What the target itself says, greedily, so that there is something to learn."""
    prompts = torch.randint(2, VOCABULARY, (12, 6), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        out = target.generate(
            prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=30, do_sample=False, eos_token_id=None
        )
    return [AnsweredConversation(row, [(6, 36)]) for row in out.tolist()]


def loss_of(distiller, target, data, recipe):
    batch = next(batches(data, recipe, 1000))
    with torch.no_grad():
        return distiller(batch, features_of(target, batch, distiller.config), recipe).total.item()


def test_training_learns_and_resumes_from_its_checkpoint(target, spoken, tmp_path):
    config = tiny_distiller(target, inference_layers=1).config
    recipe = Recipe(steps=0, rows=2, rate=1e-2, warmup=1, decay=0.0, local=0.0)
    untrained = train(config, target, spoken, tmp_path / "untrained", recipe)
    whole = train(config, target, spoken, tmp_path / "whole", replace(recipe, steps=8))
    before, after = (loss_of(model, target, spoken, recipe) for model in (untrained, whole))
    assert after < 0.9 * before

    broken_off = tmp_path / "broken off"
    train(config, target, spoken, broken_off, replace(recipe, steps=4))
    (broken_off / "checkpoint.partial").write_bytes(b"killed while it was being written")
    resumed = train(config, target, spoken, broken_off, replace(recipe, steps=8))
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], weight, msg=name)

    frozen = {**whole.draft.embedding.state_dict(), **whole.draft.head.state_dict()}
    borrowed = {**untrained.draft.embedding.state_dict(), **untrained.draft.head.state_dict()}
    assert all(torch.equal(frozen[name], borrowed[name]) for name in frozen)


def test_training_begins_with_an_older_drafter(target, spoken, tmp_path):
    config = tiny_distiller(target, inference_layers=1).config
    recipe = Recipe(steps=2, rows=1, rate=1e-2, warmup=1, decay=0.0)
    old = train(config, target, spoken, tmp_path / "old", recipe)
    folder = tmp_path / "artefact"
    folder.mkdir()
    save_weights(old.encoder, folder / ENCODER)
    save_weights(old.draft, folder / FLOAT)
    write_config(folder, config)
    learnt_on = tiny_target(seed=9)
    new = train(config, learnt_on, spoken, tmp_path / "new", replace(recipe, steps=0), init=folder)
    for before, after in ((old.draft, new.draft), (old.encoder, new.encoder)):
        own = {name for name, weight in after.named_parameters() if weight.requires_grad}
        for name in own:
            assert torch.equal(after.state_dict()[name], before.state_dict()[name].bfloat16().float()), name
    # What a drafter borrows comes from the target that it is trained for now.
    assert torch.equal(new.draft.head.weight, learnt_on.get_output_embeddings().weight)
