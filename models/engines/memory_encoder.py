"""The memory encoder in numpy: what `drafter/model/encoder.py` computes, without PyTorch.

Shapes: S verified tokens, L target layers, Hk key and value heads of size d.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.config import ENCODER, DrafterConfig, DrafterCorrupt, Rope, read_config
from models.engines.engine import Floats
from models.memory import pack_memory, quantise_row
from models.tensors import DamagedWeights, read_tensors

LAYER_ROPE = Rope(10_000.0)
"""Rotary base of the layer self-attention, which rotates queries and keys by the layer's number."""


class ArrayEncoder:
    """The encoder of a drafter's folder."""

    def __init__(self, config: DrafterConfig, weights: Mapping[str, Floats]) -> None:
        self.config = config
        self._weights = weights

    @classmethod
    def load(cls, folder: Path) -> ArrayEncoder:
        """Open the encoder of a drafter's folder. Raises `DrafterMissing` or `DrafterCorrupt`."""
        config = read_config(folder, verify=(ENCODER,))
        try:
            weights = read_tensors(folder / ENCODER)
            encoder = cls(config, weights)
            encoder(np.zeros((1, config.target_layers, encoder.width), np.float32), np.zeros(1, np.int64))
        except (DamagedWeights, KeyError, ValueError) as error:
            raise DrafterCorrupt(f"{folder / ENCODER} cannot be loaded ({error}). Reinstall the drafter.") from None
        return encoder

    @property
    def width(self) -> int:
        """Numbers of a token's keys and values in one layer."""
        return 2 * self.config.target_kv_heads * self.config.target_head_size

    def __call__(self, keys_values: Floats, positions: NDArray[np.int64]) -> list[tuple[Floats, Floats]]:
        """Memory rows of S verified tokens.

        `keys_values` (S, L, 2*Hk*d): per token and layer, each KV head's key (after RoPE), then its value. `positions`
        (S,). Returns keys and values of shape (S, heads, size) for each row: first the cross-attention's, then those of
        the target's last N layers, unchanged.
        """
        made = self.config
        mixed = self._mixed(keys_values) if made.layer_self_attention else keys_values
        hidden = self._linear("to_hidden", mixed.mean(axis=-2)) + self._weights["to_hidden.bias"]
        hidden = self._norm("input_layernorm", hidden)
        shape = len(keys_values), made.kv_heads, made.head_size
        keys = rotated(self._linear("k_proj", hidden).reshape(shape), positions, made.rope)
        values = self._linear("v_proj", hidden).reshape(shape)
        if made.from_target:
            base_keys, base_values = self._of_layer(keys_values, made.replaced)
            keys, values = base_keys + keys, base_values + values
        last = range(made.entry_layer, made.target_layers)
        return [(keys, values), *(self._of_layer(keys_values, layer) for layer in last)]

    def packed(self, keys: Floats, values: Floats, start: int) -> bytes:
        """The packed memory of tokens from position `start` on, from their cached rows, (S, L, Hk, d) each."""
        keys_values = np.stack((keys, values), axis=3).reshape(*keys.shape[:2], -1)
        rows = self(keys_values, np.arange(start, start + len(keys)))
        bits = self.config.memory_bits
        return pack_memory([quantise_row(*pair, bits) for pair in rows], bits)

    def _mixed(self, x: Floats) -> Floats:
        """The layer self-attention: a decoder layer whose sequence is the L layers of one token."""
        name, (count, layers, width) = "layer_self_attention", x.shape
        heads = max(1, width // 64)
        normed = self._norm(f"{name}.input_layernorm", x)
        query, keys, values = (
            self._linear(f"{name}.self_attn.{part}_proj", normed).reshape(count, layers, heads, width // heads)
            for part in "qkv"
        )
        places = np.arange(layers)
        query, keys = (rotated(part, places, LAYER_ROPE).transpose(0, 2, 1, 3) for part in (query, keys))
        scores = query @ keys.transpose(0, 1, 3, 2) * np.float32((width // heads) ** -0.5)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        attended = (shares @ values.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + self._linear(f"{name}.self_attn.o_proj", attended)
        normed = self._norm(f"{name}.post_attention_layernorm", x)
        gate = self._linear(f"{name}.mlp.gate_proj", normed)
        # Large negative numbers give infinity here, and 0 in the result.
        with np.errstate(over="ignore"):
            gate = gate / (1 + np.exp(-gate))
        return x + self._linear(f"{name}.mlp.down_proj", gate * self._linear(f"{name}.mlp.up_proj", normed))

    def _of_layer(self, keys_values: Floats, layer: int) -> tuple[Floats, Floats]:
        """The keys and values of one target layer, (S, heads, size) each."""
        pair = keys_values[:, layer].reshape(-1, self.config.target_kv_heads, 2, self.config.target_head_size)
        return pair[:, :, 0], pair[:, :, 1]

    def _linear(self, name: str, x: Floats) -> Floats:
        product: Floats = x @ self._weights[f"{name}.weight"].T
        return product

    def _norm(self, name: str, x: Floats) -> Floats:
        size = np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(self.config.norm_eps))
        normed: Floats = x / size * self._weights[f"{name}.weight"]
        return normed


def turns(positions: NDArray[np.int64], size: int, rope: Rope) -> tuple[Floats, Floats]:
    """Cosines and sines of rotary position embedding, (positions, size / 2) each."""
    half = size // 2
    steps = np.arange(half, dtype=np.float32) / np.float32(half)
    frequencies = np.array(rope.frequencies, np.float32) if rope.frequencies else np.float32(rope.theta) ** -steps
    angles = positions.astype(np.float32)[:, None] * frequencies
    scale = np.float32(rope.scale)
    return np.cos(angles) * scale, np.sin(angles) * scale


def rotated(x: Floats, positions: NDArray[np.int64], rope: Rope) -> Floats:
    """Rotary position embedding in the half-split layout of transformers: `x` (..., positions, heads, size)."""
    cos, sin = (part[:, None] for part in turns(positions, x.shape[-1], rope))
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)
