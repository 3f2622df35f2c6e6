"""The device's half of the drafter in PyTorch (arXiv 2410.03804).

Shapes: B sequences, M new tokens, P cached tokens, T tokens of memory, E the target's hidden size.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from drafter.model.layers import CrossAttentionLayer, KeysValues, LayerShape, Norm, SelfAttentionLayer
from drafter.model.weights import load_weights, set_weights, weights_in_graph
from models.config import FLOAT, GRAPH, DrafterConfig, read_config


class Exit(nn.Module):
    """Brings the drafter's stream to the range of the target's hidden states: a root-mean-square norm, scale and shift.

    Between its layers, a target's hidden states can be a hundred times as large as its embeddings, with which the
    drafter's stream starts. A stream that is too small is drowned out by what the target's own layers add to it.
    """

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.norm = Norm(size, eps)
        self.shift = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) + self.shift  # type: ignore[no-any-return]

    @torch.no_grad()
    def fit(self, states: Tensor) -> None:
        """Initialise from the mean and the spread of the target's hidden states (n, E)."""
        self.norm.weight.copy_(states.std(dim=0))
        self.shift.copy_(states.mean(dim=0))


class DraftModel(nn.Module):
    """The device's half: embedding, first F layers, self-attention, cross-attention, last N layers, norm and head.

    Embedding, first and last layers, norm and head are the target's own and stay frozen. The target's first layers need
    only tokens, which the device has. So there the device computes the same as the target, also for drafted tokens
    (except for rounding, and beyond a sliding window).
    """

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        sizes = config.hidden, config.heads, config.kv_heads, config.head_size, config.ffn
        shape = LayerShape(*sizes, config.rope, config.norm_eps)
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        bias, norm = config.target_qkv_bias and config.from_target, config.target_qk_norm and config.from_target
        self.self_attention = nn.ModuleList(
            SelfAttentionLayer(shape, qkv_bias=bias, qk_norm=norm) for _ in range(config.blocks)
        )
        self.cross_attention = CrossAttentionLayer(shape, q_bias=bias, q_norm=norm)
        self.exit = Exit(config.hidden, config.norm_eps) if config.exit_norm else nn.Identity()
        sizes = config.hidden, config.target_heads, config.target_kv_heads, config.target_head_size, config.target_ffn
        target = LayerShape(*sizes, config.rope, config.norm_eps)
        self.first_layers, self.target_layers = (
            nn.ModuleList(
                SelfAttentionLayer(target, qkv_bias=config.target_qkv_bias, qk_norm=config.target_qk_norm)
                for _ in range(count)
            )
            for count in (config.first_layers, config.inference_layers)
        )
        targets_norm = config.inference_layers or config.from_target
        self.norm = Norm(config.hidden, config.norm_eps) if targets_norm else nn.Identity()
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def freeze(self) -> None:
        """Freeze everything except the self-attention and the cross-attention."""
        for part in (self.embedding, self.first_layers, self.target_layers, self.norm, self.head):
            part.requires_grad_(False)

    def forward(
        self, tokens: Tensor, positions: Tensor, mask: Tensor, past: list[KeysValues], memory: KeysValues
    ) -> tuple[Tensor, list[KeysValues]]:
        """One draft step: hidden states (..., M, E) before the head, and the new cache rows.

        `tokens`, `positions` (..., M); `mask` (..., M, P+M) additive; `past`: rows of the first layers, of each
        self-attention and of the last layers, (..., heads, P, size); `memory` (..., heads, T, size).
        """
        mask = mask.unsqueeze(-3)
        x, rows = self.embedding(tokens), []
        for layer, cached in zip([*self.first_layers, *self.self_attention], past):
            x, new = layer(x, positions, cached, mask)
            rows.append(new)
        x = self.exit(self.cross_attention(x, positions, memory, None))
        for layer, cached in zip(self.target_layers, past[len(rows) :]):
            x, new = layer(x, positions, cached, mask)
            rows.append(new)
        return self.norm(x), rows


def load_draft_model(folder: Path) -> DraftModel:
    """Open the draft model of a drafter's folder: its float weights, or those of a packed graph if it has none.

    Raises `DrafterMissing` or `DrafterCorrupt`.
    """
    config = read_config(folder)
    stored = {} if FLOAT in config.files or not (folder / GRAPH).exists() else weights_in_graph(folder / GRAPH)
    model = DraftModel(read_config(folder, verify=(GRAPH if stored else FLOAT,)))
    if stored:
        set_weights(model, stored, config.draft_vocabulary, folder / GRAPH)
    else:
        load_weights(model, folder / FLOAT)
    return model.eval().requires_grad_(False)


class StepModule(nn.Module):
    """One draft step as a graph of plain tensors. The head is cut to the draft vocabulary, and the top K are taken."""

    def __init__(self, model: DraftModel) -> None:
        super().__init__()
        self.model = model
        kept = list(model.config.draft_vocabulary) or list(range(model.config.vocabulary))
        self.top = min(model.config.top, len(kept))
        self.head = nn.Linear(model.config.hidden, len(kept), bias=False)
        self.head.weight = nn.Parameter(model.head.weight.detach()[kept].clone())
        self.kept: Tensor
        self.register_buffer("kept", torch.tensor(kept))

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor, *cached: Tensor) -> tuple[Tensor, ...]:
        """Returns the best log-probabilities, their token ids, and the new rows.

        `cached`: keys and values of memory, then of each layer. If the config says `correctable`, `down` (E, R) and
        `up` (R, draft vocabulary) follow, of a correction of rank R, and the hidden states (M, E) are returned last.
        """
        memory, *past = zip(cached[::2], cached[1::2])
        correction = past.pop() if self.model.config.correctable else None
        hidden, rows = self.model(tokens, positions, mask, past, memory)
        logits = self.head(hidden)
        if correction is not None:
            down, up = correction
            # A product of one row adds in another order than that of several, so the rows are duplicated.
            twice = torch.cat((hidden, hidden), dim=-2)
            logits = logits + ((twice @ down) @ up)[..., : hidden.shape[-2], :]
        best, index = torch.log_softmax(logits, dim=-1).topk(self.top, dim=-1)
        states = () if correction is None else (hidden,)
        return (best, self.kept[index], *(tensor for row in rows for tensor in row), *states)
