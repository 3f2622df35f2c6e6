"""The interface of EAGLE-2, EAGLE-3 and the independent model for training and drafting.

Row j belongs to token j. It is made from that token and, in EAGLE, from the *feature* of token j - 1. Its output stands
for token j's own feature, and from it the head reads token j + 1. So features of verified tokens 0 .. j - 1 are enough
to draft after token j, like MoA's memory of them. Beyond these, a row takes the output before it.

Shapes: B sequences, M new rows, P cached rows, H the baseline's width (in EAGLE the target's, E), V the vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.context import BaselineContext
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from drafter.model import KeysValues
from drafter.training.batches import Batch
from drafter.training.losses import Losses

FLOAT16_BYTES = 2


class Baseline(nn.Module, ABC):
    """A drafter that runs in float PyTorch, for measurements only."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    @abstractmethod
    def borrow(self, target: PreTrainedModel) -> None:
        """Copy what is the target's own. A head that is trained starts as the target's."""

    @abstractmethod
    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """One step: outputs (..., M, H), and the new cache rows of each layer.

        `tokens`, `positions` (..., M). `previous` (..., M, H): the encoded feature of the token before each, or the
        output that stands for it. `past`: (..., heads, P, size) of each layer. `mask` (..., M, P+M) bool: true where a
        row sees a row.
        """

    @abstractmethod
    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: BaselineRecipe) -> Losses:
        """The losses of one batch.

        `features` (B, T, W) and log-probabilities `wanted` (n, V) are the target's; the latter where `batch.learn`
        holds.
        """

    def encode(self, features: Tensor) -> Tensor:
        """Encode features of verified tokens, (..., W) -> (..., H).

        The result crosses the wire, and rows are made from it.
        """
        return features

    def logits(self, out: Tensor) -> Tensor:
        """The next token's logits for each output, (..., H) -> (..., V)."""
        return self.head(out)  # type: ignore[no-any-return]

    @property
    def bytes_per_token(self) -> int:
        """Bytes on the wire for each verified token, besides the token itself: encoded features in float16."""
        return FLOAT16_BYTES * self.config.hidden if self.config.features else 0

    def empty_past(self, *batch: int) -> list[KeysValues]:
        """No cached rows."""
        shape = (*batch, self.config.kv_heads, 0, self.config.head_size)
        return [(self.embedding.weight.new_zeros(shape),) * 2 for _ in range(self.config.layers)]

    def context(self) -> BaselineContext:
        """An empty conversation."""
        return BaselineContext(self)


def shifted(features: Tensor, positions: Tensor) -> Tensor:
    """For each token of packed rows (B, T, H), the feature of the one before it; zero if there is none."""
    return torch.where(positions[..., None] > 0, features.roll(1, dims=-2), 0.0)


def borrow_ends(embedding: nn.Embedding, head: nn.Linear, target: PreTrainedModel) -> None:
    """Copy the target's embedding and head."""
    with torch.no_grad():
        embedding.weight.copy_(target.get_input_embeddings().weight)
        head.weight.copy_(target.get_output_embeddings().weight)
