"""The Mixture-of-Attentions drafter in PyTorch (arXiv 2410.03804): the memory encoder and the draft model.

`MemoryEncoder` runs beside the target: layer self-attention turns the target's keys and values of all layers into one
vector per token, and the cross-attention's projections turn that into the *memory* that travels to the device.
`DraftModel` runs on the device: the target's own first F layers, self-attention over tokens, cross-attention over
memory, then the target's own last N layers (target layer inference) and its head. Knows token ids only, nothing of
text, trees or the wire.

Shapes: B sequences, M new tokens, P cached tokens, S verified tokens, L target layers, E the target's hidden size.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from drafter.config import ENCODER, DrafterConfig, DrafterCorrupt, read_config

KeysValues = tuple[Tensor, Tensor]
"""Keys, already rotated, and values."""

EMBEDDING, HEAD = "embedding.weight", "head.weight"

NEVER = -1e9
"""Additive mask value; finite, so that a row without any visible key gives no NaN."""


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary position embedding in the half-split layout of transformers.

    `x` (..., heads, M, size), `positions` (..., M), which broadcast over the heads.
    """
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = positions.to(torch.float32)[..., None, :, None] * frequency
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention with grouped queries.

    `query` (..., hq, M, d), `keys` and `values` (..., hk, P, d), `mask` additive, (..., 1, M, P).
    """
    *batch, heads, count, size = query.shape
    kv_heads = keys.shape[-3]
    groups = heads // kv_heads
    # The queries of a group are rows of one product. So no key or value is copied for each of them, and a single token
    # takes the kernels for several rows, whose sums have another order than those for one row.
    query = (query * size**-0.5).reshape(*batch, kv_heads, groups * count, size)
    scores = (query @ keys.transpose(-1, -2)).reshape(*batch, kv_heads, groups, count, keys.shape[-2])
    if mask is not None:
        scores = scores + mask.unsqueeze(-3)
    mixed = torch.softmax(scores, dim=-1).flatten(-3, -2) @ values
    return mixed.reshape(*batch, heads, count, size)


class LayerShape(Protocol):
    """What a config says of the layers that a drafter learns; `DrafterConfig` does, and those of the baselines."""

    @property
    def hidden(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_size(self) -> int: ...
    @property
    def ffn(self) -> int: ...
    @property
    def rope_theta(self) -> float: ...
    @property
    def norm_eps(self) -> float: ...


def layer_shape(config: LayerShape) -> tuple[int, int, int, int, int, float, float]:
    """The positional arguments of a layer."""
    sizes = config.hidden, config.heads, config.kv_heads, config.head_size, config.ffn
    return (*sizes, config.rope_theta, config.norm_eps)


class Norm(nn.Module):
    """Root-mean-square norm."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, width, bias=False)
        self.up_proj = nn.Linear(size, width, bias=False)
        self.down_proj = nn.Linear(width, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class SelfAttentionLayer(nn.Module):
    """A pre-norm Llama decoder layer whose cache is the caller's: it returns new rows and keeps none.

    `qkv_bias` is what Qwen2 adds to it, `qk_norm` what Qwen3 does: a norm of each head's query and key before they are
    rotated. Parameter names are those of transformers, so that a target's layer loads into it as it is.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        kv_heads: int,
        head_size: int,
        ffn: int,
        theta: float,
        eps: float,
        *,
        inputs: int | None = None,
        qkv_bias: bool = False,
        qk_norm: bool = False,
    ) -> None:
        """`inputs`: width of what queries, keys and values are made from, where it is not the layer's `size`."""
        super().__init__()
        self.heads, self.kv_heads, self.head_size, self.theta = heads, kv_heads, head_size, theta
        inputs = inputs or size
        self.qk_norm = qk_norm
        self.input_layernorm = Norm(size, eps)
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": nn.Linear(inputs, heads * head_size, bias=qkv_bias),
                "k_proj": nn.Linear(inputs, kv_heads * head_size, bias=qkv_bias),
                "v_proj": nn.Linear(inputs, kv_heads * head_size, bias=qkv_bias),
                "o_proj": nn.Linear(heads * head_size, size, bias=False),
                **({"q_norm": Norm(head_size, eps), "k_norm": Norm(head_size, eps)} if qk_norm else {}),
            }
        )
        self.post_attention_layernorm = Norm(size, eps)
        self.mlp = Mlp(size, ffn)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query (..., hq, M, d), key and value (..., hk, M, d) of `x` (..., M, E), which is normed first."""
        return self.project_normed(self.input_layernorm(x), positions)

    def project_normed(self, normed: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of what is normed already, (..., M, inputs)."""
        query, key, value = (
            self.self_attn[name](normed).unflatten(-1, (count, self.head_size)).transpose(-2, -3)
            for name, count in (("q_proj", self.heads), ("k_proj", self.kv_heads), ("v_proj", self.kv_heads))
        )
        if self.qk_norm:
            query, key = self.self_attn["q_norm"](query), self.self_attn["k_norm"](key)
        return rotate(query, positions, self.theta), rotate(key, positions, self.theta), value

    def finish(self, x: Tensor, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend, then the MLP; `x` (..., M, E) is the residual."""
        return self.add(x, attend(query, keys, values, mask))

    def add(self, x: Tensor, attended: Tensor) -> Tensor:
        """What follows the attention, whose result is `attended` (..., hq, M, d); `x` (..., M, E) is the residual."""
        x = x + self.self_attn["o_proj"](attended.transpose(-2, -3).flatten(-2))
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]

    def forward(self, x: Tensor, positions: Tensor, past: KeysValues, mask: Tensor) -> tuple[Tensor, KeysValues]:
        """`mask` covers the P cached rows, then the M new ones; returns the output and the new rows."""
        query, key, value = self.project(x, positions)
        keys, values = torch.cat((past[0], key), dim=-2), torch.cat((past[1], value), dim=-2)
        return self.finish(x, query, keys, values, mask), (key, value)


class CrossAttentionLayer(nn.Module):
    """Queries from the device's stream, keys and values from memory; a learned null row stands in for none.

    `blind`: the null row is all that it sees. What memory is worth shows in a drafter trained so, of the same size.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        kv_heads: int,
        head_size: int,
        ffn: int,
        theta: float,
        eps: float,
        *,
        blind: bool = False,
        q_bias: bool = False,
        q_norm: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.head_size, self.theta, self.blind = heads, head_size, theta, blind
        self.input_layernorm = Norm(size, eps)
        self.q_proj = nn.Linear(size, heads * head_size, bias=q_bias)
        self.q_norm = Norm(head_size, eps) if q_norm else nn.Identity()
        self.o_proj = nn.Linear(heads * head_size, size, bias=False)
        self.null_key = nn.Parameter(torch.randn(kv_heads, 1, head_size) * 0.02)
        self.null_value = nn.Parameter(torch.zeros(kv_heads, 1, head_size))
        self.post_attention_layernorm = Norm(size, eps)
        self.mlp = Mlp(size, ffn)

    def forward(self, x: Tensor, positions: Tensor, memory: KeysValues, mask: Tensor | None) -> Tensor:
        """`memory` (..., hk, T, d) with T >= 0; `mask` (..., M, T), None: every query sees all of it."""
        if self.blind:
            memory, mask = (memory[0][..., :0, :], memory[1][..., :0, :]), None
        query = self.q_proj(self.input_layernorm(x)).unflatten(-1, (self.heads, self.head_size)).transpose(-2, -3)
        query = rotate(self.q_norm(query), positions, self.theta)
        batch = memory[0].shape[:-3]
        keys = torch.cat((self.null_key.expand(*batch, -1, -1, -1), memory[0]), dim=-2)
        values = torch.cat((self.null_value.expand(*batch, -1, -1, -1), memory[1]), dim=-2)
        if mask is not None:
            mask = nn.functional.pad(mask, (1, 0))
        mixed = attend(query, keys, values, mask).transpose(-2, -3).flatten(-2)
        x = x + self.o_proj(mixed)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]


