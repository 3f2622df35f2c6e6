"""A conversation that runs alone on llama.cpp has the same bits whatever is drafted, and whoever was there before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from models.engines.engine import TargetContext
from models.engines.llama_engine import RESUMED, SMALLEST, LlamaEngine
from models.engines.llama_lane import BLOCK, LEAST, PIECE, LlamaContext
from models.tree import DraftTree
from tests.models.engines.conftest import accept, asked, holding
from tests.remote.verifier.tiny import VOCABULARY, random_tree, tree_around
from tests.support.gguf_writer import write_gguf
from tests.support.made_once import made_once

EMPTY = DraftTree.empty()
PROMPT = [2 + token % 40 for token in range(21)]
LENGTH = 60
FORMATS = ("q8_0", "q4_0", "q4_k")
"""In the first one, rows have the same bits in a batch of any size; in the others, in a small one."""


def write_formats(folder: Path) -> None:
    """A model in each format. Blocks of Q4_K have 256 numbers. Only llama.cpp makes files of 4 bits as people have."""
    import llama_cpp as lib

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=1024, initializer_range=0.1, pad_token_id=0,
        bos_token_id=None, eos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder / "target")
    write_gguf(folder / "target", folder / "f32.gguf")
    write_gguf(folder / "target", folder / "q8_0.gguf", "q8_0")
    for name, kind in (("q4_0", lib.LLAMA_FTYPE_MOSTLY_Q4_0), ("q4_k", lib.LLAMA_FTYPE_MOSTLY_Q4_K_M)):
        parameters = lib.llama_model_quantize_default_params()
        parameters.ftype, parameters.nthread = kind, 1
        source, out = (str(folder / f"{of}.gguf").encode() for of in ("f32", name))
        assert lib.llama_model_quantize(source, out, parameters) == 0


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    return made_once(tmp_path_factory, "llama-formats", write_formats)


@pytest.fixture(params=FORMATS)
def engine(formats: Path, request: pytest.FixtureRequest) -> Iterator[LlamaEngine]:
    engine = LlamaEngine(formats / f"{request.param}.gguf", threads=1)
    yield engine
    engine.close()


@pytest.fixture
def plain(engine: LlamaEngine) -> np.ndarray:
    """The logits of an answer without drafts, (LENGTH, V)."""
    context = holding(engine, PROMPT)
    logits = decoded(engine, context, lambda done: EMPTY)
    context.release()
    return logits


def decoded(engine: LlamaEngine, context: TargetContext, draft: Callable[[int], DraftTree]) -> np.ndarray:
    """Go on greedily, each round with the draft after this many tokens. The logits of LENGTH tokens, (LENGTH, V)."""
    rows = list[np.ndarray]()
    while len(rows) < LENGTH:
        tree = draft(len(rows))
        logits = engine.verify(context, tree)
        rows += [logits[0], *(logits[1 + node] for node in accept(context, tree, logits))]
    return np.stack(rows[:LENGTH])


def continued(plain: np.ndarray, done: int, count: int) -> list[int]:
    """What an answer will say next."""
    return [int(token) for token in plain[done : done + count].argmax(-1)]


def behind(rng: random.Random, ahead: list[int]) -> DraftTree:
    """A tree that holds what comes beside its likeliest path, which is wrong from its first token on."""
    wrong = [(ahead[0] + 1) % VOCABULARY, *(rng.randrange(VOCABULARY) for _ in range(3))]
    parents = [-1, 0, 1, 2, -1, *range(4, 3 + len(ahead))]
    return DraftTree(np.array([*wrong, *ahead], np.int32), np.array(parents, np.int32))


@pytest.mark.parametrize("kind", ["long chains", "random trees", "trees around it", "beside the path"])
def test_no_draft_changes_a_bit(engine: LlamaEngine, plain: np.ndarray, kind: str) -> None:
    rng, context = random.Random(kind), holding(engine, PROMPT)

    def draft(done: int) -> DraftTree:
        ahead = continued(plain, done, rng.randrange(1, 12)) or [5]
        return {
            "long chains": lambda: DraftTree.chain([*ahead, *(rng.randrange(VOCABULARY) for _ in range(PIECE))]),
            "random trees": lambda: random_tree(rng, rng.randrange(24)),
            "trees around it": lambda: tree_around(rng, ahead, 20),
            "beside the path": lambda: behind(rng, ahead),
        }[kind]()

    np.testing.assert_array_equal(decoded(engine, context, draft), plain)


@pytest.mark.parametrize("invariant", [False, True])
def test_a_draft_runs_in_one_piece_where_rounding_does_not_matter(formats: Path, invariant: bool) -> None:
    engine = LlamaEngine(formats / "q4_k.gguf", threads=1, batch_invariant=invariant)
    context, alone = holding(engine, PROMPT), holding(engine, PROMPT)
    expected = decoded(engine, alone, lambda done: EMPTY)
    engine.verify(context, EMPTY)
    context.commit(EMPTY, [], int(expected[0].argmax()))
    assert context.lane is not None
    sizes, run = list[int](), context.lane._decoded

    def counted(rows: Sequence[object], vocabulary: int) -> np.ndarray:
        sizes.append(len(rows))
        return run(rows, vocabulary)

    context.lane._decoded = counted  # type: ignore[method-assign]
    logits = engine.verify(context, DraftTree.chain(continued(expected, 1, 40)))
    assert (sizes == [41]) != invariant and ("--no-batch-invariance" in engine.description) == invariant
    assert max(sizes) <= 4 or not invariant
    np.testing.assert_allclose(logits[:40], expected[1:41], atol=0.05 * np.abs(expected).max())
    assert np.array_equal(logits[:40], expected[1:41]) == invariant
    engine.close()


@pytest.mark.parametrize("adopted", [False, True])
def test_who_was_there_before_changes_no_bit(engine: LlamaEngine, plain: np.ndarray, adopted: bool) -> None:
    """The rows of another conversation lay before its own ones, and their places are free when it goes on."""
    other, first = holding(engine, [7 * token % VOCABULARY for token in range(90)]), holding(engine, PROMPT)
    engine.verify(other, EMPTY)
    engine.verify(first, EMPTY)
    for _ in range(RESUMED + 1):
        other.commit(EMPTY, [], 9)
        engine.verify(other, EMPTY)
    other.release()
    context = engine.context() if adopted else first
    context.assign(0, PROMPT)
    if adopted:
        context.adopt(first, len(PROMPT) - 1)
    assert context.computed == (len(PROMPT) - LEAST) // BLOCK * BLOCK, "the last tokens are computed again"
    np.testing.assert_array_equal(decoded(engine, context, lambda done: EMPTY), plain)


@pytest.mark.parametrize("length", [21, 39])
def test_rows_that_are_taken_over_change_no_bit(engine: LlamaEngine, length: int) -> None:
    """Kernels compute several rows together, and a short rest of a prompt by others than the whole."""
    prompt = [2 + 7 * token % 40 for token in range(length)]
    whole = holding(engine, prompt)
    expected = engine.verify(whole, EMPTY)
    for count in (length, length - 2, 17, 3):
        context = holding(engine, prompt)
        context.adopt(whole, count)
        assert context.computed <= count and (count < BLOCK or context.computed > 0)
        np.testing.assert_array_equal(engine.verify(context, EMPTY), expected)
        context.release()


def test_conversations_that_are_kept_change_no_bit(engine: LlamaEngine) -> None:
    """Prompts are read tile by tile of the cache, and other rows before them would shift the tiles."""
    prompt = [3 + token % 37 for token in range(100)]
    found, kept = list[np.ndarray](), list[TargetContext]()
    for number in range(3):
        context = holding(engine, prompt)
        found.append(decoded(engine, context, lambda done: EMPTY))
        context.release()
        np.testing.assert_array_equal(found[-1], found[0])
        kept.append(holding(engine, [number + 1] * (30 + number)))
        decoded(engine, kept[-1], lambda done: EMPTY)


def test_who_comes_back_or_grows_does_not_move_beside_another(engine: LlamaEngine, plain: np.ndarray) -> None:
    """One of two lanes is too small for it or for all that were there, and the other one has room."""
    idle, busy, context = (holding(engine, tokens) for tokens in ([4, 5, 6], [9] * 30, PROMPT))
    large = holding(engine, [7] * 1770)
    engine.verify(large, EMPTY)
    large.commit(EMPTY, [], 7)
    engine.forward([asked(one, EMPTY) for one in (idle, large)])
    engine.forward([asked(one, EMPTY) for one in (busy, context)])
    large.release()
    for one in (idle, busy, context):
        assert isinstance(one, LlamaContext) and one.lane is not None
    assert busy.lane is context.lane is not idle.lane
    for _ in range(RESUMED + 1):
        busy.commit(EMPTY, [], 9)
        engine.verify(busy, EMPTY)
    for length in (0, SMALLEST):
        context.assign(0, [*PROMPT, *([5] * length)])
        engine.verify(context, EMPTY)
        assert context.lane.holders == {context} and idle.lane.holders == {idle}
    context.assign(0, PROMPT)
    np.testing.assert_array_equal(decoded(engine, context, lambda done: EMPTY), plain)
