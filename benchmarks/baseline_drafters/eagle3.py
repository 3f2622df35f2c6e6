"""EAGLE-3's drafter (arXiv 2503.01840).

From the paper: the target's hidden states of a low, a middle and a high layer, fused by a linear layer without bias,
take the place of EAGLE's feature. There is no loss on features, only the cross-entropy with the target's distribution,
which differs from the KL divergence by a constant. *Training-time test*: in training, the drafter is unrolled for
several steps, each fed with the outputs of the step before. The mask shows a row the fused features up to its root, and
the drafter's own rows after it. As in the published code, embedding and feature have separate norms and give queries,
keys and values together; the feature is the residual; the head reads a normed output; and the loss of a step has 0.8
times the weight of the step before.

Differences: the verifier would send the fused features, so these count as bytes on the wire, not the three states. The
head is the target's, frozen, over the whole vocabulary, and cut to the draft vocabulary for drafting, as MoA's is. The
paper trains a head of its own over the draft vocabulary; `own_head` does this, starting from the target's. The layers
are the published ones in proportion to the target's depth (2, 16 and 29 of 32). The width of the MLP is chosen for a
number of trained parameters. Data, packing, optimisers and schedule are MoA's.

EAGLE-3.1 (`state_norms`, arXiv 2605.09992) norms each of the three states before they are fused, and feeds back the
output that the head's norm has normed. Without this, the larger states drown the others, and a feature grows with each
step that it is fed back.

With `copied` layers, the own layers begin as layers of the target, the norm as its final norm, and the fusing layer
passes on the nearest state below the first of them, which becomes the stream in the spread that the target has there.
Weights for embeddings begin at zero. There may be several layers, of which only the first reads embeddings, and first
layers of the target, whose output it then reads in the place of the embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.model import Baseline, borrow_from, shifted
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from drafter.model import KeysValues, Norm, SelfAttentionLayer, layer_shape
from drafter.training.batches import Batch, additive
from drafter.training.losses import Losses, agrees, distances
from models.config import Rope


class FusedLayer(SelfAttentionLayer):
    """A decoder layer on features, whose attention also reads embeddings."""

    def __init__(self, size: int, heads: int, kv_heads: int, head_size: int, ffn: int, rope: Rope, eps: float) -> None:
        super().__init__(size, heads, kv_heads, head_size, ffn, rope, eps, inputs=2 * size)
        self.embedding_norm = Norm(size, eps)

    def project_pair(self, embedded: Tensor, features: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project `embedded` and `features`, each (..., M, E): query (..., hq, M, d), key and value (..., hk, M, d)."""
        both = torch.cat((self.embedding_norm(embedded), self.input_layernorm(features)), dim=-1)
        return self.project_normed(both, positions)