class MemoryEncoder(nn.Module):
    """Layer self-attention and the cross-attention's key and value projections: the verifier's half of the drafter.

    With `from_target` what they give is added to the keys and values of the target's layer that the cross-attention
    replaces, and nothing before training: so memory means something to a cross-attention that began as that layer.
    Without layer self-attention the mean over the layers is of their keys and values as they are.
    """

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        width = 2 * config.target_kv_heads * config.target_head_size
        if config.layer_self_attention:
            heads = max(1, width // 64)
            self.layer_self_attention = SelfAttentionLayer(
                width, heads, heads, width // heads, config.encoder_ffn, 10_000.0, config.norm_eps
            )
        self.to_hidden = nn.Linear(width, config.hidden)
        self.input_layernorm = Norm(config.hidden, config.norm_eps)
        self.k_proj = nn.Linear(config.hidden, config.kv_heads * config.head_size, bias=False)
        self.v_proj = nn.Linear(config.hidden, config.kv_heads * config.head_size, bias=False)
        if config.from_target:
            nn.init.zeros_(self.k_proj.weight)
            nn.init.zeros_(self.v_proj.weight)

    @property
    def digest(self) -> bytes:
        """16 bytes that change with the target or with any weight here."""
        return bytes.fromhex(self.config.memory)

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """(heads, size) of each memory row."""
        return self.config.memory_layers

    def forward(self, keys_values: Tensor, positions: Tensor) -> list[KeysValues]:
        """Memory rows of S verified tokens.

        `keys_values` (S, L, 2*Hk*d): per token and layer, each KV head's key (after RoPE) then its value.
        `positions` (S,). Returns for each row keys and values of shape (S, heads, size): first the cross-attention's,
        then those of the target's last N layers, as they are.
        """
        mixed = keys_values
        if self.config.layer_self_attention:
            layers = torch.arange(keys_values.shape[1], device=keys_values.device).expand(len(keys_values), -1)
            query, key, value = self.layer_self_attention.project(keys_values, layers)
            mixed = self.layer_self_attention.finish(keys_values, query, key, value, None)
        hidden = self.input_layernorm(self.to_hidden(mixed.mean(dim=-2)))
        size = (self.config.kv_heads, self.config.head_size)
        keys = rotate(self.k_proj(hidden).unflatten(-1, size).transpose(0, 1), positions, self.config.rope_theta)
        keys, values = keys.transpose(0, 1), self.v_proj(hidden).unflatten(-1, size)
        if self.config.from_target:
            base_keys, base_values = self._of_layer(keys_values, self.config.replaced)
            keys, values = base_keys + keys, base_values + values
        inferred = range(self.config.entry_layer, self.config.target_layers)
        return [(keys, values), *(self._of_layer(keys_values, layer) for layer in inferred)]

    def _of_layer(self, keys_values: Tensor, layer: int) -> KeysValues:
        """One target layer's keys and values, (S, heads, size) each."""
        pair = keys_values[:, layer].reshape(-1, self.config.target_kv_heads, 2, self.config.target_head_size)
        return pair[:, :, 0], pair[:, :, 1]

    @classmethod
    def load(cls, folder: Path) -> MemoryEncoder:
        """The encoder of an artefact folder. Raises `DrafterMissing` or `DrafterCorrupt`."""
        encoder = cls(read_config(folder, verify=(ENCODER,)))
        _fill(encoder, folder / ENCODER)
        return encoder.eval().requires_grad_(False)


class Exit(nn.Module):
    """Brings the drafter's stream to where the target's hidden states lie: a root-mean-square norm, scale and shift.

    Between a target's layers these can be a hundred times as large as its embeddings, from which the drafter's stream
    grows: too small a stream drowns in what the target's own layers add to it.
    """

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.norm = Norm(size, eps)
        self.shift = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) + self.shift  # type: ignore[no-any-return]

    @torch.no_grad()
    def fit(self, states: Tensor) -> None:
        """Begin with the mean and the spread of the target's hidden states (n, E)."""
        self.norm.weight.copy_(states.std(dim=0))
        self.shift.copy_(states.mean(dim=0))


