"""What each engine must do, whatever runs the model."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.engines.engine import BrokenTarget, Engine, Forward, TargetContext, UnknownToken
from models.engines.llama_engine import LlamaEngine
from models.engines.llama_lane import LlamaContext
from models.engines.llama_rows import CacheRows, UnreadableRows
from models.engines.sequential_engine import SequentialContext, tensors
from models.memory import dequantise, unpack_memory
from models.tree import ROOT, DraftTree
from tests.models.engines.conftest import CHUNK, Bench, accept, asked, holding, torch_bench
from tests.remote.verifier.tiny import VOCABULARY, plain_logits, random_tree, tree_around

PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]
EMPTY = DraftTree.empty()
LENGTH, TOGETHER = 24, 10
"""Tokens of an answer, and of each of several sessions that run together."""


def stepwise(engine: Engine, tokens: Sequence[int], more: Sequence[int] = ()) -> np.ndarray:
    """The logits after each of the last tokens, where every one of `more` is run alone."""
    context, rows = holding(engine, tokens), []
    for token in (*more, None):
        rows.append(engine.verify(context, EMPTY)[0])
        context.commit(EMPTY, [], token)
    return np.stack(rows)


def text(engine: Engine, prompt: list[int], count: int) -> list[int]:
    context = holding(engine, prompt)
    for _ in range(count):
        accept(context, EMPTY, engine.verify(context, EMPTY))
    return context.tokens[len(prompt) :]


def test_a_tree_is_verified_as_its_paths_one_by_one(bench: Bench) -> None:
    context = holding(bench.engine, PROMPT)
    tree = bench.tree(random_tree(random.Random(1), 14))
    logits = bench.engine.verify(context, tree)
    assert logits.shape == (1 + len(tree), VOCABULARY) and logits.dtype == np.float32
    for node in range(ROOT, len(tree)):
        path = [int(tree.tokens[at]) for at in tree.path(node)]
        bench.close(logits[node + 1], plain_logits(bench.model, PROMPT + path))
        bench.same(logits[node + 1], stepwise(bench.engine, PROMPT, path)[-1])


def test_a_growing_tree_computes_only_its_new_nodes(bench: Bench) -> None:
    if not bench.engine.takes_drafts:
        pytest.skip("a state takes one node")
    rng = random.Random(3)
    tree = random_tree(rng, 24)
    whole = bench.engine.verify(holding(bench.engine, PROMPT), tree)
    context, at = holding(bench.engine, PROMPT), 0
    parts = [bench.engine.verify(context, EMPTY)]
    while at < len(tree):
        upto = min(len(tree), at + rng.randrange(1, 6))
        grown = Forward(context, 0, DraftTree(tree.tokens[:upto], tree.parents[:upto]), since=at)
        (logits,) = bench.engine.forward([grown])
        assert isinstance(logits, np.ndarray), logits
        assert grown.rows == len(logits) == upto - at
        parts, at = [*parts, logits], upto
    bench.same(np.concatenate(parts), whole)
    path = tree.path(max(range(len(tree)), key=lambda node: len(tree.path(node))))
    context.commit(tree, path, 1)
    bench.same_as_anew(context)


def test_drafts_do_not_change_the_text(bench: Bench) -> None:
    expected = text(bench.engine, PROMPT, LENGTH)
    for trees in ("random", "perfect", "adversarial"):
        rng, context = random.Random(trees), holding(bench.engine, PROMPT)
        while (done := len(context.tokens) - len(PROMPT)) < LENGTH:
            ahead = expected[done:][: rng.randrange(1, 6)]
            tree = bench.tree(
                {
                    "random": random_tree(rng, 9),
                    "perfect": tree_around(rng, ahead, 12),
                    # Right up to the last token, which is wrong everywhere.
                    "adversarial": DraftTree.chain([*ahead[:-1], (ahead[-1] + 1) % VOCABULARY, *ahead]),
                }[trees]
            )
            accepted = accept(context, tree, bench.engine.verify(context, tree))
            assert trees != "perfect" or len(accepted) >= len(ahead) or bench.engine.most_nodes
        assert context.tokens[len(PROMPT) :][:LENGTH] == expected, trees


def test_sessions_that_run_together_are_answered_as_each_alone(bench: Bench) -> None:
    rng = random.Random(4)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(length)] for length in (1, 3, 8, 30, 17)]
    expected = [text(bench.engine, prompt, TOGETHER) for prompt in prompts]
    contexts = [holding(bench.engine, prompt) for prompt in prompts]
    while any(len(context.tokens) - len(prompt) < TOGETHER for context, prompt in zip(contexts, prompts)):
        requests = list[Forward]()
        for context, prompt, wanted in zip(contexts, prompts, expected):
            chunk, done = bench.engine.next_chunk(context), len(context.tokens) - len(prompt)
            if rng.random() < 0.3 or done >= TOGETHER:
                continue
            ahead = wanted[done:][: rng.randrange(4)]
            requests.append(chunk or asked(context, bench.tree(tree_around(rng, ahead, rng.randrange(9)))))
        rng.shuffle(requests)
        for request, logits in zip(requests, bench.engine.forward(requests)):
            assert isinstance(logits, np.ndarray)
            if request.tree is not None:
                assert len(logits) == 1 + len(request.tree)
                accept(request.context, request.tree, logits)
            else:
                assert len(logits) == 0
    for context, prompt, wanted in zip(contexts, prompts, expected):
        said = context.tokens[len(prompt) :][:TOGETHER]
        if isinstance(bench.engine, LlamaEngine):  # Rounding may decide between tokens that are about equally likely.
            logits = stepwise(bench.engine, prompt, said)[:-1]
            behind = logits.max(-1) - logits[np.arange(len(said)), said]
            assert behind.max() <= 2 * bench.apart * np.abs(logits).max()
        else:
            assert said == wanted


def test_the_logits_of_a_batch_are_those_of_its_sessions_alone(bench: Bench) -> None:
    rng = random.Random(9)
    prompts = [[rng.randrange(VOCABULARY) for _ in range(length)] for length in (2, 8, 1, 6)]
    trees = [bench.tree(random_tree(rng, nodes)) for nodes in (0, 11, 3, 7)]
    alone = [bench.engine.verify(holding(bench.engine, prompt), tree) for prompt, tree in zip(prompts, trees)]
    requests = [asked(holding(bench.engine, prompt), tree) for prompt, tree in zip(prompts, trees)]
    for found, expected in zip(bench.engine.forward(requests), alone):
        assert isinstance(found, np.ndarray)
        bench.same(found, expected)


def test_rows_of_another_context_are_taken_over(bench: Bench) -> None:
    engine, rng = bench.engine, random.Random(6)
    if not engine.takes_drafts:
        pytest.skip("a state is taken over as a whole: test_states.py")
    shared, ends = [rng.randrange(VOCABULARY) for _ in range(30)], ([3, 8, 1], [5], [2, 4])
    first = holding(engine, [*shared, *ends[0]])
    tree = random_tree(rng, 7)
    engine.verify(first, tree)
    first.commit(tree, tree.path(5), 9)
    for end in ends[1:]:
        context = holding(engine, [*shared, *end])
        context.adopt(first, 30)
        assert 20 <= context.computed <= 30, "whole blocks, where an engine computes in blocks"
        bench.same(engine.verify(context, tree)[0], stepwise(engine, [*shared, *end])[0])
        context.commit(tree, tree.path(3), 6)
        context.assign(10, [7, 7])
        bench.same(engine.verify(context, EMPTY)[0], stepwise(engine, [*shared[:10], 7, 7])[0])
        context.release()
    whole = holding(engine, first.tokens[:20])
    whole.adopt(first, 1000)
    assert 12 <= whole.computed <= 19  # The last token's logits are wanted.
    bench.same(engine.verify(whole, EMPTY)[0], stepwise(engine, first.tokens[:20])[0])
    whole.adopt(first, 5)
    assert whole.computed == 20
    bench.same(engine.verify(first, EMPTY)[0], stepwise(engine, first.tokens)[0])
    for context in (first, whole):
        context.release()


def test_a_forward_that_is_broken_off_is_asked_for_again(bench: Bench) -> None:
    """A client that hangs up during a forward, and asks for the rest of its answer."""
    context = holding(bench.engine, PROMPT)
    for token in (4, 9, 31, 8, 8, 2, 17, 6, 25, 12):
        bench.engine.verify(context, EMPTY)
        context.commit(EMPTY, [], token)
    expected = bench.engine.verify(context, EMPTY)[0]
    for known in (len(context.tokens), len(context.tokens) - 3):
        context.assign(known, context.tokens[known:])
        if not isinstance(context, LlamaContext | SequentialContext):
            assert (context.computed, context.rewinds) == (len(context.tokens) - 1, 0), "what is sent again is kept"
        bench.same(bench.engine.verify(context, EMPTY)[0], expected)
    tree = bench.tree(random_tree(random.Random(2), 6))
    context.assign(len(context.tokens), [])
    bench.same(bench.engine.verify(context, tree)[0], expected)
    context.release()


def test_a_prompt_in_chunks_is_the_prompt_at_once(bench: Bench) -> None:
    prompt = [2 + token % 40 for token in range(5 * CHUNK + 3)]
    context = holding(bench.engine, prompt)
    chunks = 0
    while bench.engine.read(context):
        chunks += 1
        assert context.computed == chunks * CHUNK
    assert chunks == 5
    logits = bench.engine.verify(context, EMPTY)[0]
    bench.close(logits, plain_logits(bench.model, prompt))
    bench.same(logits, stepwise(bench.engine, prompt[:1], prompt[1:])[-1])


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_history_of_rounds_and_rewinds_leaves_the_rows_exact(bench: Bench, data: st.DataObject) -> None:
    engine, tokens = bench.engine, st.integers(0, VOCABULARY - 1)
    context = holding(engine, data.draw(st.lists(tokens, min_size=1, max_size=20)))
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            base = data.draw(st.integers(0, len(context.tokens)))
            context.assign(base, data.draw(st.lists(tokens, min_size=0 if base else 1, max_size=10)))
        tree = bench.tree(random_tree(random.Random(data.draw(st.integers(0, 99))), data.draw(st.integers(0, 8))))
        engine.verify(context, tree)
        node = data.draw(st.integers(-1, len(tree) - 1))
        context.commit(tree, tree.path(node), data.draw(tokens))
        uncomputed = len(context.tokens) - context.computed
        # llama.cpp computes again what was accepted beside the likeliest path.
        assert 1 <= uncomputed <= (len(tree) + 1 if isinstance(engine, LlamaEngine) else 1)
        assert context.computed <= context.capacity
    bench.same(engine.verify(context, EMPTY)[0], stepwise(engine, context.tokens)[0])


def test_memory_is_the_encoders_view_of_the_rows(encoding: Bench) -> None:
    engine = encoding.engine
    assert engine.encoder is not None
    context = holding(engine, PROMPT)
    tree = random_tree(random.Random(3), 6)
    engine.verify(context, tree)
    context.commit(tree, tree.path(4), 9)
    reference = torch_bench("llama").engine
    copy = holding(reference, context.tokens)
    reference.verify(copy, EMPTY)
    layers = engine.encoder.config.memory_layers
    start, end = 2, context.computed
    found = unpack_memory(engine.memory(context, start, end), end - start, layers)
    wanted = unpack_memory(reference.memory(copy, start, end), end - start, layers)
    for row, expected in zip(found, wanted, strict=True):
        for side in (slice(2), slice(2, 4)):
            one, two = dequantise(*row[side]), dequantise(*expected[side])
            # Rounded to 8 bits on both sides, so a number may lie one step apart.
            allowed = max(2 * float(expected[side][1].max()), 10 * encoding.tolerance * float(np.abs(two).max()))
            assert np.abs(one - two).max() <= allowed


def test_tokens_outside_the_vocabulary_are_refused_and_disturb_nobody(bench: Bench) -> None:
    engine = bench.engine
    wrong, worse, right = (holding(engine, tokens) for tokens in ([3, VOCABULARY], [3], PROMPT[:4]))
    with pytest.raises(UnknownToken, match=f"token {VOCABULARY}"):
        engine.verify(wrong, EMPTY)
    answers = engine.forward([asked(wrong, EMPTY), asked(right, EMPTY), asked(worse, DraftTree.chain([2, VOCABULARY]))])
    assert isinstance(answers[0], UnknownToken) and isinstance(answers[2], UnknownToken)
    assert wrong.computed == worse.computed == 0
    assert isinstance(answers[1], np.ndarray)
    bench.same(answers[1][0], stepwise(engine, PROMPT[:4])[0])


def test_logits_of_nan_are_an_error_of_their_session_alone(bench: Bench) -> None:
    engine = bench.engine
    if isinstance(engine, LlamaEngine):
        pytest.skip("the rows lie in llama.cpp, where no test can spoil them")
    broken, whole = holding(engine, PROMPT[:5]), holding(engine, PROMPT[:5])
    for context in (broken, whole):
        accept(context, EMPTY, engine.verify(context, EMPTY))
    spoil(broken)
    answers = engine.forward([asked(broken, EMPTY), asked(whole, DraftTree.chain([4, 6]))])
    assert isinstance(answers[0], BrokenTarget) and "NaN" in str(answers[0])
    assert isinstance(answers[1], np.ndarray) and np.isfinite(answers[1]).all()
    broken.release()
    broken.assign(0, PROMPT)
    assert np.isfinite(engine.verify(broken, EMPTY)).all()


def spoil(context: TargetContext) -> None:
    """Make the cached rows of a context NaN."""
    if isinstance(context, SequentialContext):
        assert context.cache is not None
        for part in (part for layer in context.cache.layers for part in tensors(vars(layer))):
            part[...] = float("nan")
        return
    for holder in getattr(context, "slabs", [context]):
        holder.keys[:] = float("nan")


def test_released_rows_are_free(bench: Bench) -> None:
    context = bench.engine.context()
    assert context.capacity == 0
    context.assign(0, PROMPT)
    bench.engine.verify(context, EMPTY)
    assert context.capacity >= len(PROMPT)
    context.release()
    assert (context.tokens, context.computed, context.capacity, context.rewinds) == ([], 0, 0, 1)


def test_rows_take_the_bytes_that_the_engine_says(bench: Bench) -> None:
    if not bench.engine.takes_drafts:
        pytest.skip("a state has no rows: test_states.py")
    context = holding(bench.engine, PROMPT)
    bench.engine.verify(context, EMPTY)
    held = 0
    if isinstance(context, LlamaContext):
        if bench.windowed:
            with pytest.raises(UnreadableRows):
                read_rows(bench.engine, context)
            return
        held = sum(part.nbytes // 2 for part in vars(read_rows(bench.engine, context)).values())  # Read as float32.
    else:
        for holder in getattr(context, "slabs", [context]):
            for rows in (holder.keys, holder.values):
                held += rows.nbytes
    assert held == bench.engine.bytes_per_token * context.capacity
    assert bench.engine.free_bytes() > 0


def read_rows(engine: Engine, context: LlamaContext) -> CacheRows:
    assert isinstance(engine, LlamaEngine)
    return CacheRows.read(
        context.rows(0, context.capacity), range(context.capacity), engine.key_shape, interleaved=False
    )
