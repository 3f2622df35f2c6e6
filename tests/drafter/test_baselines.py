"""Baselines are what their papers say, and see the same in training and in drafting."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from benchmarks.acceptance import agreement_by_staleness, measure, rounds, telling
from benchmarks.baseline_drafters import (
    METHODS,
    Baseline,
    BaselineConfig,
    BaselineRecipe,
    FeatureTap,
    Method,
    baseline_config,
    build,
    equal_config,
    load_baseline,
    save_baseline,
    train_baseline,
)
from benchmarks.baseline_drafters.artefact import ForeignTarget
from benchmarks.baseline_drafters.eagle3 import attend_unrolled, near_learnt
from benchmarks.baseline_drafters.shapes import (
    features_of,
    moa_parameters,
    moa_step_parameters,
    own_parameters,
    step_parameters,
)
from benchmarks.baseline_drafters.train import teach
from drafter.search import Pace
from drafter.training.answers import AnsweredConversation
from drafter.training.batches import Batch, batches
from drafter.training.loop import trained_parameters
from drafter.training.target import UnsupportedTarget, drafter_config, hidden_states
from drafter.training.teacher import Teacher
from models.config import CONFIG, FLOAT, DrafterCorrupt, DrafterMissing
from models.engines.engine import Engine
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from tests.drafter.distilling import VOCABULARY, tiny_target, widen

pytestmark = pytest.mark.training

EVERY_TOKEN = Pace(depth=1, breadth=VOCABULARY, nodes=VOCABULARY)
STILL = BaselineRecipe(noise=0.0, unroll=4)
"""Without noise, so that training and drafting can be compared."""
PROMPT, ANSWER = 6, 30


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def engine(target) -> Engine:
    return TorchEngine(target)


@pytest.fixture(scope="module")
def spoken(target) -> list[AnsweredConversation]:
    """What the target itself says, greedily, so that there is something to learn."""
    prompts = torch.randint(2, VOCABULARY, (12, PROMPT), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        out = target.generate(
            prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=ANSWER, do_sample=False, eos_token_id=None
        )
    return [AnsweredConversation(row, [(PROMPT, PROMPT + ANSWER)]) for row in out.tolist()]


def untrained(target, method, seed: int = 1, **changes) -> Baseline:
    """An untrained baseline. Its weights are wide, so that features, cache rows and positions all change the result."""
    return widened(target, msgspec.structs.replace(baseline_config(target, "tiny", method), **changes), seed)


def widened(target, config: BaselineConfig, seed: int = 1) -> Baseline:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build(config).eval()
        widen(model, 0.25)
        model.borrow(target)
        if model.config.copied and model.config.features:
            nn.init.normal_(model.fuse.weight, std=0.25)
            nn.init.uniform_(model.spread, 0.5, 2.0)
    return model.requires_grad_(False)


MOA = {"first_layers": 1, "inference_layers": 1}
EQUAL: dict[str, tuple[Method, tuple[int, ...], int]] = {
    "eagle2, copied": ("eagle2", (0, 1, 3), 0),
    "eagle2, copied, F = 1": ("eagle2", (1, 3), 1),
    "eagle3, copied": ("eagle3", (2, 3), 0),
    "eagle3, copied, F = 1": ("eagle3", (3,), 1),
    "layer-skip": ("layer-skip", (0, 1, 2, 3), 0),
}
"""Baselines on MoA's terms: the layers that they begin as, and F."""


def on_equal_terms(target, name: str, **changes) -> BaselineConfig:
    method, copied, first = EQUAL[name]
    moa = msgspec.structs.replace(drafter_config(target, "tiny", **MOA), memory_bits=4)
    return msgspec.structs.replace(equal_config(target, moa, method, copied, first), **changes)


@pytest.fixture(scope="module", params=[*METHODS, *EQUAL])
def baseline(request, target) -> Baseline:
    if request.param in METHODS:
        return untrained(target, request.param)
    return widened(target, on_equal_terms(target, request.param))