class DraftModel(nn.Module):
    """The device's half: embedding, first F layers, self-attention, cross-attention, last N layers, norm and head.

    Embedding, first and last layers, norm and head are the target's own and stay frozen. A target's first layers see no
    more than tokens, all of which the device has: it computes there what the target does, for drafted tokens too (but
    for rounding, and beyond a sliding window).
    """

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        shape = layer_shape(config)
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        bias, norm = config.target_qkv_bias and config.from_target, config.target_qk_norm and config.from_target
        blind = not config.cross_attention
        self.self_attention = nn.ModuleList(
            SelfAttentionLayer(*shape, qkv_bias=bias, qk_norm=norm) for _ in range(config.blocks)
        )
        self.cross_attention = CrossAttentionLayer(*shape, blind=blind, q_bias=bias, q_norm=norm)
        self.exit = Exit(config.hidden, config.norm_eps) if config.exit_norm else nn.Identity()
        target = (
            config.hidden,
            config.target_heads,
            config.target_kv_heads,
            config.target_head_size,
            config.target_ffn,
        )
        self.first_layers, self.target_layers = (
            nn.ModuleList(
                SelfAttentionLayer(
                    *target,
                    config.rope_theta,
                    config.norm_eps,
                    qkv_bias=config.target_qkv_bias,
                    qk_norm=config.target_qk_norm,
                )
                for _ in range(count)
            )
            for count in (config.first_layers, config.inference_layers)
        )
        targets_norm = config.inference_layers or config.from_target
        self.norm = Norm(config.hidden, config.norm_eps) if targets_norm else nn.Identity()
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def freeze(self) -> None:
        """Leave only self- and cross-attention to be trained."""
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


