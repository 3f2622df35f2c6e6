"""The frozen target as a teacher: its cached keys and values, features and logits for whole batches at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from drafter.config import DrafterConfig
from drafter.model import DraftModel


class UnsupportedTarget(ValueError):
    """The target's architecture cannot be drafted for this way; the message says which part."""


@dataclass(frozen=True)
class Features:
    """What the target computed for B rows of T tokens."""

    keys_values: Tensor
    """(B, T, L, 2*Hk*d): per token and layer, each KV head's key (after RoPE) then its value."""
    entry: Tensor
    """(B, T, E): the input of the last N layers; with N = 0 the same as `last`."""
    last: Tensor
    """(B, T, E): after the final norm."""


def drafter_config(
    model: PreTrainedModel, name: str, *, inference_layers: int, ffn: int | None = None
) -> DrafterConfig:
    """The shapes of a drafter for this target. Raises `UnsupportedTarget`."""
    config = model.config
    if inference_layers and config.model_type not in ("llama", "mistral"):
        raise UnsupportedTarget(f"Target layer inference needs Llama-like layers, not {config.model_type}: use N = 0.")
    if inference_layers >= config.num_hidden_layers:
        raise UnsupportedTarget(f"N = {inference_layers}, but the target has {config.num_hidden_layers} layers.")
    rope = dict(getattr(config, "rope_parameters", None) or {})
    if inference_layers and rope.get("rope_type", "default") != "default":
        raise UnsupportedTarget(f"Target layer inference does not know {rope['rope_type']} positions: use N = 0.")
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kv_heads = config.num_key_value_heads
    return DrafterConfig(
        target=name,
        vocabulary=model.get_input_embeddings().weight.shape[0],
        hidden=config.hidden_size,
        target_layers=config.num_hidden_layers,
        target_kv_heads=kv_heads,
        target_head_size=size,
        heads=config.num_attention_heads,
        kv_heads=kv_heads,
        head_size=size,
        ffn=ffn or config.intermediate_size,
        encoder_ffn=3 * kv_heads * size,
        inference_layers=inference_layers,
        target_heads=config.num_attention_heads,
        target_ffn=config.intermediate_size,
        rope_theta=float(rope.get("rope_theta", 10_000.0)),
        norm_eps=config.rms_norm_eps,
    )


def borrow(draft: DraftModel, model: PreTrainedModel) -> None:
    """Copy the target's embedding, last N layers, norm and head into the drafter, and freeze them there."""
    with torch.no_grad():
        draft.embedding.weight.copy_(model.get_input_embeddings().weight)
        draft.head.weight.copy_(model.get_output_embeddings().weight)
        if draft.config.inference_layers:
            draft.norm.load_state_dict(model.model.norm.state_dict())
            for mine, theirs in zip(draft.target_layers, model.model.layers[-draft.config.inference_layers :]):
                mine.load_state_dict(theirs.state_dict())
    draft.freeze()


@torch.no_grad()
def features(model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor, inference_layers: int) -> Features:
    """One forward of the target. `ids`, `positions` (B, T); `mask` (B, 1, T, T) bool, true where a query sees a key."""
    layers = model.config.num_hidden_layers
    cache = DynamicCache(config=model.config)
    out = model.model(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask,
        past_key_values=cache,
        use_cache=True,
        output_hidden_states=[layers - inference_layers] if inference_layers else None,
    )
    pairs = [torch.stack((layer.keys, layer.values), dim=-2) for layer in cache.layers]  # (B, Hk, T, 2, d) each
    stacked = torch.stack(pairs, dim=1).permute(0, 3, 1, 2, 4, 5).flatten(3)
    last = out.last_hidden_state
    return Features(stacked, out.hidden_states[layers - inference_layers] if inference_layers else last, last)