class Eagle3(Baseline):
    """Decoder layers over fused features. Their output takes the place of these for the next token."""

    on_the_verifier = ("state_norms", "fuse")

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        self.state_norms = nn.ModuleList(
            Norm(config.hidden, config.norm_eps) for _ in config.features if config.state_norms
        )
        self.fuse = nn.Linear(len(config.features) * config.hidden, config.hidden, bias=False)
        self.layers[0] = FusedLayer(*layer_shape(config))
        self.norm = Norm(config.hidden, config.norm_eps)
        if config.copied:
            self.spread: Tensor
            self.register_buffer("spread", torch.ones(config.hidden))
        self.embedding.requires_grad_(False)
        self.head.requires_grad_(config.own_head)

    def borrow(self, target: PreTrainedModel) -> None:
        borrow_from(self, target)
        if self.config.copied:
            self.norm.load_state_dict(target.base_model.norm.state_dict())
            with torch.no_grad():
                at, width = self._passed * self.config.hidden, self.config.hidden
                self.fuse.weight.zero_()
                self.fuse.weight[:, at : at + width] = torch.eye(width)

    @property
    def _passed(self) -> int:
        """Which of the states that it reads is the nearest below the first copied layer."""
        below = [at for at, layer in enumerate(self.config.features) if layer <= self.config.copied[0]]
        return below[-1] if below else 0

    @torch.no_grad()
    def begin(self, batch: Batch, features: Tensor) -> None:
        """Take the spread of the state that the copied layers begin with."""
        if self.config.copied:
            read, _ = self.taught(batch, features)
            state = read.chunk(len(self.config.features), dim=-1)[self._passed][batch.segments > 0]
            self.spread.copy_(state.float().std(dim=0).clamp(min=1e-6))

    def encode(self, features: Tensor) -> Tensor:
        if self.config.state_norms:
            states = features.chunk(len(self.state_norms), dim=-1)
            features = torch.cat([norm(state) for norm, state in zip(self.state_norms, states)], dim=-1)
        return self.fuse(features).float()  # type: ignore[no-any-return]

    def logits(self, out: Tensor) -> Tensor:
        return self.head(out if self.config.state_norms else self.norm(out))  # type: ignore[no-any-return]

    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        first = len(self.first_layers)
        embedded, rows = self.run(self.first_layers, self.embedding(tokens), positions, past[:first], mask)
        x, seen = self._stream(previous), additive(mask)
        for layer, cached in zip(self.layers, past[first:], strict=True):
            query, key, value = _projected(layer, embedded, x, positions)
            keys, values = torch.cat((cached[0], key), dim=-2), torch.cat((cached[1], value), dim=-2)
            x = layer.finish(x, query, keys, values, seen)  # type: ignore[operator]
            rows.append((key, value))
        return self._fed_back(x), rows

    def _stream(self, previous: Tensor) -> Tensor:
        """What the first layer takes for the residual, from fused features or outputs."""
        return self.spread * previous if self.config.copied else previous

    def _fed_back(self, x: Tensor) -> Tensor:
        """The output of a row, from the last layer's."""
        return self.norm(x) if self.config.state_norms else x

    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: BaselineRecipe) -> Losses:
        """The losses of one batch by training-time test.

        In step s, a row's root is s tokens before it, so depth s + 1 is learnt. The first step runs all rows, the
        others only those that a row that is learnt from depends on.
        """
        features, embedded = self.taught(batch, features)
        out, positions, learn = self.encode(features), batch.positions, batch.learn
        rows = torch.arange(batch.ids.shape[1], device=batch.ids.device).expand_as(batch.ids)
        seen = batch.causal
        known: list[list[KeysValues]] = [[] for _ in self.layers]
        losses, divergences, agreement = [], [], []
        for step in range(recipe.unroll):
            previous = shifted(out, positions)
            if step == 1:
                kept, real = near_learnt(batch.learn, recipe.unroll)
                previous, embedded, seen = (_chosen(each, kept) for each in (previous, embedded, seen))
                positions, rows, learn = (_chosen(each, kept) for each in (positions, rows, learn))
                learn = learn & real
            x = self._stream(previous)
            every = torch.arange(batch.ids.shape[1], device=rows.device)
            up_to_root = additive(seen & (rows[..., None] - every >= step))
            for layer, before in zip(self.layers, known):
                query, key, value = _projected(layer, embedded, x, positions)
                before.append((key, value))
                x = layer.add(x, attend_unrolled(query, before, up_to_root))  # type: ignore[operator]
            out = self._fed_back(x)
            # Nearer than that to the beginning of a conversation, there is no root.
            rooted = (batch.positions >= step)[batch.learn]
            count = rooted.sum().clamp(min=1)
            guessed, aim = torch.log_softmax(self.logits(out[learn][rooted]).float(), dim=-1), wanted[rooted]
            away, kl = distances(aim, guessed, recipe.loss)
            losses.append(away.sum() / count)
            divergences.append((kl.sum() / count).item())
            agreement.append((agrees(aim, guessed).sum() / count).item())
        weights = [recipe.discount**step for step in range(recipe.unroll)]
        total = torch.stack([weight * loss for weight, loss in zip(weights, losses)]).sum() / sum(weights)
        return Losses(total, sum(divergences) / recipe.unroll, agreement)


def _projected(layer: nn.Module, embedded: Tensor, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of a layer. The first layer also reads the embeddings."""
    if isinstance(layer, FusedLayer):
        return layer.project_pair(embedded, x, positions)
    return layer.project(x, positions)  # type: ignore[operator, no-any-return]


def near_learnt(learn: Tensor, unroll: int) -> tuple[Tensor, Tensor]:
    """The rows that are learnt from and the `unroll` - 1 before each, in order, and which of them are real.

    `learn` (B, T) bool. Both results are (B, M), for the M of the sequence with the most; the others are filled up.
    """
    ahead = nn.functional.pad(learn.float(), (0, unroll - 1)).unsqueeze(1)
    near = nn.functional.max_pool1d(ahead, unroll, stride=1).squeeze(1) > 0
    most = max(1, int(near.sum(-1).max()))
    kept = torch.argsort(~near, dim=-1, stable=True)[:, :most]
    return kept, near.gather(1, kept)


def _chosen(values: Tensor, kept: Tensor) -> Tensor:
    """Rows `kept` (B, M) of values (B, T, ...)."""
    index = kept.view(*kept.shape, *(1,) * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
    return values.gather(1, index)


def attend_unrolled(query: Tensor, known: Sequence[KeysValues], mask: Tensor) -> Tensor:
    """Attention in the last of s + 1 unrolled steps: what a row sees if its root is s tokens before it.

    `query` (B, hq, M, d). `known`: each step's keys and values (B, hk, M, d); the first step's are those of all T
    rows. Row j sees the first step's rows up to its root j - s, by the additive `mask` (B, 1, M, T), and from each step
    m >= 1 the single row j - s + m. Rows with fewer than s tokens before them in their conversation, or among the M
    rows, give nothing of use.
    """
    last = len(known) - 1
    groups, scale = query.shape[1] // known[0][0].shape[1], query.shape[-1] ** -0.5
    pairs = [[side.repeat_interleave(groups, dim=1) for side in pair] for pair in known]
    own = [[side.roll(last - step, dims=-2) for side in pair] for step, pair in enumerate(pairs)][1:]
    scores = [query @ pairs[0][0].transpose(-1, -2) * scale + mask]
    scores += [(query * keys).sum(-1, keepdim=True) * scale for keys, _ in own]
    shares = torch.softmax(torch.cat(scores, dim=-1), dim=-1)
    count = mask.shape[-1]
    mixed = shares[..., :count] @ pairs[0][1]
    for step, (_, values) in enumerate(own):
        mixed = mixed + shares[..., count + step, None] * values
    return mixed
