"""The verifier's half of the drafter: it turns the target's keys and values into memory (arXiv 2410.03804).

Shapes: S verified tokens, L target layers.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from drafter.model.layers import KeysValues, LayerShape, Norm, SelfAttentionLayer, rotate
from drafter.model.weights import load_weights, weights_digest
from models.config import ENCODER, DrafterConfig, Rope, read_config


class MemoryEncoder(nn.Module):
    """The verifier's half of the drafter: layer self-attention, and the cross-attention's key and value projections.

    With `from_target` their result is added to the keys and values of the target's layer that the cross-attention
    replaces. It is zero before training, so memory is meaningful at once to a cross-attention initialised from that
    layer. Without layer self-attention, the plain mean over the layers' keys and values is used.
    """

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        width = 2 * config.target_kv_heads * config.target_head_size
        if config.layer_self_attention:
            heads = max(1, width // 64)
            shape = LayerShape(width, heads, heads, width // heads, config.encoder_ffn, Rope(10_000.0), config.norm_eps)
            self.layer_self_attention = SelfAttentionLayer(shape)
        self.to_hidden = nn.Linear(width, config.hidden)
        self.input_layernorm = Norm(config.hidden, config.norm_eps)
        self.k_proj = nn.Linear(config.hidden, config.kv_heads * config.head_size, bias=False)
        self.v_proj = nn.Linear(config.hidden, config.kv_heads * config.head_size, bias=False)
        if config.from_target:
            nn.init.zeros_(self.k_proj.weight)
            nn.init.zeros_(self.v_proj.weight)

    def forward(self, keys_values: Tensor, positions: Tensor) -> list[KeysValues]:
        """Memory rows of S verified tokens.

        `keys_values` (S, L, 2*Hk*d): per token and layer, each KV head's key (after RoPE), then its value. `positions`
        (S,). Returns keys and values of shape (S, heads, size) for each row: first the cross-attention's, then those of
        the target's last N layers, unchanged.
        """
        mixed = keys_values
        if self.config.layer_self_attention:
            layers = torch.arange(keys_values.shape[1], device=keys_values.device).expand(len(keys_values), -1)
            query, key, value = self.layer_self_attention.project(keys_values, layers)
            mixed = self.layer_self_attention.finish(keys_values, query, key, value, None)
        hidden = self.input_layernorm(self.to_hidden(mixed.mean(dim=-2)))
        size = (self.config.kv_heads, self.config.head_size)
        keys = rotate(self.k_proj(hidden).unflatten(-1, size).transpose(0, 1), positions, self.config.rope)
        keys, values = keys.transpose(0, 1), self.v_proj(hidden).unflatten(-1, size)
        if self.config.from_target:
            base_keys, base_values = self._of_layer(keys_values, self.config.replaced)
            keys, values = base_keys + keys, base_values + values
        inferred = range(self.config.entry_layer, self.config.target_layers)
        return [(keys, values), *(self._of_layer(keys_values, layer) for layer in inferred)]

    def _of_layer(self, keys_values: Tensor, layer: int) -> KeysValues:
        """The keys and values of one target layer, (S, heads, size) each."""
        pair = keys_values[:, layer].reshape(-1, self.config.target_kv_heads, 2, self.config.target_head_size)
        return pair[:, :, 0], pair[:, :, 1]

    @classmethod
    def load(cls, folder: Path) -> MemoryEncoder:
        """Open the encoder of a drafter's folder. Raises `DrafterMissing` or `DrafterCorrupt`."""
        encoder = cls(read_config(folder, verify=(ENCODER,)))
        load_weights(encoder, folder / ENCODER)
        return encoder.eval().requires_grad_(False)


def memory_digest(target_state: dict[str, Tensor], encoder: MemoryEncoder) -> bytes:
    """16 bytes over the weights of the target and the encoder. Storing them as bfloat16 does not change it."""
    return weights_digest({**target_state, **{f"encoder.{k}": v for k, v in encoder.state_dict().items()}})
