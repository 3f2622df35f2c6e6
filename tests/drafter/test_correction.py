"""A correction of the logits beside the step graph: what it adds, and that nothing changes without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drafter.step import Step, StepGraph
from drafter.training.export import export_graph
from models.engines.quantise import quantise_graph
from models.tree import NEVER
from tests.drafter.conftest import Tiny, draft_model, some_correction
from tests.support.made_once import made_once


@pytest.fixture(scope="module")
def graphs(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the float graph of a tiny drafter that takes a correction, and the quantised one."""

    def make(folder: Path) -> None:
        export_graph(draft_model(tiny.correctable), folder / "float.onnx")
        quantise_graph(folder / "float.onnx", folder / "int8.onnx")

    return made_once(tmp_path_factory, f"correctable-{tiny.config.inference_layers}", make)


def run(step: StepGraph, tokens: list[int], seen: int = 0) -> Step:
    """Run tokens after `seen` rows of zeros."""
    count = len(tokens)
    mask = np.triu(np.full((count, seen + count), NEVER), k=seen + 1)
    past = [tuple(np.zeros((heads, seen, size), np.float32) for _ in range(2)) for heads, size in step.cache_shapes]
    memory = tuple(np.zeros((*step._memory_shape[:1], 0, *step._memory_shape[1:]), np.float32) for _ in range(2))
    return step(np.array(tokens), np.arange(seen, seen + count), mask, past, memory)


@pytest.mark.parametrize("name", ["float.onnx", "int8.onnx"])
def test_it_is_added_to_the_logits(tiny: Tiny, graphs: Path, name: str) -> None:
    config = tiny.correctable
    step = StepGraph(graphs / name, config, states=True)
    plain = run(step, tiny.tokens(1, 5))
    step.correction = some_correction(config, 4)
    corrected = run(step, tiny.tokens(1, 5))
    assert plain.states is not None and corrected.states is not None
    np.testing.assert_array_equal(plain.states, corrected.states)
    added = plain.states @ step.correction.down @ step.correction.up
    kept = config.draft_vocabulary
    whole = np.full((5, len(kept)), -np.inf, np.float32)
    places = [np.searchsorted(kept, ids) for ids in (plain.ids, corrected.ids)]
    np.put_along_axis(whole, places[0], plain.log_probs, axis=1)
    differences = np.take_along_axis(whole + added, places[1], axis=1) - corrected.log_probs
    known = np.isfinite(differences)
    assert known.sum() > 20
    for row, here in zip(differences, known):  # All differ by the same number: the logarithm of the new sum.
        np.testing.assert_allclose(row[here], row[here][0], atol=1e-3)
    assert not np.array_equal(plain.ids, corrected.ids)


def test_without_one_the_graph_gives_what_it_gave_before(tiny: Tiny, graphs: Path) -> None:
    before = run(tiny.step, tiny.tokens(2, 6))
    now = run(StepGraph(graphs / "float.onnx", tiny.correctable), tiny.tokens(2, 6))
    np.testing.assert_array_equal(before.ids, now.ids)
    np.testing.assert_allclose(before.log_probs, now.log_probs, atol=1e-4)
    assert now.states is None and before.states is None and tiny.step.correction == ()
    with pytest.raises(ValueError, match="no hidden states"):
        StepGraph(tiny.path, tiny.config, states=True)
