"""A drafter that guesses a whole block of tokens in one call, from MoA's memory: an experiment.

MoA (arXiv 2410.03804) calls its drafter once for each level of a tree. Here, the last token and B - 1 masks in the
place of the next ones run together, each seeing all others, and the target's head reads from each row the distribution
of the token after it. Diffusion drafters work like this (DFlash, arXiv 2602.06036). As in MoA, the target's first F
layers run on the known tokens, frozen; one layer sees all of these tokens, and the layers after it see memory: the keys
and values that the target's last layers had for verified tokens. A mask begins as the mean of the target's states, and
own layers as layers of the target: the one after the first F, then those whose memory they read.

The rows are *marginal*: row i does not know which token row i - 1 became. A low-rank *Markov head* (DSpark, arXiv
2607.05147) adds to the logits of each row what follows from the token before it. So each node of a tree has
distributions of its own without another call (`block_context.py`).

Shapes: S sequences, T tokens of a row, A blocks of a row, B rows of a block, P known tokens, E the hidden size, V the
vocabulary, hk key-value heads of size d.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from drafter.model import KeysValues, MemoryEncoder, Norm, SelfAttentionLayer, layer_shape
from drafter.training.batches import Batch, additive
from drafter.training.distil import DEPTHS
from drafter.training.losses import Losses, agrees, distances
from drafter.training.recipe import Recipe
from drafter.training.target import Features
from models.config import DrafterConfig

WEIGHT = 0.8
"""The loss of row i is weighted by this to the power of i: a guess counts only if the earlier ones held."""


class BlockConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Shapes of a block drafter."""

    drafter: DrafterConfig
    """Those of a MoA drafter with the same memory, F and layers."""
    block: int = 8
    """B: how many tokens are guessed in a call."""
    rank: int = 64
    """Rank of the Markov head; 0: none."""
    anchors: int = 16
    """Blocks of a row of training tokens, at random places."""


class MarkovHead(nn.Module):
    """What the token before a place adds to the logits there. Nothing, before training."""

    def __init__(self, vocabulary: int, rank: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, rank)
        self.head = nn.Linear(rank, vocabulary, bias=False)
        nn.init.normal_(self.embedding.weight, std=rank**-0.5)
        nn.init.zeros_(self.head.weight)

    def forward(self, before: Tensor) -> Tensor:
        """Tokens (...) -> (..., V)."""
        return self.head(self.embedding(before))  # type: ignore[no-any-return]


