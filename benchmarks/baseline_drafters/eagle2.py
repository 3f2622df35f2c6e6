"""EAGLE-2's drafter (arXiv 2406.16858), whose model is EAGLE's (arXiv 2401.15077).

From the paper: a linear layer fuses the embedding of a token with the target's feature of the token before it, which is
the hidden state that the target's head reads. One decoder layer follows, then the target's own head; embedding and head
are frozen. It learns to give the next feature, with SmoothL1 on the feature and a tenth of that weight for the
cross-entropy with the target's distribution, which differs from the KL divergence by a constant. Features get uniform
noise, so that the drafter can cope with its own mistakes when it continues from its own outputs. The tree is grown by
expand and rerank (`drafter/search.py`).

Differences: the decoder layer norms its input, which the published code leaves out in its only layer, so that a
learning rate that suits MoA suits it too. The width of its MLP is chosen for a number of trained parameters. Data,
packing, optimisers and schedule are MoA's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.model import Baseline, borrow_ends, shifted
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from drafter.model import KeysValues, SelfAttentionLayer, layer_shape
from drafter.training.batches import Batch, additive
from drafter.training.losses import Losses, agrees, distances


class Eagle2(Baseline):
    """One decoder layer over [embedding ; feature]. Its output is the next feature."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        self.fuse = nn.Linear(2 * config.hidden, config.hidden)
        self.layer = SelfAttentionLayer(*layer_shape(config))
        self.embedding.requires_grad_(False)
        self.head.requires_grad_(config.own_head)

    def borrow(self, target: PreTrainedModel) -> None:
        borrow_ends(self.embedding, self.head, target)

    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        x = self.fuse(torch.cat((self.embedding(tokens), previous), dim=-1))
        out, rows = self.layer(x, positions, past[0], additive(mask))
        return out, [rows]

    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: BaselineRecipe) -> Losses:
        """The losses of one batch, teacher-forced.

        Each row starts from the target's feature, so agreement is known at depth 1 only.
        """
        noise = recipe.noise * (2 * torch.rand_like(features) - 1)
        previous = shifted(features + noise, batch.positions)
        past = self.empty_past(len(batch.ids))
        out, _ = self(batch.ids, batch.positions, previous, past, batch.causal)
        out = out[batch.learn]
        guessed = torch.log_softmax(self.logits(out).float(), dim=-1)
        distance = nn.functional.smooth_l1_loss(out.float(), features[batch.learn].float())
        away, kl = distances(wanted, guessed, recipe.loss)
        total = away.mean() + recipe.feature_weight * distance
        return Losses(total, kl.mean().item(), [agrees(wanted, guessed).mean().item()])
