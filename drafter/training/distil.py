"""Distil a MoA drafter from a frozen target, on answers that the target itself gave. Training can be resumed.

One forward pass trains every draft step at once, with the T-step-bounded mask: a query sees the target's memory only up
to an anchor, so it learns to draft from memory that is 1 .. T tokens old. Most gaps have the length of a draft tree's
depth. A heavy tail (hundreds of tokens, whole last turns without memory) teaches it to continue alone while the line is
down. Source of the mask and of the two-part loss: arXiv 2410.03804 and its authors' training code.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from drafter.model import DraftModel, Exit, MemoryEncoder, load_draft_model
from drafter.training.batches import AnsweredConversation, Batch, additive, batches, split, unseen_batches
from drafter.training.loop import fit, means
from drafter.training.losses import Losses, agrees, divergence
from drafter.training.precision import autocast
from drafter.training.recipe import Recipe
from drafter.training.target import Features, borrow, copy_layers, features
from models.config import DrafterConfig

DEPTHS = 8
"""Draft steps with a logged accuracy."""


class Distiller(nn.Module):
    """Both halves of the drafter, trained together against one target."""

    def __init__(self, config: DrafterConfig, target: PreTrainedModel) -> None:
        super().__init__()
        self.config = config
        self.encoder = MemoryEncoder(config)
        self.draft = DraftModel(config)
        borrow(self.draft, target)
        self.spread: Tensor
        self.register_buffer("spread", torch.ones(config.hidden))
        """The spread of the target's hidden states where the drafter's own layers end, by dimension."""

    def forward(self, batch: Batch, seen: Features, recipe: Recipe) -> Losses:
        """The losses of one batch, given what the target computed for it."""
        rows, length = batch.ids.shape
        index = torch.arange(length, device=batch.ids.device)
        causal = batch.causal
        remembered = causal & (index[None, None, :] <= batch.start[:, :, None])

        memory = [
            tuple(side.unflatten(0, (rows, length)).transpose(1, 2) for side in pair)
            for pair in self.encoder(
                seen.keys_values.flatten(0, 1),
                batch.positions.flatten(),
            )
        ]
        draft = self.draft
        x = draft.embedding(batch.ids) if seen.start is None else seen.start
        near = additive(causal & (index[None, None, :] >= batch.near[:, :, None]))
        for layer in draft.self_attention:
            x = layer.finish(x, *layer.project(x, batch.positions), near)  # type: ignore[operator]
        x = draft.exit(draft.cross_attention(x, batch.positions, memory[0], additive(remembered)))
        guessed_entry = x
        # A query sees the target's own rows up to its anchor, and after it rows made from the drafter's guesses.
        both = additive(torch.cat((remembered, causal & ~remembered), dim=-1))
        for layer, (true_keys, true_values) in zip(draft.target_layers, memory[1:]):
            query, key, value = layer.project(x, batch.positions)  # type: ignore[operator]
            keys, values = torch.cat((true_keys, key), dim=-2), torch.cat((true_values, value), dim=-2)
            x = layer.finish(x, query, keys, values, both)  # type: ignore[operator]
        hidden = draft.norm(x)

        learn = batch.learn
        staleness = (index[None, :] - batch.start)[learn]
        weight = recipe.discount ** (staleness - 1).clamp(max=DEPTHS).to(hidden.dtype)
        with torch.no_grad():
            wanted = torch.log_softmax(draft.head(seen.last[learn]).float(), dim=-1)
        guessed = torch.log_softmax(draft.head(hidden[learn]).float(), dim=-1)
        away = divergence(wanted, guessed)
        ends = hidden[learn].float(), seen.last[learn].float()
        distance = nn.functional.smooth_l1_loss(*ends, reduction="none").mean(-1)
        if self.config.inference_layers:
            entries = (guessed_entry[learn].float() / self.spread, seen.entry[learn].float() / self.spread)
            distance = (distance + nn.functional.smooth_l1_loss(*entries, reduction="none").mean(-1)) / 2
        total = ((away + distance) * weight).sum() / weight.sum()
        right = agrees(wanted, guessed)
        by_depth = [
            right[staleness == s].mean().item() if (staleness == s).any() else 0.0 for s in range(1, DEPTHS + 1)
        ]
        return Losses(total, away.mean().item(), by_depth, right.mean().item())


def train(
    config: DrafterConfig,
    target: PreTrainedModel,
    data: list[AnsweredConversation],
    out: Path,
    recipe: Recipe,
    device: str = "cpu",
    init: Path | None = None,
) -> Distiller:
    """Train for `recipe.steps` and return the model. Its config adds these steps and seconds to earlier ones.

    A checkpoint in `out` is resumed. `init`: the folder of an older drafter to start from, for a target that was
    trained further.
    """
    torch.manual_seed(recipe.seed)
    recipe = recipe.for_start(config, trained=init is not None)
    target = target.to(device).eval().requires_grad_(False)
    model = Distiller(config, target).to(device)
    if init is not None:
        model.encoder.load_state_dict(MemoryEncoder.load(init).state_dict())
        model.draft.load_state_dict(load_draft_model(init).state_dict())
        borrow(model.draft, target)
    elif config.from_target:
        copy_layers(model.draft, target)

    def taught(batch: Batch) -> Features:
        return features(target, batch.ids, batch.positions, batch.causal[:, None], config)

    with autocast(device):
        first = next(batches(data, recipe)).to(device)
        entry = taught(first).entry[first.segments > 0].float()
    model.spread.copy_(entry.std(dim=0).clamp(min=1e-6))
    if init is None and isinstance(model.draft.exit, Exit):
        model.draft.exit.fit(entry)

    def losses(batch: Batch) -> Losses:
        batch = batch.to(device)
        return model(batch, taught(batch), recipe)  # type: ignore[no-any-return]

    learnt, unseen = split(data)
    near, alone = (unseen_batches(unseen, replace(recipe, tail=0.0, blank=blank)) for blank in (0.0, 1.0))

    def check() -> dict[str, object]:
        """Figures on held-out answers: with recent memory, and without any."""
        here, away = ([losses(batch) for batch in some] for some in (near, alone))
        return {**means(here), "alone": round(float(np.mean([one.overall for one in away])), 3)}

    stream = partial(batches, learnt, recipe)
    seconds = fit(model, stream, losses, out, recipe, device, check if unseen else None)
    taken = {"steps": config.steps + recipe.steps, "seconds": round(config.seconds + seconds, 1)}
    model.config = msgspec.structs.replace(config, **taken)
    return model