def packed(parts: list[list[int]]) -> Batch:
    """All conversations in one row, with padding at the end. Everything that a token predicts is learnt."""
    ids = [token for part in parts for token in part] + [0, 0]
    positions = [at for part in parts for at in range(len(part))] + [0, 0]
    segments = [number for number, part in enumerate(parts, 1) for _ in part] + [0, 0]
    arrays = [torch.tensor([column]) for column in (ids, positions, segments)]
    unused = torch.zeros_like(arrays[0])
    return Batch(*arrays, learn=arrays[2] > 0, start=unused, near=unused, source=unused)


def log_probs(tree: DraftTree) -> np.ndarray:
    """The log-probability of each token as the next one, from a tree of all of them."""
    drafted = np.zeros(VOCABULARY, np.float32)
    drafted[tree.tokens] = tree.log_probs
    return drafted


# ---- training sees what drafting sees --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_one_pass_equals_drafting_step_by_step(target, baseline, seed):
    """A row of unrolled step s is what a conversation drafts whose last s tokens have no features."""
    rng = np.random.default_rng(seed)
    parts = [rng.integers(VOCABULARY, size=size).tolist() for size in (9, 12)]
    batch = packed(parts)
    features, wanted = teach(Teacher(target), target.lm_head, batch, baseline.config.taught)
    seen: list[torch.Tensor] = []
    # Every step asks for the logits of all rows that have a root, in order.
    hook = baseline.head.register_forward_hook(lambda _, inputs, out: seen.append(torch.log_softmax(out, dim=-1)))
    baseline.losses(batch, features, wanted, STILL)
    hook.remove()
    assert len(seen) == (STILL.unroll if baseline.config.method == "eagle3" else 1)

    encoded = baseline.encode(baseline.taught(batch, features)[0][0])
    for step, learnt in enumerate(seen):
        row, at = 0, 0
        for part in parts:
            for token in range(step, len(part)):
                context = baseline.context()
                context.commit(part[: token + 1])
                if baseline.config.features:
                    context.remember(0, encoded[at : at + token - step])
                np.testing.assert_allclose(log_probs(context.draft(EVERY_TOKEN)), learnt[row].numpy(), atol=2e-4)
                row += 1
            at += len(part)
        assert row == len(learnt)


@pytest.mark.parametrize("name", ["eagle3", "eagle3, copied, F = 1"])
def test_rows_that_nobody_learns_from_are_left_out_without_a_trace(target, name):
    """Losses, figures and gradients are those of answers among whole conversations, of which all rows run."""
    config = on_equal_terms(target, name) if name in EQUAL else baseline_config(target, "tiny", name)
    model = widened(target, config)
    model.fuse.requires_grad_(True)
    rng = np.random.default_rng(8)
    parts = [rng.integers(VOCABULARY, size=size).tolist() for size in (23, 30, 2)]
    batch = packed(parts)
    batch.learn &= torch.from_numpy(np.isin(np.arange(57), [1, 2, 15, 16, 35, 36, 37, 51, 54]))
    features, wanted = teach(Teacher(target), target.lm_head, batch, config.taught)
    short = model.losses(batch, features, wanted, STILL)
    short.total.backward()
    gradient = model.fuse.weight.grad
    model.fuse.weight.grad = None
    with pytest.MonkeyPatch.context() as patched:
        whole = torch.arange(57)[None], torch.ones(1, 57, dtype=torch.bool)
        patched.setattr("benchmarks.baseline_drafters.eagle3.near_learnt", lambda *_: whole)
        full = model.losses(batch, features, wanted, STILL)
    full.total.backward()
    torch.testing.assert_close(short.total, full.total)
    torch.testing.assert_close(gradient, model.fuse.weight.grad, atol=1e-4, rtol=1e-3)
    assert short.agreement == full.agreement and short.divergence == pytest.approx(full.divergence)


def test_what_rows_that_are_learnt_from_depend_on():
    learn = torch.zeros(2, 12, dtype=torch.bool)
    learn[0, [1, 7]] = True
    learn[1, 11] = True
    kept, real = near_learnt(learn, 3)
    assert [row[which].tolist() for row, which in zip(kept, real)] == [[0, 1, 5, 6, 7], [9, 10, 11]]
    assert kept.shape == (2, 5)


