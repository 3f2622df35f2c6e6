"""The layers of the drafter: attention with caches that the caller keeps, MLPs and norms.

Shapes: M new tokens, P cached tokens, T tokens of memory, E the hidden size, hq query heads, hk key and value heads,
d the head size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.config import Rope

KeysValues = tuple[Tensor, Tensor]
"""Keys, already rotated, and values."""

NEVER = -1e9
"""Additive mask value. It is finite, so a row that sees no key gives no NaN."""


def rotate(x: Tensor, positions: Tensor, rope: Rope) -> Tensor:
    """Rotary position embedding in the half-split layout of transformers.

    `x` (..., heads, M, size), `positions` (..., M), broadcast over the heads.
    """
    half = x.shape[-1] // 2
    if rope.frequencies:
        frequency = torch.tensor(rope.frequencies, device=x.device, dtype=torch.float32)
    else:
        frequency = rope.theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = positions.to(torch.float32)[..., None, :, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    if rope.scale != 1.0:
        cos, sin = cos * rope.scale, sin * rope.scale
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention with grouped queries.

    `query` (..., hq, M, d), `keys` and `values` (..., hk, P, d), `mask` additive, (..., 1, M, P).
    """
    *batch, heads, count, size = query.shape
    kv_heads = keys.shape[-3]
    groups = heads // kv_heads
    # The queries of a group are rows of one product. So keys and values are not copied for each query, and a single
    # token uses the kernels for several rows, whose sums have another order than those for one row.
    query = (query * size**-0.5).reshape(*batch, kv_heads, groups * count, size)
    scores = (query @ keys.transpose(-1, -2)).reshape(*batch, kv_heads, groups, count, keys.shape[-2])
    if mask is not None:
        scores = scores + mask.unsqueeze(-3)
    mixed = torch.softmax(scores, dim=-1).flatten(-3, -2) @ values
    return mixed.reshape(*batch, heads, count, size)


class LayerShape(NamedTuple):
    """The sizes of a layer."""

    size: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    rope: Rope
    eps: float


class Norm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Mlp(nn.Module):
    """A gated MLP (SwiGLU)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, width, bias=False)
        self.up_proj = nn.Linear(size, width, bias=False)
        self.down_proj = nn.Linear(width, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class SelfAttentionLayer(nn.Module):
    """A pre-norm Llama decoder layer. The caller keeps its cache: the layer only returns new rows.

    `qkv_bias` adds biases as Qwen2 does. `qk_norm` norms each head's query and key before they are rotated, as Qwen3
    does. Parameter names are those of transformers, so a target's layer can be loaded as it is.
    """

    def __init__(self, shape: LayerShape, *, qkv_bias: bool = False, qk_norm: bool = False) -> None:
        super().__init__()
        size, heads, kv_heads, head_size, ffn, rope, eps = shape
        self.heads, self.kv_heads, self.head_size, self.rope = heads, kv_heads, head_size, rope
        self.qk_norm = qk_norm
        self.input_layernorm = Norm(size, eps)
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": nn.Linear(size, heads * head_size, bias=qkv_bias),
                "k_proj": nn.Linear(size, kv_heads * head_size, bias=qkv_bias),
                "v_proj": nn.Linear(size, kv_heads * head_size, bias=qkv_bias),
                "o_proj": nn.Linear(heads * head_size, size, bias=False),
                **({"q_norm": Norm(head_size, eps), "k_norm": Norm(head_size, eps)} if qk_norm else {}),
            }
        )
        self.post_attention_layernorm = Norm(size, eps)
        self.mlp = Mlp(size, ffn)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Norm `x` (..., M, E) and project it: query (..., hq, M, d), key and value (..., hk, M, d)."""
        normed = self.input_layernorm(x)
        query, key, value = (
            self.self_attn[name](normed).unflatten(-1, (count, self.head_size)).transpose(-2, -3)
            for name, count in (("q_proj", self.heads), ("k_proj", self.kv_heads), ("v_proj", self.kv_heads))
        )
        if self.qk_norm:
            query, key = self.self_attn["q_norm"](query), self.self_attn["k_norm"](key)
        return rotate(query, positions, self.rope), rotate(key, positions, self.rope), value

    def finish(self, x: Tensor, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend, then run the MLP. `x` (..., M, E) is the residual."""
        attended = attend(query, keys, values, mask).transpose(-2, -3).flatten(-2)
        x = x + self.self_attn["o_proj"](attended)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]

    def forward(self, x: Tensor, positions: Tensor, past: KeysValues, mask: Tensor) -> tuple[Tensor, KeysValues]:
        """Returns the output and the new cache rows. `mask` covers the P cached rows, then the M new ones."""
        query, key, value = self.project(x, positions)
        keys, values = torch.cat((past[0], key), dim=-2), torch.cat((past[1], value), dim=-2)
        return self.finish(x, query, keys, values, mask), (key, value)


class CrossAttentionLayer(nn.Module):
    """Cross-attention from the device's stream to memory. A learned null row is used where there is no memory."""

    def __init__(self, shape: LayerShape, *, q_bias: bool = False, q_norm: bool = False) -> None:
        super().__init__()
        size, heads, kv_heads, head_size, ffn, rope, eps = shape
        self.heads, self.head_size, self.rope = heads, head_size, rope
        self.input_layernorm = Norm(size, eps)
        self.q_proj = nn.Linear(size, heads * head_size, bias=q_bias)
        self.q_norm = Norm(head_size, eps) if q_norm else nn.Identity()
        self.o_proj = nn.Linear(heads * head_size, size, bias=False)
        self.null_key = nn.Parameter(torch.randn(kv_heads, 1, head_size) * 0.02)
        self.null_value = nn.Parameter(torch.zeros(kv_heads, 1, head_size))
        self.post_attention_layernorm = Norm(size, eps)
        self.mlp = Mlp(size, ffn)

    def forward(self, x: Tensor, positions: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """`memory` (..., hk, T, d), where T may be 0. `mask` (..., M, T), or None if every query sees all of it."""
        query = self.q_proj(self.input_layernorm(x)).unflatten(-1, (self.heads, self.head_size)).transpose(-2, -3)
        query = rotate(self.q_norm(query), positions, self.rope)
        batch = memory[0].shape[:-3]
        keys = torch.cat((self.null_key.expand(*batch, -1, -1, -1), memory[0]), dim=-2)
        values = torch.cat((self.null_value.expand(*batch, -1, -1, -1), memory[1]), dim=-2)
        if mask is not None:
            mask = nn.functional.pad(mask, (1, 0))
        mixed = attend(query, keys, values, mask).transpose(-2, -3).flatten(-2)
        x = x + self.o_proj(mixed)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]
