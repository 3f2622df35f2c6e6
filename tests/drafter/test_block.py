"""A block drafter sees in training what it sees in drafting, learns, and ranks its tree by its own chances."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.acceptance import measure, telling
from benchmarks.baseline_drafters.block import WEIGHT, BlockConfig, BlockModel, attend_in_blocks
from benchmarks.baseline_drafters.block_context import BlockContext, BlockDrafter
from benchmarks.baseline_drafters.block_train import train_block
from drafter.search import Pace
from drafter.training.answers import AnsweredConversation
from drafter.training.batches import Batch, batches
from drafter.training.recipe import Recipe
from drafter.training.target import drafter_config, features
from models.engines.torch_engine import TorchEngine
from models.memory import quantise_row
from remote.verifier.making.measure import rounds
from tests.drafter.distilling import VOCABULARY, tiny_target, widen

pytestmark = pytest.mark.training

BLOCK = 4
PROMPT, ANSWER = 6, 30
EVERY_TOKEN = Pace(depth=1, breadth=2, nodes=VOCABULARY)


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def config(target) -> BlockConfig:
    shapes = drafter_config(target, "tiny", first_layers=1, inference_layers=1)
    return BlockConfig(drafter=msgspec.structs.replace(shapes, memory=bytes(16).hex()), block=BLOCK, rank=5, anchors=3)


@pytest.fixture(scope="module")
def model(target, config) -> BlockModel:
    """Untrained, with weights so wide that memory, masks, rows and tokens all move the result."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = BlockModel(config).eval()
        for part in (model.encoder, model.layers, model.masks, model.markov):
            widen(part, 0.25)
        model.borrow(target)
        widen(model.layers, 0.25)
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def spoken(target) -> list[AnsweredConversation]:
    prompts = torch.randint(2, VOCABULARY, (12, PROMPT), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        out = target.generate(
            prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=ANSWER, do_sample=False, eos_token_id=None
        )
    return [AnsweredConversation(row, [(PROMPT, PROMPT + ANSWER)]) for row in out.tolist()]


def packed(parts: list[list[int]]) -> Batch:
    ids = [token for part in parts for token in part] + [0, 0]
    positions = [at for part in parts for at in range(len(part))] + [0, 0]
    segments = [number for number, part in enumerate(parts, 1) for _ in part] + [0, 0]
    arrays = [torch.tensor([column]) for column in (ids, positions, segments)]
    unused = torch.zeros_like(arrays[0])
    return Batch(*arrays, learn=arrays[2] > 0, start=unused, near=unused, source=unused)


def seen_of(target, model: BlockModel, batch: Batch):
    return features(target, batch.ids, batch.positions, batch.causal[:, None], model.config.drafter)


def conversation(model: BlockModel, target, tokens: list[int]) -> BlockContext:
    """Its memory is exact, as in training: nothing is rounded for the wire."""
    context = BlockContext(model)
    context.commit(tokens)
    batch = packed([tokens])
    rows = model.encoder(
        seen_of(target, model, batch).keys_values[0, : len(tokens) - 1], batch.positions[0, : len(tokens) - 1]
    )
    context._memory = [tuple(side.transpose(0, 1) for side in pair) for pair in rows]
    return context


# ---- training sees what drafting sees --------------------------------------------------------------------------------


def test_a_block_of_training_is_a_call_of_drafting(target, model):
    """The logits at each place are those of a conversation up to the block's first token, and of the true tokens."""
    rng = np.random.default_rng(0)
    parts = [rng.integers(VOCABULARY, size=size).tolist() for size in (9, 12)]
    batch = packed(parts)
    begins = torch.tensor([[2, 5, 9 + 3, 9 + 7]])
    places = begins[..., None] + torch.arange(BLOCK)
    logits = model.block_logits(batch, seen_of(target, model, batch), places)[0]
    for number, begin in enumerate(begins[0].tolist()):
        part, at = (parts[0], begin) if begin < 9 else (parts[1], begin - 9)
        context = conversation(model, target, part[: at + 1])
        expected = context._guess()
        expected[1:] += model.markov(torch.tensor(part[at + 1 : at + BLOCK]))
        torch.testing.assert_close(logits[number], expected, atol=2e-4, rtol=1e-3)


def test_attention_in_blocks_is_one_softmax_over_both_kinds_of_rows():
    random = torch.Generator().manual_seed(0)
    heads, kv_heads, size, count, length, width = 4, 2, 3, 6, 5, 8
    query = torch.randn(1, heads, count, width, generator=random)
    known = [torch.randn(1, kv_heads, length, width, generator=random) for _ in "kv"]
    own = tuple(torch.randn(1, kv_heads, count, width, generator=random) for _ in "kv")
    sees = torch.rand(count, length, generator=random) < 0.6
    mixed = attend_in_blocks(query, known, own, torch.where(sees, 0.0, -1e9)[None, None], size)
    for row, head in itertools.product(range(count), range(heads)):
        block = slice(row // size * size, row // size * size + size)
        keys, values = (
            torch.cat((known[side][0, head // 2][sees[row]], own[side][0, head // 2, block])) for side in (0, 1)
        )
        shares = torch.softmax(keys @ query[0, head, row] * width**-0.5, dim=0)
        torch.testing.assert_close(mixed[0, head, row], shares @ values)


def test_blocks_end_where_an_answer_does(model):
    """No row is learnt from that lies behind a gap, in another conversation or beyond the row."""
    batch = packed([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10]])
    batch.learn[0, 4] = False
    torch.manual_seed(0)
    seen = set()
    for _ in range(30):
        places, learnt = model.places(batch)
        for block, used in zip(places[0].tolist(), learnt[0].tolist()):
            seen.add((block[0], sum(used)))
            assert used == sorted(used, reverse=True)
    assert seen == {(1, 3), (2, 2), (3, 1), (5, 1), (7, 3), (8, 2), (9, 1)}


def test_deeper_rows_weigh_less(target, model, spoken):
    recipe = Recipe(rows=1, row=64)
    batch = next(batches(spoken, recipe))
    seen = seen_of(target, model, batch)
    torch.manual_seed(1)
    result = model.losses(batch, seen, recipe)
    torch.manual_seed(1)
    places, learnt = model.places(batch)
    guessed = torch.log_softmax(model.block_logits(batch, seen, places), dim=-1)
    wanted = torch.log_softmax(model.head(seen.last[0][places[0]]), dim=-1)[None]
    kl = (wanted.exp() * (wanted - guessed)).sum(-1)
    weight = WEIGHT ** torch.arange(BLOCK).float() * learnt
    torch.testing.assert_close(result.total, (kl * weight).sum() / weight.sum())
    assert result.divergence == pytest.approx(kl[learnt].mean().item(), rel=1e-4)


# ---- training --------------------------------------------------------------------------------------------------------


def test_training_learns_resumes_and_leaves_what_is_borrowed(target, config, spoken, tmp_path):
    recipe = Recipe(steps=0, rows=1, row=128, rate=1e-2, warmup=1, decay=0.0)
    fresh = train_block(config, target, spoken, tmp_path / "fresh", recipe)
    whole = train_block(config, target, spoken, tmp_path / "whole", replace(recipe, steps=30))

    def loss_of(trained: BlockModel) -> float:
        batch = next(batches(spoken, recipe, 1000))
        torch.manual_seed(0)
        return trained.losses(batch, seen_of(target, trained, batch), recipe).divergence

    assert loss_of(whole) < 0.9 * loss_of(fresh)
    train_block(config, target, spoken, tmp_path / "broken off", replace(recipe, steps=15))
    resumed = train_block(config, target, spoken, tmp_path / "broken off", replace(recipe, steps=30))
    frozen = {name for name, weight in whole.named_parameters() if not weight.requires_grad}
    frozen |= {name for name, _ in whole.named_buffers()}
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], weight, msg=name)
        assert torch.equal(weight, fresh.state_dict()[name]) == (name in frozen), name
    assert {name.split(".")[0] for name in frozen} == {"embedding", "first_layers", "norm", "head", "masks"}
    assert "masks.embedding.weight" not in frozen


def test_it_begins_as_layers_of_its_target(target, config):
    model = BlockModel(config)
    model.borrow(target)
    assert model.copied == (1, 2, 3)
    for own, number in zip([*model.first_layers, *model.layers], (0, 1, 2, 3), strict=True):
        for name, weight in target.model.layers[number].state_dict().items():
            assert torch.equal(own.state_dict()[name], weight)
    assert not model.markov(torch.arange(VOCABULARY)).any()


def test_a_drafter_without_first_layers_is_refused(target):
    with pytest.raises(ValueError, match="at least one"):
        BlockModel(BlockConfig(drafter=drafter_config(target, "tiny", first_layers=0, inference_layers=1)))


# ---- drafting --------------------------------------------------------------------------------------------------------


def best_paths(model: BlockModel, logits: torch.Tensor, depth: int, count: int) -> list[tuple[float, tuple[int, ...]]]:
    """All paths up to a depth by their chance, in full."""
    found: list[tuple[float, tuple[int, ...]]] = []
    level = [(0.0, ())]
    for at in range(depth):
        below = []
        for score, path in level:
            row = logits[at] + (model.markov(torch.tensor(path[-1])) if path else 0.0)
            chances = torch.log_softmax(row, dim=-1).tolist()
            below += [(score + chance, (*path, token)) for token, chance in enumerate(chances)]
        found += below
        level = below
    return sorted(found, reverse=True)[:count]


def test_a_tree_holds_the_likeliest_paths(target, model):
    """No frontier is cut: the tree is the best of all trees of its size."""
    tokens = np.random.default_rng(4).integers(VOCABULARY, size=8).tolist()
    context = conversation(model, target, tokens)
    tree = context.draft(Pace(depth=3, breadth=2, nodes=25))
    assert context.calls == 1
    best = best_paths(model, conversation(model, target, tokens)._guess(), 3, 25)
    drafted = {tuple(tree.tokens[tree.path(node)].tolist()) for node in range(len(tree))}
    assert drafted == {path for _, path in best}
    assert len({len(path) for path in drafted}) > 1, "the example has some depth"
    np.testing.assert_allclose(sorted(np.log(tree.acceptance)), sorted(score for score, _ in best), atol=1e-4)


def test_a_chain_takes_the_likeliest_token_after_each(target, model):
    tokens = np.random.default_rng(5).integers(VOCABULARY, size=8).tolist()
    tree = conversation(model, target, tokens).draft(Pace(depth=9, breadth=1, nodes=9))
    logits = conversation(model, target, tokens)._guess()
    said: list[int] = []
    for row in logits:
        row = row + (model.markov(torch.tensor(said[-1])) if said else 0.0)
        said.append(int(row.argmax()))
    assert tree.tokens.tolist() == said and len(said) == BLOCK


def test_rounds_leave_the_state_of_a_conversation_that_was_never_interrupted(target, model):
    """Rows of new tokens, memory that comes later, and tokens without memory: the next guess is the same."""
    tokens = np.random.default_rng(6).integers(VOCABULARY, size=11).tolist()
    rows = model.encoder(seen_of(target, model, packed([tokens])).keys_values[0, :10], torch.arange(10))
    rounded = [quantise_row(*(side.numpy() for side in pair)) for pair in rows]

    def part(first: int, last: int):
        return [type(row)(*(array[first:last] for array in row)) for row in rounded]

    context = BlockContext(model)
    context.commit(tokens[:4])
    context.draft(EVERY_TOKEN)
    context.remember(0, part(0, 3))
    context.draft(EVERY_TOKEN)
    context.commit(tokens[4:9])
    context.remember(3, part(3, 6))
    context.draft(EVERY_TOKEN)
    context.commit(tokens[9:])
    context.remember(6, part(6, 8))
    fresh = BlockContext(model)
    fresh.commit(tokens)
    fresh.remember(0, part(0, 8))
    torch.testing.assert_close(context._guess(), fresh._guess(), atol=1e-4, rtol=1e-3)
    for start, count in ((7, 2), (8, 4)):
        with pytest.raises(ValueError, match="memory of tokens"):
            fresh.remember(start, part(0, count))
    before = fresh._guess()
    fresh.remember(8, part(8, 10))
    near = fresh._guess()
    assert not torch.allclose(before, near), "newer memory says more"
    fresh.remember(10, part(0, 1))
    torch.testing.assert_close(fresh._guess(), near)  # The last token stands in the block, whatever is known of it.


def test_greedy_answers_are_the_targets_own(target, model):
    engine, drafter = TorchEngine(target, model.encoder), BlockDrafter(model)
    prompt, most = np.random.default_rng(1).integers(VOCABULARY, size=7).tolist(), 20
    with torch.no_grad():
        plain = target.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, 7, dtype=torch.long),
            max_new_tokens=most,
            do_sample=False,
            eos_token_id=None,
        )[0, 7:].tolist()
    draft, said = drafter.context(), []
    draft.commit(prompt)
    with telling(engine, drafter, draft) as tell:
        for context, tree, accepted, new in rounds(
            engine, prompt, lambda _: draft.draft(Pace(depth=3, breadth=3, nodes=12)), frozenset(), most
        ):
            draft.commit(new)
            tell(context, tree, accepted)
            said += new
            assert draft.remembered == context.computed == len(draft.tokens) - 1
    assert said == plain
    tally = measure(engine, drafter, [prompt], "block", most)
    assert [sum(gained) for gained in tally.gained] == [most - 1]


def test_nothing_is_drafted_after_nothing(model):
    with pytest.raises(ValueError, match="no token"):
        BlockContext(model).draft(EVERY_TOKEN)


def test_the_markov_head_is_optional(target, config):
    model = BlockModel(msgspec.structs.replace(config, rank=0))
    assert model.markov is None and isinstance(model.layers, nn.ModuleList)
    model.borrow(target)
    assert len(conversation(model.eval(), target, [3, 4, 5]).draft(Pace(depth=2, breadth=2, nodes=6))) == 6
