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

With `copied` layers it begins as its target without those in between, as MoA does. Then there may be several layers,
and first layers of the target before them. What is fused is normed, and added to the stream in units of the spread of
the target's states there, because these can be a hundred times as large as a feature. It begins at zero. The target's
final norm, frozen, ends it: the output is what the head reads, and what is fed back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.model import Baseline, borrow_from, shifted
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from drafter.model import KeysValues, Norm
from drafter.training.batches import Batch
from drafter.training.losses import Losses, agrees, distances


class Eagle2(Baseline):
    """Decoder layers over [token ; feature]. Their output is the next feature."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        self.fuse = nn.Linear(2 * config.hidden, config.hidden)
        if config.copied:
            self.token_norm, self.feature_norm, self.norm = (Norm(config.hidden, config.norm_eps) for _ in range(3))
            nn.init.zeros_(self.fuse.weight)
            nn.init.zeros_(self.fuse.bias)
            self.norm.requires_grad_(False)
            self.spread: Tensor
            self.register_buffer("spread", torch.ones(config.hidden))
        self.embedding.requires_grad_(False)
        self.head.requires_grad_(config.own_head)

    def borrow(self, target: PreTrainedModel) -> None:
        borrow_from(self, target)
        if self.config.copied:
            self.norm.load_state_dict(target.base_model.norm.state_dict())

    @torch.no_grad()
    def begin(self, batch: Batch, features: Tensor) -> None:
        """Take the spread of the states that features are added to."""
        if self.config.copied:
            _, start = self.taught(batch, features)
            self.spread.copy_(start[batch.segments > 0].float().std(dim=0).clamp(min=1e-6))

    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        first = len(self.first_layers)
        x, rows = self.run(self.first_layers, self.embedding(tokens), positions, past[:first], mask)
        out, more = self._continue(x, positions, previous, past[first:], mask)
        return out, rows + more

    def _continue(
        self, x: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """A step after the target's first layers, whose output is `x`."""
        if self.config.copied:
            both = torch.cat((self.token_norm(x), self.feature_norm(previous)), dim=-1)
            # The stream stays in float32 where layers compute in bfloat16.
            x = x + self.spread * self.fuse(both).float()
        else:
            x = self.fuse(torch.cat((x, previous), dim=-1))
        out, rows = self.run(self.layers, x, positions, past, mask)
        return self.norm(out) if self.config.copied else out, rows

    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: BaselineRecipe) -> Losses:
        """The losses of one batch, teacher-forced.

        Each row starts from the target's feature, so agreement is known at depth 1 only.
        """
        features, start = self.taught(batch, features)
        noise = recipe.noise * (2 * torch.rand_like(features) - 1)
        previous = shifted(features + noise, batch.positions)
        past = self.empty_past(len(batch.ids))[len(self.first_layers) :]
        out, _ = self._continue(start, batch.positions, previous, past, batch.causal)
        out = out[batch.learn]
        guessed = torch.log_softmax(self.logits(out).float(), dim=-1)
        distance = nn.functional.smooth_l1_loss(out.float(), features[batch.learn].float())
        away, kl = distances(wanted, guessed, recipe.loss)
        total = away.mean() + recipe.feature_weight * distance
        return Losses(total, kl.mean().item(), [agrees(wanted, guessed).mean().item()])
