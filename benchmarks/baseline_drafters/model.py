"""The interface of EAGLE-2, EAGLE-3 and the independent model for training and drafting.

Row j belongs to token j. It is made from that token and, in EAGLE, from the *feature* of token j - 1. Its output stands
for token j's own feature, and from it the head reads token j + 1. So features of verified tokens 0 .. j - 1 are enough
to draft after token j, like MoA's memory of them. Beyond these, a row takes the output before it.

The target's first F layers may run on the tokens before all that, frozen, as they do in MoA. Own layers may begin as
layers of the target. Their MLPs may be wider than the target's: the further neurons begin with no say.

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
from drafter.model import KeysValues, SelfAttentionLayer, layer_shape
from drafter.training.batches import Batch, additive
from drafter.training.losses import Losses
from models.memory import dequantise, quantise

FLOAT16_BYTES = 2


class Baseline(nn.Module, ABC):
    """A drafter that runs in float PyTorch, for measurements only."""

    on_the_verifier: tuple[str, ...] = ()
    """Names of the parts that run beside the target."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        self.first_layers = nn.ModuleList(
            SelfAttentionLayer(
                config.hidden,
                config.heads,
                config.kv_heads,
                config.head_size,
                config.first_ffn,
                config.rope,
                config.norm_eps,
            )
            for _ in range(config.first_layers)
        ).requires_grad_(False)
        self.layers = nn.ModuleList(SelfAttentionLayer(*layer_shape(config)) for _ in range(config.layers))
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    @abstractmethod
    def borrow(self, target: PreTrainedModel) -> None:
        """Copy what is the target's own, and the layers that own ones begin as. A trained head starts as the
        target's."""

    @abstractmethod
    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """One step: outputs (..., M, H), and the new cache rows of each layer.

        `tokens`, `positions` (..., M). `previous` (..., M, H): the encoded feature of the token before each, or the
        output that stands for it. `past`: (..., heads, P, size) of each layer, the target's first ones before its own.
        `mask` (..., M, P+M) bool: true where a row sees a row.
        """

    @abstractmethod
    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: BaselineRecipe) -> Losses:
        """The losses of one batch.

        `features` (B, T, W), the states of `config.taught`, and log-probabilities `wanted` (n, V) are the target's; the
        latter where `batch.learn` holds.
        """

    def begin(self, batch: Batch, features: Tensor) -> None:
        """Look at the first batch before training. `features` as in `losses`."""

    def encode(self, features: Tensor) -> Tensor:
        """Encode features of verified tokens, (..., W) -> (..., H).

        The result crosses the wire, and rows are made from it.
        """
        return features

    def logits(self, out: Tensor) -> Tensor:
        """The next token's logits for each output, (..., H) -> (..., V)."""
        return self.head(out)  # type: ignore[no-any-return]

    def wire(self, features: Tensor) -> Tensor:
        """Encoded features (n, H) as they arrive on the device."""
        bits = self.config.wire_bits
        if bits == 16:
            return features.half()
        parts = features.float().cpu().numpy().reshape(len(features), -1, self.config.head_size)
        return torch.from_numpy(dequantise(*quantise(parts, bits))).flatten(1).to(features.device)

    @property
    def bytes_per_token(self) -> int:
        """Bytes on the wire for each verified token, besides the token itself."""
        config = self.config
        if not config.features:
            return 0
        scales = 0 if config.wire_bits == 16 else FLOAT16_BYTES * config.hidden // config.head_size
        return config.hidden * config.wire_bits // 8 + scales

    def empty_past(self, *batch: int) -> list[KeysValues]:
        """No cached rows."""
        shape = (*batch, self.config.kv_heads, 0, self.config.head_size)
        return [(self.embedding.weight.new_zeros(shape),) * 2 for _ in [*self.first_layers, *self.layers]]

    def context(self) -> BaselineContext:
        """An empty conversation."""
        return BaselineContext(self)

    def taught(self, batch: Batch, features: Tensor) -> tuple[Tensor, Tensor]:
        """The target's states of a batch, (B, T, W) -> those that it reads, and those that its own layers begin with.

        The latter are the embeddings if it runs none of the target's layers.
        """
        if not self.config.first_layers:
            return features, self.embedding(batch.ids)
        width = self.config.hidden
        return features[..., :-width], features[..., -width:]

    def run(
        self, layers: nn.ModuleList, x: Tensor, positions: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """Run layers one after another, each with its cached rows."""
        rows, seen = [], additive(mask)
        for layer, cached in zip(layers, past, strict=True):
            x, new = layer(x, positions, cached, seen)
            rows.append(new)
        return x, rows


def shifted(features: Tensor, positions: Tensor) -> Tensor:
    """For each token of packed rows (B, T, H), the feature of the one before it; zero if there is none."""
    return torch.where(positions[..., None] > 0, features.roll(1, dims=-2), 0.0)


@torch.no_grad()
def borrow_from(model: Baseline, target: PreTrainedModel) -> None:
    """Copy the target's embedding, head and first layers, and the layers that own ones begin as."""
    model.embedding.weight.copy_(target.get_input_embeddings().weight)
    model.head.weight.copy_(target.get_output_embeddings().weight)
    theirs = target.base_model.layers
    for mine, its in zip(model.first_layers, theirs):
        mine.load_state_dict(its.state_dict())
    for mine, number in zip(model.layers, model.config.copied):
        _begin_as(mine, theirs[number])


def _begin_as(own: nn.Module, theirs: nn.Module) -> None:
    """Give a layer the function of a target's layer.

    Its MLP may have more neurons. These begin with random inputs and no output. Queries, keys and values may read more
    than the target's do. Weights for this, which stands before, begin at zero.
    """
    source = theirs.state_dict()
    for name, weight in own.state_dict().items():
        if name not in source:
            continue
        given = source[name]
        if name.endswith("down_proj.weight"):
            weight.zero_()
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
            weight.zero_()
            weight[:, weight.shape[1] - given.shape[1] :] = given
        else:
            weight[tuple(slice(size) for size in given.shape)] = given
