"""Train a baseline as MoA is trained: the same answers, packing, optimisers, schedule and loop."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.model import Baseline
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from benchmarks.baseline_drafters.shapes import build
from drafter.training.answers import AnsweredConversation
from drafter.training.batches import Batch, batches, split, unseen_batches
from drafter.training.loop import fit, means
from drafter.training.losses import Losses
from drafter.training.teacher import Recording, Teacher


def train_baseline(
    config: BaselineConfig,
    target: PreTrainedModel,
    data: list[AnsweredConversation],
    out: Path,
    recipe: BaselineRecipe,
    device: str = "cpu",
    recording: Recording | None = None,
) -> Baseline:
    """Train for `recipe.steps`; a checkpoint in `out` is resumed. The model's config counts steps and seconds.

    `recording`: features of this target on these data, used in place of the target's forwards.
    """
    torch.manual_seed(recipe.seed)
    target = target.to(device).eval().requires_grad_(False)
    model = build(config)
    model.borrow(target)
    model.to(device)

    teacher, head = recording or Teacher(target), target.get_output_embeddings()

    def losses(batch: Batch) -> Losses:
        batch = batch.to(device)
        features, wanted = teach(teacher, head, batch, config.taught)
        return model.losses(batch, features, wanted, recipe)

    learnt, unseen = split(data)
    some = unseen_batches(learnt, unseen, recipe)
    if config.copied:
        first = next(batches(learnt, recipe)).to(device)
        model.begin(first, teach(teacher, head, first, config.taught)[0])

    def check() -> dict[str, object]:
        return means([losses(batch) for batch in some])

    stream = partial(batches, learnt, recipe)
    seconds = fit(model, stream, losses, out, recipe, device, check if unseen else None)
    model.config = msgspec.structs.replace(config, steps=recipe.steps, seconds=round(seconds, 1))
    return model


@torch.no_grad()
def teach(
    teacher: Teacher | Recording, head: nn.Module, batch: Batch, layers: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """The target's hidden states of `layers` (B, T, W), and its log-probabilities (n, V) where `batch.learn` holds."""
    features, last = teacher.hidden_states(batch, layers)
    return features, torch.log_softmax(head(last[batch.learn]).float(), dim=-1)
