"""The frozen target as a teacher: its cached keys and values and its features, of batches or of a verifier's rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@torch.no_grad()
def hidden_states(
    model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor, layers: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """One forward of the target: hidden states of `layers` side by side (B, T, len(layers)*E), and the last (B, T, E).

    Arguments are those of `features`. `layers` are counted as transformers does: i is the input of layer i, and L is
    what the final norm gives.
    """
    out = model.model(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask,
        use_cache=False,
        output_hidden_states=list(layers) or None,
    )
    return _beside(out, layers), out.last_hidden_state


def _beside(out: Any, layers: Sequence[int]) -> Tensor:
    if not layers:
        return out.last_hidden_state[..., :0]  # type: ignore[no-any-return]
    return torch.cat([out.hidden_states[layer] for layer in layers], dim=-1)


class FeatureTap:
    """While open, keeps hidden states of a verifying target's forwards: what EAGLE's drafters get after each round.

    `layers` as in `hidden_states`. The forwards are of one sequence each: pending tokens, then a draft tree's nodes.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int]) -> None:
        self._body, self._layers = model.model, list(layers)
        self._seen: list[Tensor] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> FeatureTap:
        self._hooks = [
            self._body.register_forward_pre_hook(self._ask, with_kwargs=True),
            self._body.register_forward_hook(self._keep),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def take(self, nodes: int, accepted: Sequence[int]) -> Tensor:
        """(n, len(layers)*E): of the tokens that were verified since the last call.

        These are all that were pending, and the `accepted` ones of the last forward's `nodes` tree nodes.
        """
        rows = torch.cat(self._seen)
        self._seen.clear()
        pending = len(rows) - nodes
        return rows[[*range(pending), *(pending + node for node in accepted)]]

    def _ask(self, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, kwargs | {"output_hidden_states": self._layers or None}

    def _keep(self, body: Any, args: tuple[Any, ...], out: Any) -> None:
        self._seen.append(_beside(out, self._layers)[0])
