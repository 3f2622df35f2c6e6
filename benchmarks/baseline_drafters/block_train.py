"""Train a block drafter as MoA is trained: the same answers, packing, optimisers, schedule and loop."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.block import BlockConfig, BlockModel
from drafter.training.answers import AnsweredConversation
from drafter.training.batches import Batch, batches, split, unseen_batches
from drafter.training.loop import fit, means
from drafter.training.losses import Losses
from drafter.training.recipe import Recipe
from drafter.training.teacher import Recording, Teacher


def train_block(
    config: BlockConfig,
    target: PreTrainedModel,
    data: list[AnsweredConversation],
    out: Path,
    recipe: Recipe,
    device: str = "cpu",
    recording: Recording | None = None,
) -> BlockModel:
    """Train for `recipe.steps`; a checkpoint in `out` is resumed.

    `recording`: features of this target on these data, used in place of the target's forwards.
    """
    torch.manual_seed(recipe.seed)
    target = target.to(device).eval().requires_grad_(False)
    model = BlockModel(config)
    model.borrow(target)
    model.to(device)
    teacher = recording or Teacher(target)
    learnt, unseen = split(data)
    some = unseen_batches(learnt, unseen, recipe)
    first = next(batches(learnt, recipe)).to(device)
    states = teacher.features(first, config.drafter).start
    assert states is not None
    model.masks.fit(states[first.segments > 0].float())

    def losses(batch: Batch) -> Losses:
        batch = batch.to(device)
        return model.losses(batch, teacher.features(batch, config.drafter), recipe)

    def check() -> dict[str, object]:
        torch.manual_seed(0)  # The same blocks each time.
        return means([losses(batch) for batch in some])

    fit(model, partial(batches, learnt, recipe), losses, out, recipe, device, check if unseen else None)
    return model