def test_unrolled_attention_sees_the_root_and_its_own_rows():
    """Compared with a plain version: one softmax per row over exactly the rows that drafting would have cached."""
    random = torch.Generator().manual_seed(0)
    count, heads, kv_heads, size, last = 9, 4, 2, 8, 3
    query = torch.randn(1, heads, count, size, generator=random)
    known = [tuple(torch.randn(1, kv_heads, count, size, generator=random) for _ in "kv") for _ in range(last + 1)]
    index = torch.arange(count)
    mask = torch.where(index[:, None] - index >= last, 0.0, -1e9)[None, None]
    mixed = attend_unrolled(query, known, mask)
    for row in range(last, count):
        for head in range(heads):
            pairs = [(0, key) for key in range(row - last + 1)] + [(m, row - last + m) for m in range(1, last + 1)]
            keys, values = (
                torch.stack([known[m][side][0, head // (heads // kv_heads), at] for m, at in pairs]) for side in (0, 1)
            )
            shares = torch.softmax(keys @ query[0, head, row] * size**-0.5, dim=0)
            torch.testing.assert_close(mixed[0, head, row], shares @ values)


def test_features_in_rounds_are_those_of_training(target, engine):
    """What the tap takes of a verifier's forwards, trees and chunks included, is what `hidden_states` gives."""
    layers = (1, 2, 4)
    ids = np.random.default_rng(2).integers(VOCABULARY, size=14).tolist()
    tensor = torch.tensor([ids])
    mask = torch.ones(1, 1, 14, 14, dtype=torch.bool).tril()
    expected, last = hidden_states(target, tensor, torch.arange(14)[None], mask, layers)
    assert torch.equal(expected[..., -32:], last)
    chunked = TorchEngine(target, chunk=4)
    context, taken = chunked.context(), []
    with FeatureTap(target, layers) as tap:
        context.assign(0, ids[:9])
        chunked.verify(context, DraftTree.empty())
        context.commit(DraftTree.empty(), (), ids[9])
        taken.append(tap.take(0, ()))
        wrong = (ids[10] + 1) % VOCABULARY
        tree = DraftTree(np.array([wrong, ids[10], 3, ids[11]]), np.array([-1, -1, 0, 1]))
        chunked.verify(context, tree)
        context.commit(tree, (1, 3), ids[12])
        taken.append(tap.take(len(tree), (1, 3)))
    assert context.computed == 12 and context.tokens == ids[:13]
    torch.testing.assert_close(torch.cat(taken), expected[0, :12], atol=1e-4, rtol=1e-4)
    engine.verify(context, DraftTree.empty())  # The tap is closed.
    assert tap._seen == []


def test_what_is_wanted_is_the_targets_distribution(target):
    batch = packed([[5, 6, 7, 8]])
    features, wanted = teach(Teacher(target), target.lm_head, batch, (4,))
    logits = target(batch.ids[:, :4]).logits[0]
    torch.testing.assert_close(wanted[:4], torch.log_softmax(logits, dim=-1), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(target.get_output_embeddings()(features[0, :4]), logits, atol=1e-4, rtol=1e-4)


# ---- drafting --------------------------------------------------------------------------------------------------------

paces = st.builds(Pace, depth=st.integers(1, 5), breadth=st.integers(1, 4), nodes=st.integers(1, 30))


@given(st.integers(0, 2**31), paces, st.integers(1, 8), st.integers(0, 8))
@settings(max_examples=25)
def test_trees_are_valid_and_score_what_chains_score(baseline, seed, pace, length, known):
    """Each node's log-probability is that of a conversation in which its path was said, without any further feature."""
    rng = np.random.default_rng(seed)
    tokens, features = rng.integers(VOCABULARY, size=length).tolist(), torch.randn(length, baseline.config.hidden)
    known = min(known, length)

    def conversation(path: list[int]):
        context = baseline.context()
        context.commit(tokens)
        if baseline.config.features:
            context.remember(0, features[:known])
        context.commit(path)
        return context

    tree = conversation([]).draft(pace)
    assert 1 <= len(tree) <= pace.nodes and tree.depths().max() <= pace.depth
    for node in rng.permutation(len(tree))[:3].tolist():
        path = tree.tokens[tree.path(node)].tolist()
        alone = log_probs(conversation(path[:-1]).draft(EVERY_TOKEN))
        np.testing.assert_allclose(tree.log_probs[node], alone[path[-1]], atol=2e-4)


def test_a_draft_leaves_no_trace_and_late_features_replace_guesses(baseline):
    rng = np.random.default_rng(3)
    tokens, features = rng.integers(VOCABULARY, size=10).tolist(), torch.randn(10, baseline.config.hidden)
    context = baseline.context()
    for step, token in enumerate(tokens):
        context.commit([token])
        context.draft(Pace(depth=3, breadth=2, nodes=6))
        if baseline.config.features and step in (3, 4, 8):
            context.remember(context.remembered, features[context.remembered : step + 1])
    fresh = baseline.context()
    fresh.commit(tokens)
    if baseline.config.features:
        fresh.remember(0, features[:9])
    one, other = (log_probs(chosen.draft(EVERY_TOKEN)) for chosen in (context, fresh))
    np.testing.assert_allclose(one, other, atol=2e-4)


def test_features_come_in_order_and_of_committed_tokens(target):
    context = untrained(target, "eagle2").context()
    with pytest.raises(ValueError, match="no token"):
        context.draft(EVERY_TOKEN)
    context.commit([1, 2, 3])
    features = torch.zeros(2, 32)
    context.remember(0, features)
    for start in (0, 1, 2):
        with pytest.raises(ValueError, match="features of tokens"):
            context.remember(start, features)


@pytest.mark.parametrize("method", METHODS)
def test_only_the_draft_vocabulary_is_drafted(target, method):
    kept = tuple(range(3, VOCABULARY, 3))
    model = untrained(target, method, draft_vocabulary=kept)
    context = model.context()
    context.commit([1, 2, 4])
    tree = context.draft(EVERY_TOKEN)
    assert set(tree.tokens.tolist()) == set(kept)
    assert np.exp(tree.log_probs).sum() == pytest.approx(1.0, abs=1e-4)


def test_greedy_answers_are_the_targets_own(target, engine, baseline):
    prompts = [np.random.default_rng(seed).integers(VOCABULARY, size=7).tolist() for seed in (0, 1)]
    most = 20
    for prompt in prompts:
        with torch.no_grad():
            plain = target.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=most,
                do_sample=False,
                eos_token_id=None,
            )[0, len(prompt) :].tolist()
        draft, said, heard = baseline.context(), [], []
        draft.commit(prompt)

        def propose(tokens, draft=draft):
            return draft.draft(Pace(depth=3, breadth=3, nodes=12))

        with telling(engine, baseline, draft) as tell:
            for context, tree, accepted, new in rounds(engine, prompt, propose, frozenset(), most):
                draft.commit(new)
                tell(context, tree, accepted)
                said += new
                heard.append((draft.remembered, context.computed))
        assert said == plain
        if baseline.config.features:
            assert all(remembered == computed for remembered, computed in heard)
    tally = measure(engine, baseline, prompts, baseline.config.method, most)
    assert [sum(gained) for gained in tally.gained] == [most - 1] * len(prompts)
    assert set(agreement_by_staleness(engine, baseline, prompts, 9)) == {"1", "8"}


# ---- training --------------------------------------------------------------------------------------------------------


def loss_of(model: Baseline, target, data) -> float:
    recipe = replace(STILL, rows=1)
    batch = next(batches(data, recipe, 1000))
    with torch.no_grad():
        return model.losses(
            batch, *teach(Teacher(target), target.lm_head, batch, model.config.taught), recipe
        ).divergence


@pytest.mark.parametrize("name", [*METHODS, *(name for name in EQUAL if name != "layer-skip")])
def test_training_learns_resumes_and_leaves_what_is_borrowed(target, spoken, tmp_path, name):
    config = on_equal_terms(target, name) if name in EQUAL else baseline_config(target, "tiny", name)
    method = config.method
    recipe = BaselineRecipe(steps=0, rows=1, rate=1e-2, warmup=1, decay=0.0, unroll=3)
    fresh = train_baseline(config, target, spoken, tmp_path / "fresh", recipe)
    whole = train_baseline(config, target, spoken, tmp_path / "whole", replace(recipe, steps=10))
    assert loss_of(whole, target, spoken) < 0.9 * loss_of(fresh, target, spoken)
    assert whole.config.steps == 10 and whole.config.seconds > 0

    train_baseline(config, target, spoken, tmp_path / "broken off", replace(recipe, steps=5))
    resumed = train_baseline(config, target, spoken, tmp_path / "broken off", replace(recipe, steps=10))
    frozen = {name for name, weight in whole.named_parameters() if not weight.requires_grad}
    frozen |= {name for name, _ in whole.named_buffers()}
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], weight, msg=name)
        assert torch.equal(weight, fresh.state_dict()[name]) == (name in frozen), name
    borrowed = set() if method == "independent" else {"embedding.weight", "head.weight"}
    borrowed |= {"norm.weight"} if method == "eagle2" and config.copied else set()
    borrowed |= {name for name in whole.state_dict() if name.startswith("first_layers.")}
    assert frozen - {"spread"} == borrowed

    folder = tmp_path / "artefact"
    save_baseline(whole, folder)
    loaded = load_baseline(folder, target)
    assert loaded.config == whole.config
    for name, weight in whole.state_dict().items():
        kept = weight if name in borrowed else weight.bfloat16().float()
        assert torch.equal(loaded.state_dict()[name], kept), name
    assert (folder / FLOAT).stat().st_size < 2 * trained_parameters(whole) + 4096


def test_a_head_of_its_own_is_trained_from_the_targets(target, spoken, tmp_path):
    config = baseline_config(target, "tiny", "eagle3", own_head=True)
    assert abs(own_parameters(config) - own_parameters(baseline_config(target, "tiny", "eagle3"))) <= 3 * 32 * 32
    recipe = BaselineRecipe(steps=2, rows=1, warmup=1, decay=0.0, unroll=2)
    model = train_baseline(config, target, spoken, tmp_path / "run", recipe)
    head = target.get_output_embeddings().weight
    assert not torch.equal(model.head.weight, head)
    assert (model.head.weight - head).abs().max() < 0.1
    save_baseline(model, tmp_path / "artefact")
    loaded = load_baseline(tmp_path / "artefact", target)
    assert torch.equal(loaded.head.weight, model.head.weight.bfloat16().float())


def test_a_folder_that_does_not_fit_says_so(target, tmp_path):
    with pytest.raises(DrafterMissing, match="config.json is missing"):
        load_baseline(tmp_path, target)
    save_baseline(build(baseline_config(target, "tiny", "eagle2")), tmp_path)
    with pytest.raises(ForeignTarget, match="other weights of tiny"):
        load_baseline(tmp_path, tiny_target(seed=9))
    config = (tmp_path / CONFIG).read_bytes()
    (tmp_path / CONFIG).write_bytes(config.replace(b'"ffn": ', b'"ffn": 1'))
    with pytest.raises(DrafterCorrupt, match="not those that"):
        load_baseline(tmp_path, target)
    (tmp_path / CONFIG).write_bytes(config)
    (tmp_path / FLOAT).write_bytes(b"cut off")
    with pytest.raises(DrafterCorrupt, match="cannot be read"):
        load_baseline(tmp_path, target)
    (tmp_path / CONFIG).write_bytes(b"{}")
    with pytest.raises(DrafterCorrupt, match="cannot be read"):
        load_baseline(tmp_path, target)


# ---- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("parameters", [60_000, 500_000])
def test_a_baseline_has_about_the_parameters_asked_for(target, method, parameters):
    config = baseline_config(target, "tiny", method, parameters=parameters)
    mlp = 3 * config.hidden * 32 * config.layers
    assert abs(own_parameters(config) - parameters) <= mlp / 2
    assert own_parameters(config) == trained_parameters(build(config))


def test_as_many_as_moa_by_default(target):
    moa = drafter_config(target, "tiny", inference_layers=0)
    config = baseline_config(target, "tiny", "eagle2")
    assert abs(own_parameters(config) - moa_parameters(moa)) <= 3 * 32 * 32 / 2
    assert moa_parameters(msgspec.structs.replace(moa, inference_layers=2)) == moa_parameters(moa)


@pytest.mark.parametrize("name", EQUAL)
def test_a_draft_step_on_equal_terms_reads_as_much_as_moas(target, name):
    """To half the step in which MLPs grow; a layer-skip to the parts in which its layers differ from MoA's."""
    moa, config = drafter_config(target, "tiny", **MOA), on_equal_terms(target, name)
    wanted, step = moa_step_parameters(moa), step_parameters(config)
    model = build(config)
    if name == "layer-skip":
        assert step - wanted == 2 * 32 * 16 - 2 * 2 * 8  # The cross-attention has a null row, no keys and no values.
        assert own_parameters(config) == trained_parameters(model) == 0
    else:
        assert abs(step - wanted) <= 3 * 32 * 32 * len(config.copied) / 2 and config.ffn >= 48
    read = [part for part in (model.first_layers, model.layers, model.head) for part in part.parameters()]
    read += [weight for part in ("norm", "token_norm", "feature_norm") for weight in _weights(model, part)]
    read += _weights(model, "fuse") if config.method == "eagle2" else []
    assert step == sum(weight.numel() for weight in read)


def _weights(model: Baseline, part: str) -> list[nn.Parameter]:
    return list(getattr(model, part).parameters()) if hasattr(model, part) else []


def test_a_target_whose_layers_cannot_be_copied_is_refused(target):
    moa = msgspec.structs.replace(drafter_config(target, "tiny"), from_target=False)
    with pytest.raises(UnsupportedTarget, match="Llama"):
        equal_config(target, moa, "eagle2", (0, 3))


@pytest.mark.parametrize("name", ["eagle2, copied", "eagle2, copied, F = 1"])
def test_it_begins_as_its_target_without_the_layers_between(target, name):
    """A wider MLP changes nothing at the start, nor do features."""
    config = on_equal_terms(target, name)
    model, skipping = build(config).eval(), build(on_equal_terms(target, "layer-skip", layers=3, copied=(0, 1, 3)))
    model.borrow(target)
    skipping.eval().borrow(target)
    batch = packed([[5, 6, 7, 8, 9]])
    previous = torch.randn(1, 7, 32)
    outs = []
    for drafter in (model, skipping):
        past = drafter.empty_past(1)
        outs.append(drafter.logits(drafter(batch.ids, batch.positions, previous, past, batch.causal)[0])[:, :5])
    assert config.ffn > 48
    torch.testing.assert_close(*outs)


def test_eagle3_begins_with_a_state_of_the_target_in_its_spread(target):
    """Its stream is the state below its first layer, normed, with the spread that such states have there."""
    model = build(on_equal_terms(target, "eagle3, copied"))
    model.borrow(target)
    batch = packed([[5, 6, 7, 8, 9, 10, 11]])
    features, _ = teach(Teacher(target), target.lm_head, batch, model.config.taught)
    model.begin(batch, features)
    states = features[0, :7].unflatten(-1, (3, 32))
    assert model.config.features == (1, 2, 3) and model.config.copied == (2, 3)
    normed = states[:, 1] * states[:, 1].pow(2).mean(-1, keepdim=True).rsqrt()
    torch.testing.assert_close(model.encode(features[0, :7]), normed, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(model.spread, states[:, 1].std(dim=0))


@pytest.mark.parametrize(("depth", "layers"), [(32, (2, 16, 29)), (8, (1, 4, 7)), (4, (1, 2, 3)), (2, (1, 1, 1))])
def test_eagle3_reads_the_published_layers_in_proportion(depth, layers):
    assert features_of("eagle3", depth) == layers
    assert features_of("eagle2", depth) == (depth,) and features_of("independent", depth) == ()


def test_bytes_on_the_wire(target):
    sizes = {method: untrained(target, method).bytes_per_token for method in METHODS}
    assert sizes == {"eagle2": 64, "eagle3": 64, "independent": 0}
    assert {name: build(on_equal_terms(target, name)).bytes_per_token for name in EQUAL} == {
        **dict.fromkeys(EQUAL, 32 // 2 + 2 * 32 // 8),
        "layer-skip": 0,
    }


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_features_lose_on_the_wire_what_their_bits_cannot_say(target, bits):
    model = untrained(target, "eagle2", wire_bits=bits)
    features = torch.randn(5, 32)
    arrived = model.wire(features).float()
    scales = features.unflatten(-1, (4, 8)).abs().amax(-1, keepdim=True) / {4: 7, 8: 127, 16: 1024}[bits]
    off = (arrived - features).unflatten(-1, (4, 8)).abs()
    assert (off <= 0.51 * scales).all() and off.max() > 0
