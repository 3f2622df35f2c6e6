"""With a second stage, the text is the same in fewer steps, and a tree is worth no less."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter.second_stage import SecondStage
from drafter.step import StepGraph
from models.engines.quantise import quantise_graph
from models.ort import onnxruntime
from tests.drafter.trees import BUSH, same_tree, seeds, worth

some = settings(max_examples=8)
temperatures = st.sampled_from([0.0, 0.3, 1.0, 3.0])


@pytest.fixture(scope="module", params=["float", "int8"])
def drafter(request, tiny, tmp_path_factory):
    """A tiny drafter, exported and quantised."""
    if request.param == "float":
        return tiny
    path = tmp_path_factory.mktemp("int8") / "drafter.onnx"
    quantise_graph(tiny.path, path)
    return replace(tiny, path=path, step=StepGraph(path, tiny.config))


class Told(SecondStage):
    """Knows the text that comes, up to an error every few tokens."""

    def __init__(self, text, lengths):
        super().__init__()
        self.text, self.lengths = text, lengths

    def guess(self, most=16):
        at = len(self._said.tokens)
        length = self.lengths[at % len(self.lengths)]
        chain = self.text[at : at + length]
        return chain if at % 3 else [*chain[:-1], *((token + 1) % 61 for token in chain[-1:])]


def write(context, count, temperature=0.0, seed=0):
    """At least `count` tokens by the drafter alone, and how many steps gave them."""
    tokens, steps = [], 0
    for some_tokens in context.generate(temperature, seed):
        tokens, steps = tokens + some_tokens, steps + 1
        if len(tokens) >= count:
            return tokens, steps


@some
@given(seeds, temperatures, st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_whatever_is_guessed_the_text_is_the_same(drafter, seed, temperature, lengths):
    tokens, memory = drafter.tokens(seed, 12), drafter.memory(seed, 9)
    plain = drafter.context(tokens, memory)
    text, _ = write(plain, 40, temperature, seed)
    told = drafter.context(tokens, memory, Told(tokens + text, lengths))
    written, steps = write(told, 30, temperature, seed)
    assert written == text[: len(written)] and told.tokens == tokens + written
    assert steps < len(written) or max(lengths) < 2 or not drafter.step.independent_rows
    # The rows of accepted guesses are those that single steps would have left.
    plain.rewind(len(told.tokens))
    told.second_stage = None
    same_tree(told.draft(BUSH), plain.draft(BUSH))


@pytest.mark.parametrize("known", [0, 12])
def test_a_text_that_is_broken_off_goes_on(drafter, known):
    # Where the target's layers run here too, the row of a remembered token is the target's own, not the guessed one.
    tokens, memory = drafter.tokens(0, 12), drafter.memory(0, known)
    text, _ = write(drafter.context(tokens, memory), 40, 0.3, 5)
    context = drafter.context(tokens, memory, Told(tokens + text, [5]))
    begun, _ = write(context, 8, 0.3, 5)
    context.rewind(len(tokens) + 7)  # A reply that ended within what a step gave.
    context.draft(BUSH)
    rest, _ = write(context, 20, 0.3, 5)
    assert begun[:7] + rest == text[: 7 + len(rest)]


def test_a_graph_quantised_by_step_is_not_trusted_with_guesses(tiny, tmp_path):
    quantization = importlib.import_module(".quantization", onnxruntime.__name__)
    quantization.quantize_dynamic(
        tiny.path,
        tmp_path / "by_step.onnx",
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},  # It does not know what fused operators give.
    )
    by_step = replace(tiny, step=StepGraph(tmp_path / "by_step.onnx", tiny.config))
    assert not by_step.step.independent_rows
    tokens = tiny.tokens(0, 12)
    text, _ = write(by_step.context(tokens), 20)
    context = by_step.context(tokens, second_stage=Told(tokens + text, [5]))
    assert write(context, 10) == (text[:10], 10)


@some
@given(seeds, st.integers(0, 8), st.integers(0, 8))
def test_guessed_nodes_carry_the_drafter_s_own_log_probabilities_and_leave_their_rows(drafter, seed, deepest, kept):
    tokens, memory = drafter.tokens(seed, 12), drafter.memory(seed, 9)
    copy, _ = write(drafter.context(tokens, memory), 10)
    context = drafter.context(tokens, memory, Told(tokens + copy, [deepest]))
    tree = context.draft(replace(BUSH, deepest=deepest))
    for node in range(len(tree)):
        path = [int(tree.tokens[at]) for at in tree.path(node)]
        log_probs, ids = drafter.context(tokens + path[:-1], memory)._run_tokens()
        (found,) = np.flatnonzero(ids[0] == path[-1])
        assert abs(log_probs[0, found] - tree.log_probs[node]) < 1e-3
    plain = drafter.context(tokens, memory).draft(BUSH)
    assert len(tree) == len(plain) and worth(tree) >= worth(plain) - 1e-3
    context.commit([*copy[:kept], 7])
    context.second_stage = None
    same_tree(context.draft(BUSH), drafter.context([*tokens, *copy[:kept], 7], memory).draft(BUSH))