def memory_digest(target_state: dict[str, Tensor], encoder: MemoryEncoder) -> bytes:
    """16 bytes over the target's and the encoder's weights; storing these as bfloat16 keeps it."""
    return weights_digest({**target_state, **{f"encoder.{k}": v for k, v in encoder.state_dict().items()}})


def weights_digest(weights: dict[str, Tensor]) -> bytes:
    """16 bytes over named weights, rounded to bfloat16."""
    running = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(weights.items()):
        running.update(name.encode())
        running.update(tensor.detach().to("cpu", torch.bfloat16).float().numpy().tobytes())
    return running.digest()


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights as bfloat16; a head that is the embedding, as in targets that tie them, once."""
    weights = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in module.state_dict().items()}
    if HEAD in weights and torch.equal(weights[HEAD], weights[EMBEDDING]):
        del weights[HEAD]
    save_file(weights, path)


def load_draft_model(folder: Path, weights: Path) -> DraftModel:
    """The float draft model of an artefact folder. Raises `DrafterMissing` or `DrafterCorrupt`."""
    model = DraftModel(read_config(folder, verify=(weights.name,)))
    _fill(model, weights)
    return model.eval().requires_grad_(False)


def _fill(module: nn.Module, path: Path) -> None:
    try:
        module.load_state_dict(_floats(path))
    except (SafetensorError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise DrafterCorrupt(f"{path} cannot be loaded ({' '.join(lines[:2])}). Reinstall the drafter.") from None


def _floats(path: Path) -> dict[str, Tensor]:
    weights = {name: tensor.float() for name, tensor in load_file(path).items()}
    if EMBEDDING in weights:
        weights.setdefault(HEAD, weights[EMBEDDING])
    return weights