class Masks(nn.Module):
    """What stands for the unknown tokens of a block, one row for each: the mean of known states, and what is learnt
    in units of their spread."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, size)
        nn.init.zeros_(self.embedding.weight)
        self.mean: Tensor
        self.spread: Tensor
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("spread", torch.ones(size))

    def forward(self) -> Tensor:
        """(B - 1, E)"""
        return self.mean + self.spread * self.embedding.weight

    @torch.no_grad()
    def fit(self, states: Tensor) -> None:
        """Take mean and spread of states (n, E)."""
        self.mean.copy_(states.mean(dim=0))
        self.spread.copy_(states.std(dim=0).clamp(min=1e-6))


class BlockModel(nn.Module):
    """Both halves of a block drafter: what runs beside the target (`encoder`), and the device's."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        shapes = config.drafter
        if not (shapes.from_target and shapes.first_layers):
            raise ValueError("a block drafter begins as layers of its target, and needs at least one that runs before")
        self.config = config
        self.encoder = MemoryEncoder(shapes)
        self.embedding = nn.Embedding(shapes.vocabulary, shapes.hidden)
        count = 1 + len(shapes.memory_layers)
        bias, norm = shapes.target_qkv_bias, shapes.target_qk_norm
        self.first_layers, self.layers = (
            nn.ModuleList(SelfAttentionLayer(*layer_shape(shapes), qkv_bias=bias, qk_norm=norm) for _ in range(layers))
            for layers in (shapes.first_layers, count)
        )
        self.masks = Masks(config.block - 1, shapes.hidden)
        self.norm = Norm(shapes.hidden, shapes.norm_eps)
        self.head = nn.Linear(shapes.hidden, shapes.vocabulary, bias=False)
        self.markov = MarkovHead(shapes.vocabulary, config.rank) if config.rank else None
        for part in (self.embedding, self.first_layers, self.norm, self.head):
            part.requires_grad_(False)

    @property
    def copied(self) -> tuple[int, ...]:
        """The target's layers that its own layers begin as."""
        shapes = self.config.drafter
        return shapes.first_layers, *range(shapes.replaced, shapes.target_layers)

    @torch.no_grad()
    def borrow(self, target: PreTrainedModel) -> None:
        """Copy what is the target's own, and the layers that own ones begin as."""
        self.embedding.weight.copy_(target.get_input_embeddings().weight)
        self.head.weight.copy_(target.get_output_embeddings().weight)
        self.norm.load_state_dict(target.base_model.norm.state_dict())
        theirs = target.base_model.layers
        for own, number in zip(
            [*self.first_layers, *self.layers], [*range(len(self.first_layers)), *self.copied], strict=True
        ):
            own.load_state_dict(theirs[number].state_dict())

    # ---- drafting: one conversation, no batch --------------------------------------------------------------------

    def read(
        self, tokens: Tensor, positions: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """Run the first layers on M known tokens: states (M, E), and new rows of them and of the first own layer.

        `past`: P rows of each of these. `mask` (M, P+M) bool.
        """
        x, rows, seen = self.embedding(tokens), [], additive(mask)
        for layer, cached in zip(self.first_layers, past):
            x, new = layer(x, positions, cached, seen)
            rows.append(new)
        _, keys, values = self.layers[0].project(x, positions)  # type: ignore[operator]
        return x, [*rows, (keys, values)]

    def guess(self, states: Tensor, first: int, near: KeysValues, memory: Sequence[KeysValues]) -> Tensor:
        """Marginal logits (B, V) of the next B tokens.

        `states` (n, E): of the known tokens from position `first` on, whose memory is not here: the last token at
        least. `near` (hk, first, d): rows of the first own layer before them. `memory`: of each other layer.
        """
        x = torch.cat((states, self.masks().to(states)))
        positions = torch.arange(first, first + len(x), device=x.device)
        for layer, known in zip(self.layers, [near, *memory], strict=True):
            query, key, value = layer.project(x, positions)  # type: ignore[operator]
            keys, values = torch.cat((known[0], key), dim=-2), torch.cat((known[1], value), dim=-2)
            x = layer.finish(x, query, keys, values, None)  # type: ignore[operator]
        return self.head(self.norm(x[-self.config.block :]))  # type: ignore[no-any-return]

    # ---- training ----------------------------------------------------------------------------------------------------

    def losses(self, batch: Batch, seen: Features, recipe: Recipe) -> Losses:
        """The losses of blocks at random places of the target's own answers; `seen`: what the target computed."""
        places, learnt = self.places(batch)
        logits = self.block_logits(batch, seen, places)
        flat = places.flatten(1)
        with torch.no_grad():
            last = torch.gather(seen.last, 1, flat[..., None].expand(-1, -1, seen.last.shape[-1]))
            wanted = torch.log_softmax(self.head(last.view(*places.shape, -1)[learnt]).float(), dim=-1)
        depth = torch.arange(self.config.block, device=places.device).expand_as(places)[learnt]
        guessed = torch.log_softmax(logits[learnt].float(), dim=-1)
        away, kl = distances(wanted, guessed, recipe.loss)
        weight = WEIGHT ** depth.float()
        right = agrees(wanted, guessed)
        by_depth = [
            right[depth == s].mean().item() if (depth == s).any() else 0.0
            for s in range(min(DEPTHS, self.config.block))
        ]
        return Losses((away * weight).sum() / weight.sum(), kl.mean().item(), by_depth, right.mean().item())

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Random blocks: for each row of a block the index of its token (S, A, B), and whether it is learnt from."""
        weights = (batch.learn & (batch.positions > 0)).float()
        weights = torch.where(weights.sum(-1, keepdim=True) > 0, weights, torch.ones_like(weights))
        begin = torch.multinomial(weights, self.config.anchors, replacement=True)
        places = begin[..., None] + torch.arange(self.config.block, device=begin.device)
        inside, places = places < batch.ids.shape[1], places.clamp(max=batch.ids.shape[1] - 1)
        flat = places.flatten(1)
        learn, segments = (torch.gather(each, 1, flat).view_as(places) for each in (batch.learn, batch.segments))
        good = inside & learn & (segments == segments[..., :1])
        return places, good.cumprod(dim=-1).bool()  # What comes after a gap would be guessed from what nobody said.

    def block_logits(self, batch: Batch, seen: Features, places: Tensor) -> Tensor:
        """Logits (S, A, B, V) of blocks whose tokens are at `places`, given the true token before each place."""
        rows, length = batch.ids.shape
        size = self.config.block
        memory = [
            tuple(side.unflatten(0, (rows, length)).transpose(1, 2) for side in pair)
            for pair in self.encoder(seen.keys_values.flatten(0, 1), batch.positions.flatten())
        ]
        start = seen.start
        assert start is not None
        _, *near = self.layers[0].project(start, batch.positions)  # type: ignore[operator]
        begin = places[..., 0]
        own = torch.gather(start, 1, begin[..., None].expand(-1, -1, start.shape[-1]))
        masks = self.masks().to(start).expand(*begin.shape, -1, -1)
        x = torch.cat((own[:, :, None], masks), dim=2).flatten(1, 2)
        at = torch.gather(batch.positions, 1, begin)
        positions = (at[..., None] + torch.arange(size, device=at.device)).flatten(1)
        # A block sees its conversation before its first row. That row itself stands in the block.
        index = torch.arange(length, device=begin.device)
        before = (index < begin[..., None]) & (
            batch.segments[:, None] == torch.gather(batch.segments, 1, begin)[..., None]
        )
        mask = additive(before.repeat_interleave(size, dim=1))
        for layer, known in zip(self.layers, [near, *memory], strict=True):
            query, key, value = layer.project(x, positions)  # type: ignore[operator]
            x = layer.add(x, attend_in_blocks(query, known, (key, value), mask, size))  # type: ignore[operator]
        logits = self.head(self.norm(x)).unflatten(1, places.shape[1:])
        if self.markov is not None:
            said = torch.gather(batch.ids, 1, places[..., 1:].flatten(1)).view_as(places[..., 1:])
            added = nn.functional.pad(self.markov(said), (0, 0, 1, 0))  # The first row has the last token itself.
            logits = logits + added
        return logits  # type: ignore[no-any-return]


def attend_in_blocks(query: Tensor, known: Sequence[Tensor], own: KeysValues, mask: Tensor, size: int) -> Tensor:
    """Attention of blocks over keys that all may see, and each over its own rows in both directions.

    `query` (S, hq, A*B, d). `known`: keys and values (S, hk, T, d), seen by the additive `mask` (S, 1, A*B, T). `own`:
    those of the blocks (S, hk, A*B, d). `size` is B.
    """
    rows, heads, count, width = query.shape
    keys, values, own_keys, own_values = (
        side.repeat_interleave(heads // side.shape[1], dim=1) for side in (*known, *own)
    )
    query, blocks = query * width**-0.5, (rows, heads, count // size, size, -1)
    inner = query.reshape(blocks) @ own_keys.reshape(blocks).transpose(-1, -2)
    scores = torch.cat((query @ keys.transpose(-1, -2) + mask, inner.view(rows, heads, count, size)), dim=-1)
    shares = torch.softmax(scores, dim=-1)
    seen = keys.shape[-2]
    mixed = shares[..., seen:].reshape(blocks) @ own_values.reshape(blocks)
    return shares[..., :seen] @ values + mixed.view(query.shape)
