"""The drafters of the comparison on equal terms: how each begins, is trained, and is made ready to draft.

All begin as layers of one target, learn from the same recorded answers in the same loop, read about as many parameters
in a draft step as MoA does, send 4 bits a number, draft trees of the same size, and run in float PyTorch. None has a
second stage, a calibration or a datastore.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from torch import nn
from transformers import PreTrainedModel

from benchmarks.baseline_drafters import Baseline, BaselineRecipe, build, equal_config, train_baseline
from benchmarks.baseline_drafters.block import BlockConfig, BlockModel
from benchmarks.baseline_drafters.block_context import BlockDrafter
from benchmarks.baseline_drafters.block_train import train_block
from benchmarks.baseline_drafters.config import Method
from benchmarks.baseline_drafters.shapes import features_of, moa_parameters, moa_step_parameters, step_parameters
from benchmarks.drafting import AnyDrafter
from benchmarks.patience import Patience, train_until_flat
from drafter.model import memory_digest
from drafter.model.torch_step import TorchStep
from drafter.runtime import Drafter
from drafter.training.answers import AnsweredConversation
from drafter.training.distil import Distiller, train
from drafter.training.loop import trained_parameters
from drafter.training.target import drafter_config
from drafter.training.teacher import Recording
from models.config import Bits, DrafterConfig
from models.engines.torch_engine import TorchEngine
from models.memory import memory_bytes

Start = Literal["copied", "random"]
"""Layers of the target, or random ones of the same shape."""

BITS: Bits = 4
SKIP: Method = "layer-skip"


@dataclass(frozen=True)
class Setting:
    """What all entrants share."""

    target: PreTrainedModel
    data: list[AnsweredConversation]
    recording: Recording
    asker: Drafter
    """A drafter of this target, for its text side."""
    first_layers: int
    """F of MoA."""
    recipe: BaselineRecipe
    """All but rate, seed and steps."""
    block: int = 8

    @property
    def moa(self) -> DrafterConfig:
        """MoA's shapes."""
        config = drafter_config(self.target, "comparison", first_layers=self.first_layers, inference_layers=1)
        return msgspec.structs.replace(
            config, memory_bits=BITS, correctable=False, stop_tokens=self.asker.config.stop_tokens
        )


@dataclass(frozen=True)
class Entrant:
    """One drafter of the comparison."""

    name: str
    method: Method | None = None
    """None: MoA or a block drafter."""
    starts: tuple[Start, ...] = ("copied",)
    """What it may begin with. If there are several, all are tried, with every rate."""
    seconds: float = 1.0
    """About how long a step takes on one thread, before any was timed."""

    def config(self, setting: Setting, start: Start = "copied") -> Any:
        """Its shapes for this target. They do not depend on the start."""
        moa, first = setting.moa, setting.first_layers
        depth = moa.target_layers
        if self.name == "moa":
            return moa
        if self.name == "block":
            return BlockConfig(drafter=moa, block=setting.block)
        copied = {
            "eagle2": (*range(first + 1), depth - 1),
            "eagle2-f": (first, depth - 1),
            "eagle3": tuple(range(max(0, depth - 3), depth)),
            SKIP: (*range(first + 1), *range(moa.replaced, depth)),
        }[self.name]
        assert self.method is not None
        config = equal_config(setting.target, moa, self.method, copied, first if self.name == "eagle2-f" else 0)
        config = msgspec.structs.replace(config, stop_tokens=moa.stop_tokens)
        return msgspec.structs.replace(config, copied=()) if start == "random" else config

    def train(self, setting: Setting, recipe: BaselineRecipe, out: Path, start: Start = "copied") -> nn.Module:
        """Train for the steps of the recipe; a checkpoint in `out` is resumed."""
        config, data, recording = self.config(setting, start), setting.data, setting.recording
        if self.name == "moa":
            return train(config, setting.target, data, out, recipe, recording=recording)
        if self.name == "block":
            return train_block(config, setting.target, data, out, recipe, recording=recording)
        return train_baseline(config, setting.target, data, out, recipe, recording=recording)

    def train_until_flat(
        self, setting: Setting, recipe: BaselineRecipe, patience: Patience, out: Path, start: Start = "copied"
    ) -> tuple[nn.Module, int]:
        """Train until the held-out divergence is flat; see `patience.py`."""
        return train_until_flat(partial(self._train, setting, out, start), recipe, patience, out)

    def _train(self, setting: Setting, out: Path, start: Start, recipe: BaselineRecipe) -> nn.Module:
        return self.train(setting, recipe, out, start)

    def untrained(self, setting: Setting) -> nn.Module:
        """A baseline as it begins."""
        model = build(self.config(setting))
        model.borrow(setting.target)
        return model

    def ready(self, setting: Setting, model: nn.Module) -> tuple[TorchEngine, AnyDrafter]:
        """An engine of the target and the drafter that goes with it."""
        target = setting.target
        if isinstance(model, Baseline):
            return TorchEngine(target), model.eval().requires_grad_(False)
        assert isinstance(model, Distiller | BlockModel)
        encoder = copy.deepcopy(model.encoder).eval().requires_grad_(False)
        digest = memory_digest(target.state_dict(), encoder).hex()
        encoder.config = msgspec.structs.replace(encoder.config, memory=digest)
        engine = TorchEngine(target, encoder)
        if isinstance(model, BlockModel):
            return engine, BlockDrafter(model)
        step = TorchStep(copy.deepcopy(model.draft).eval(), torch.device("cpu"), bits=None)
        asker = setting.asker
        return engine, Drafter(encoder.config, asker.text, step, prompt=asker.prompt)

    def sizes(self, setting: Setting) -> dict[str, int]:
        """Trained parameters, parameters of a draft step, and bytes on the wire per verified token."""
        config = self.config(setting)
        if self.method is not None:
            with torch.device("meta"):
                model = build(config)
            trained, wire = trained_parameters(model), model.bytes_per_token
            return {"trained_parameters": trained, "step_parameters": step_parameters(config), "bytes_per_token": wire}
        wire = memory_bytes(1, setting.moa.memory_layers, BITS)
        if self.name == "moa":
            trained, step = moa_parameters(config), moa_step_parameters(config)
        else:
            with torch.device("meta"):
                block = BlockModel(config)
            trained = trained_parameters(block)
            # The Markov head runs on nodes, not on the rows of a step.
            parts = (block.first_layers, block.layers, block.norm, block.head)
            step = sum(weight.numel() for part in parts for weight in part.parameters())
        return {"trained_parameters": trained, "step_parameters": step, "bytes_per_token": wire}


ENTRANTS = (
    Entrant("moa"),
    Entrant("block"),
    Entrant("eagle2-f", "eagle2"),
    Entrant("eagle2", "eagle2", seconds=2.0),
    Entrant("eagle3", "eagle3", ("copied", "random"), seconds=5.0),
    Entrant(SKIP, SKIP),
)
"""In the order in which they run. The last one learns nothing."""


def recorded(depth: int, first_layers: int) -> tuple[int, ...]:
    """The hidden states that they learn from, of a target with so many layers, besides the last one."""
    return tuple(sorted({first_layers, depth - 1, *features_of("eagle3", depth)} - {0, depth}))
