"""Step graphs of tiny random drafters: wide weights, so that tokens, positions, cache and memory all matter."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from drafter.cache import DraftCache
from drafter.context import DraftContext
from drafter.runtime import Drafter
from drafter.second_stage import SecondStage
from drafter.step import Correction, StepGraph
from models.config import GRAPH, DrafterConfig, FirstMemory, write_config
from models.files import TARGET_GRAPH
from models.memory import MemoryRow, quantise_row
from models.tree import DraftTree
from tests.support.made_once import made_once

if TYPE_CHECKING:
    from drafter.model import DraftModel

VOCABULARY = 61


@dataclass(frozen=True)
class Tiny:
    """A float step graph and ways to make what it needs."""

    config: DrafterConfig
    path: Path
    step: StepGraph

    @property
    def correctable(self) -> DrafterConfig:
        """Its graph takes a correction, and gives the hidden states that this needs."""
        return msgspec.structs.replace(self.config, correctable=True)

    def context(
        self,
        tokens: list[int] | None = None,
        memory: list[MemoryRow] | None = None,
        second_stage: SecondStage | None = None,
    ) -> DraftContext:
        context = DraftContext(DraftCache(self.step, self.config.memory_layers), VOCABULARY, second_stage)
        context.commit(tokens or [])
        if memory:
            context.remember(0, memory)
        return context

    def tokens(self, seed: int, count: int) -> list[int]:
        return np.random.default_rng(seed).integers(0, VOCABULARY, count).tolist()

    def memory(self, seed: int, count: int) -> list[MemoryRow]:
        random = np.random.default_rng(seed)
        return [quantise_row(*random.normal(size=(2, count, *shape))) for shape in self.config.memory_layers]


def draft_model(config: DrafterConfig) -> DraftModel:
    """The float weights, the same each time."""
    import torch

    from drafter.model import DraftModel

    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = DraftModel(config).eval().requires_grad_(False)
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "null" not in name:
                torch.nn.init.normal_(weight, std=0.3)
        # Without a norm before the head, its inputs are large; this makes the likeliest token about as likely.
        model.head.weight *= 1.0 if config.inference_layers else 0.15
    return model


def some_correction(config: DrafterConfig, seed: int = 0) -> Correction:
    """Of rank 3, over the tokens that the head can draft."""
    random, kept = np.random.default_rng(seed), len(config.draft_vocabulary) or config.vocabulary
    down, up = ((config.hidden, 3), (3, kept))
    return Correction(*(random.normal(size=size).astype(np.float32) for size in (down, up)))


def knowing_its_first_memory(pair: Path, folder: Path) -> Drafter:
    """This pair's drafter, changed in `folder`: it knows the memory of the first token, as those made today do."""
    from models.engines.memory_encoder import ArrayEncoder
    from models.engines.onnx_engine import OnnxEngine

    drafter = Drafter.load(folder)
    engine, token = OnnxEngine(pair / "target" / TARGET_GRAPH, ArrayEncoder.load(folder)), drafter.asked_as("a")[0]
    context = engine.context()
    context.assign(0, [token, token])
    engine.verify(context, DraftTree.empty())
    first = FirstMemory(token, engine.memory(context, 0, 1))
    write_config(folder, msgspec.structs.replace(drafter.config, first_memory=first))
    return Drafter.load(folder)


@pytest.fixture(scope="session", params=[(0, 0), (1, 1)], ids=["N=0", "N=1, F=1"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    # torch takes seconds; the tests that need no drafter run without.
    from drafter.training.export import export_graph
    from tests.remote.verifier.tiny import encoder_config

    layers, first_layers = request.param
    config = msgspec.structs.replace(
        encoder_config(layers), vocabulary=VOCABULARY, first_layers=first_layers, heads=4, head_size=8, top=16,
        draft_vocabulary=tuple(range(0, VOCABULARY, 2)),
    )  # fmt: skip
    name = f"step-{config.inference_layers}-{config.first_layers}"
    path = made_once(tmp_path_factory, name, lambda folder: export_graph(draft_model(config), folder / GRAPH)) / GRAPH
    return Tiny(config, path, StepGraph(path, config))


@pytest.fixture
def folder(tiny_pair: Path, tmp_path: Path) -> Path:
    """A copy of the tiny drafter, to be changed."""
    return Path(shutil.copytree(tiny_pair / "drafter", tmp_path / "drafter"))
