"""A drafter's own layers learn from answers, in the form in which its graph holds them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from drafter.config import DrafterConfig, DrafterCorrupt, DrafterError, Scheme
from drafter.learning.samples import Replayer, Round
from drafter.model import DraftModel
from drafter.step import StepGraph
from drafter.training.adaptation import Pace, Replayed, adapt
from drafter.training.export import export_graph
from drafter.training.graph_weights import read_weights, write_weights
from drafter.training.quantise import quantise_graph
from tests.drafter.conftest import Tiny, draft_model

SCHEMES: tuple[Scheme, ...] = ("int8", "nbits8", "nbits4")


@pytest.fixture(scope="module")
def exported(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The float graph of a model whose norms differ: the exporter keeps equal weights once."""
    path = tmp_path_factory.mktemp("exported") / "float.onnx"
    model = model_of(tiny)
    model.config = correctable(tiny)
    export_graph(model, path)
    return path


def correctable(tiny: Tiny) -> DrafterConfig:
    """Its graph gives the hidden states that what is drafted again needs."""
    return msgspec.structs.replace(tiny.config, correctable=True)


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


def replayed(tiny: Tiny, count: int, first: int = 0) -> list[Replayed]:
    """Answers of 24 tokens after 8, which say the prompt again and again, with memory of all but the last tokens."""
    answers = []
    for seed in range(first, first + count):
        prompt = [2 * token for token in np.random.default_rng(seed).integers(30, size=8).tolist()]
        rounds = [Round(length, max(0, length - 3)) for length in range(8, 32, 4)]
        answers.append(Replayed(prompt * 4, rounds, partial(lambda one: [(0, one)], tiny.memory(seed, 30))))
    return answers


def hits(tiny: Tiny, graph: Path, answers: list[Replayed]) -> np.ndarray:
    """At each token of these answers, whether the graph guesses it, as the app drafts."""
    config = correctable(tiny)
    replayer = Replayer(StepGraph(graph, config, states=True), config)
    return np.concatenate([replayer.samples(one.tokens, one.rounds, one.read()).hits for one in answers])


def test_the_weights_of_a_graph_are_those_of_its_model(tiny: Tiny, graph: Path) -> None:
    model = model_of(tiny).state_dict()
    model["head.weight"] = model["head.weight"][list(tiny.config.draft_vocabulary)]
    read = read_weights(graph, tiny.config)
    assert set(read) == set(model)
    for name, weight in read.items():
        wanted = model[name].numpy()
        away = np.abs(weight[..., : wanted.shape[-1]] - wanted).max()
        assert away <= np.abs(wanted).max() / 8, f"{name}: more than a step of 4 bits"


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


def test_a_file_that_is_no_quantised_graph_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(DrafterCorrupt, match="not the graph that its config describes"):
        read_weights(tiny.path, tiny.config)
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    with pytest.raises(DrafterCorrupt, match="no ONNX graph"):
        read_weights(tmp_path / "junk.onnx", tiny.config)


def test_a_graph_whose_layers_share_weights_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    quantise_graph(tiny.path, tmp_path / "shared.onnx", "int8")
    answers = replayed(tiny, 4)
    with pytest.raises(DrafterError, match="share weights"):
        adapt(tmp_path / "shared.onnx", tiny.config, answers, [], answers, tmp_path / "out.onnx")


def test_it_learns_what_its_graph_then_guesses(tiny: Tiny, graph: Path, tmp_path: Path) -> None:
    learnt, judged, out = replayed(tiny, 16), replayed(tiny, 4), tmp_path / "learnt.onnx"
    steps: list[tuple[int, int]] = []
    pace = Pace(rate=1e-2, steps=60)
    assert adapt(graph, tiny.config, learnt, [], judged, out, pace, progress=lambda done, of: steps.append((done, of)))
    assert steps[-1] == (60, 60)
    before, after = hits(tiny, graph, judged).mean(), hits(tiny, out, judged).mean()
    assert after > before + 0.1


def test_half_of_each_step_is_rehearsed(tiny: Tiny, graph: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    older, newer = replayed(tiny, 8), replayed(tiny, 8, 8)
    adapt(
        graph, tiny.config, newer, older, older, tmp_path / "out.onnx", Pace(epochs=1, steps=0),
        progress=lambda done, of: steps.append((done, of)),
    )  # fmt: skip
    assert steps[-1] == (2, 2), "four of the eight newer answers fit into a step"


def test_where_nothing_is_gained_or_it_is_halted_nothing_is_written(tiny: Tiny, graph: Path, tmp_path: Path) -> None:
    answers, out = replayed(tiny, 4), tmp_path / "out.onnx"
    assert not adapt(graph, tiny.config, answers, [], answers, out, halted=lambda: True)
    assert not adapt(graph, tiny.config, [], answers, answers, out)
    assert not adapt(graph, tiny.config, answers, [], answers, out, Pace(rate=0.0, epochs=1, steps=0))
    assert not out.exists()
