"""A drafter's own layers learn from answers, in the form in which its graph holds them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from drafter.learning.distributions import MOST, NONE, TEXT, Distributions
from drafter.learning.samples import Replayer, Round
from drafter.model import DraftModel
from drafter.step import StepGraph
from drafter.training.adaptation import Labels, Pace, Replayed, _Adapted, _Padded, adapt
from drafter.training.export import export_graph
from drafter.training.graph_weights import read_weights, write_weights
from models.config import DrafterCorrupt, DrafterError, Scheme
from models.engines.quantise import quantise_graph
from tests.drafter.conftest import Tiny, draft_model

SCHEMES: tuple[Scheme, ...] = ("int8", "nbits8", "nbits4")


@pytest.fixture(scope="module")
def exported(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The float graph of a model whose norms differ."""
    path = tmp_path_factory.mktemp("exported") / "float.onnx"
    model = model_of(tiny)
    model.config = tiny.correctable
    export_graph(model, path)
    return path


def model_of(tiny: Tiny) -> DraftModel:
    model, random = draft_model(tiny.config), torch.Generator().manual_seed(3)
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight += 0.1 * torch.randn(weight.shape, generator=random)
    return model


@pytest.fixture(params=SCHEMES)
def graph(exported: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "quantised.onnx"
    quantise_graph(exported, path, request.param)
    return path


def replayed(tiny: Tiny, count: int) -> list[Replayed]:
    """Answers of 24 tokens after 8, which say the prompt again and again, with memory of all but the last tokens."""
    answers = []
    for seed in range(count):
        prompt = [2 * token for token in np.random.default_rng(seed).integers(30, size=8).tolist()]
        rounds = [Round(length, max(0, length - 3)) for length in range(8, 32, 4)]
        answers.append(Replayed(prompt * 4, rounds, partial(lambda one: [(0, one)], tiny.memory(seed, 30))))
    return answers


def hits(tiny: Tiny, graph: Path, answers: list[Replayed]) -> np.ndarray:
    """At each token of these answers, whether the graph guesses it, as the app drafts."""
    replayer = Replayer(StepGraph(graph, tiny.correctable, states=True), tiny.correctable)
    return np.concatenate([replayer.samples(one.tokens, one.rounds, one.read()).hits for one in answers])


def test_what_is_not_written_stays_to_the_bit_and_what_is_read_can_be_written(tiny: Tiny, graph: Path) -> None:
    weights, again = read_weights(graph, tiny.config), graph.with_name("again.onnx")
    name = "cross_attention.mlp.up_proj.weight"
    width = draft_model(tiny.config).state_dict()[name].shape[-1]
    write_weights(graph, again, {name: 2 * weights[name][:, :width]})
    for key, weight in read_weights(again, tiny.config).items():
        assert np.array_equal(weight, weights[key]) != (key == name), key
    with pytest.raises(DrafterCorrupt, match=r"no weights for cross_attention\.none"):
        write_weights(graph, again, {"cross_attention.none": np.zeros(3, np.float32)})
    with pytest.raises(DrafterCorrupt, match="another form"):
        write_weights(graph, again, {name: weights[name][:5, :width]})


def test_a_file_that_is_no_quantised_graph_or_whose_layers_share_weights_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(DrafterCorrupt, match="not the graph that its config describes"):
        read_weights(tiny.path, tiny.config)
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    with pytest.raises(DrafterCorrupt, match="not an ONNX graph"):
        read_weights(tmp_path / "junk.onnx", tiny.config)
    quantise_graph(tiny.path, tmp_path / "whole.onnx", "int8")
    model = onnx.load(tmp_path / "whole.onnx")  # As those that kept equal weights once.
    norms = ("cross_attention.input_layernorm.weight", "cross_attention.post_attention_layernorm.weight")
    one, other = (weight for weight in model.graph.initializer if weight.name.endswith(norms))
    model.graph.initializer.remove(other)
    for node in model.graph.node:
        node.input[:] = [one.name if name == other.name else name for name in node.input]
    onnx.save(model, tmp_path / "shared.onnx")
    answers = replayed(tiny, 4)
    with pytest.raises(DrafterError, match="share weights"):
        adapt(tmp_path / "shared.onnx", tiny.config, answers, [], answers, tmp_path / "out.onnx")


@pytest.mark.parametrize("tiny", [(1, 1)], indirect=True, ids=["N=1, F=1"])
@pytest.mark.parametrize("graph", ["nbits4"], indirect=True)
def test_it_learns_what_its_graph_then_guesses(tiny: Tiny, graph: Path, tmp_path: Path) -> None:
    """From what the target might have said, too, and from what it said after rejected tokens."""
    learnt = [replace(one, target=told(one, (12, 2), (20, 4))) for one in replayed(tiny, 16)]
    judged, out, steps = replayed(tiny, 4), tmp_path / "learnt.onnx", list[tuple[int, int]]()
    pace, labels = Pace(rate=1e-2, steps=60), Labels(branches=0.5)
    assert adapt(
        graph, tiny.config, learnt, [], judged, out, pace, labels=labels, progress=lambda *done: steps.append(done)
    )
    assert steps[-1] == (60, 60)
    before, after = hits(tiny, graph, judged).mean(), hits(tiny, out, judged).mean()
    assert after > before + 0.1


@pytest.mark.parametrize("graph", ["int8"], indirect=True)
def test_where_nothing_is_gained_or_it_is_halted_nothing_is_written(tiny: Tiny, graph: Path, tmp_path: Path) -> None:
    answers, out = replayed(tiny, 4), tmp_path / "out.onnx"
    assert not adapt(graph, tiny.config, answers, [], answers, out, halted=lambda: True)
    assert not adapt(graph, tiny.config, [], answers, answers, out)
    assert not adapt(graph, tiny.config, answers, [], answers, out, Pace(rate=0.0, epochs=1, steps=0))
    assert not out.exists()


# ---- what the target might have said ---------------------------------------------------------------------------------


def told(answer: Replayed, *branches: tuple[int, int]) -> Distributions:
    """That the target says each token of an answer with a chance of 0.9, and token 4 after these rejected ones.

    `branches`: position of the token after it, and the rejected token.
    """
    first, end = answer.rounds[0].length, len(answer.tokens)
    count = end - first + len(branches)
    tokens, log_probs = np.full((count, MOST), NONE), np.full((count, MOST), -np.inf, np.float32)
    tokens[: end - first, 0] = answer.tokens[first:]
    tokens[end - first :, 0], log_probs[:, 0] = 4, np.log(0.9)
    positions, instead = zip(*((at, TEXT) for at in range(first, end)), *branches)
    return Distributions(np.array(positions), np.array(instead), tokens, log_probs)


@pytest.mark.parametrize("graph", ["nbits4"], indirect=True)
def test_a_rejected_token_is_run_as_if_it_stood_in_the_text(tiny: Tiny, graph: Path) -> None:
    """It sees what stands before its place, and neither the text nor another rejected token sees it."""
    (answer,) = replayed(tiny, 1)
    answer = replace(answer, rounds=[Round(8, 5)])
    branches = [(10, 44), (17, 6), (17, 8), (32, 10)]
    model = _Adapted(graph, tiny.config)
    (plain, chosen), (whole, labels) = (
        model._run(_Padded.of([replace(answer, target=told(answer, *branches))], tiny.config, branches=each))
        for each in (False, True)
    )
    assert len(plain) == 24 and len(whole) == 24 + len(branches)
    assert torch.allclose(whole[:24], plain, atol=1e-5)
    assert torch.equal(labels[:24], chosen) and (labels[24:] == -1).all()
    for row, (position, instead) in enumerate(branches, 24):
        other = [*answer.tokens[: position - 1], instead, 2]
        alone, _ = model._run(_Padded.of([replace(answer, tokens=other)], tiny.config))
        assert torch.allclose(whole[row], alone[-1], atol=1e-5)
