"""Train a baseline as MoA is trained: the same answers, packing, optimisers, schedule and loop."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch
from torch import Tensor
from transformers import PreTrainedModel

from drafter.training.answers import Conversation
from drafter.training.baselines.config import BaselineConfig
from drafter.training.baselines.model import Baseline
from drafter.training.baselines.recipe import BaselineRecipe
from drafter.training.baselines.shapes import build
from drafter.training.distil import Batch, batches
from drafter.training.loop import fit
from drafter.training.losses import Losses
from drafter.training.target import hidden_states


def train_baseline(
    config: BaselineConfig,
    target: PreTrainedModel,
    data: list[Conversation],
    out: Path,
    recipe: BaselineRecipe,
    device: str = "cpu",
) -> Baseline:
    """Train for `recipe.steps`; a checkpoint in `out` is resumed from. The model's config tells steps and seconds."""
    torch.manual_seed(recipe.seed)
    target = target.to(device).eval().requires_grad_(False)
    model = build(config)
    model.borrow(target)
    model.to(device)

    def losses(batch: Batch) -> Losses:
        batch = batch.to(device)
        features, wanted = teach(target, batch, config.features)
        return model.losses(batch, features, wanted, recipe)

    seconds = fit(model, lambda step: batches(data, recipe, step), losses, out, recipe, device)
    model.config = msgspec.structs.replace(config, steps=recipe.steps, seconds=round(seconds, 1))
    return model


@torch.no_grad()
def teach(target: PreTrainedModel, batch: Batch, layers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The target's hidden states of `layers` (B, T, W), and its log-probabilities (n, V) where `batch.learn` holds."""
    features, last = hidden_states(target, batch.ids, batch.positions, batch.causal[:, None], layers)
    head = target.get_output_embeddings()
    return features, torch.log_softmax(head(last[batch.learn]).float(), dim=-1)
