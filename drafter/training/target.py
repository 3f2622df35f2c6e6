"""The frozen target as a teacher: its cached keys and values and its features, for batches or a verifier's rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel

from drafter.model import DraftModel
from models.config import DrafterConfig, Rope
from models.engines.target import cache_argument
from models.packed import Rows, Weight


class UnsupportedTarget(ValueError):
    """A drafter cannot be made for the target's architecture in this way.

    The message names the part that prevents it.
    """


@dataclass(frozen=True)
class Features:
    """What the target computed for B rows of T tokens."""

    keys_values: Tensor
    """(B, T, L, 2*Hk*d): per token and layer, each KV head's key (after RoPE), then its value."""
    entry: Tensor
    """(B, T, E): the input of the last N layers. With N = 0 the same as `last`."""
    last: Tensor
    """(B, T, E): after the final norm."""
    start: Tensor | None = None
    """(B, T, E): the output of the first F layers. None with F = 0."""


@dataclass(frozen=True)
class _Layers:
    """How the decoder layers of a model family differ from Llama's."""

    qkv_bias: bool = False
    qk_norm: bool = False


INFERABLE = {
    "llama": _Layers(),
    "mistral": _Layers(),
    "qwen2": _Layers(qkv_bias=True),
    "qwen3": _Layers(qk_norm=True),
}
"""Model families whose layers the device can run. Beyond a sliding window, the device sees more than the target does.
Its guesses get worse there, never wrong."""


SCALED = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions that do not depend on the length of the text, so a device can compute them."""


def drafter_config(
    model: PreTrainedModel,
    name: str,
    *,
    inference_layers: int | None = None,
    first_layers: int | None = None,
    layer_self_attention: bool | None = None,
    ffn: int | None = None,
) -> DrafterConfig:
    """The shapes of a drafter for this target, with as many heads. `ffn`: width of its MLPs, by default the target's.

    `inference_layers` (N) and `first_layers` (F) are by default 1 if the device can run the target's layers and enough
    are left between them, else 0. `layer_self_attention` is by default used only if memory is all that the drafter has
    of the target's layers. Next to the keys and values of one of these layers, it costs a third of the training and
    gains nothing measurable. Raises `UnsupportedTarget`.
    """
    config = model.config.get_text_config(decoder=True)
    why = _not_inferable(config)
    if inference_layers is None:
        inference_layers = 0 if why or config.num_hidden_layers < 2 else 1
    between = config.num_hidden_layers - inference_layers
    if first_layers is None:
        first_layers = 0 if why or between < 3 else 1
    if why and inference_layers + first_layers:
        raise UnsupportedTarget(
            f"Running the model's own layers on a device {why}. A drafter with its own layers can be trained: "
            "outrider drafter train --first-layers 0 --inference-layers 0."
        )
    if first_layers >= between:
        raise UnsupportedTarget(
            f"{first_layers} first layers and {inference_layers} last ones are too many: the model has "
            f"{config.num_hidden_layers} layers, and at least one must remain between them."
        )
    layers = _Layers() if why else INFERABLE[config.model_type]
    rope = Rope(float(_rope_parameters(config).get("rope_theta", 10_000.0))) if why else _rope(model)
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return DrafterConfig(
        target=name,
        vocabulary=model.get_input_embeddings().weight.shape[0],
        hidden=config.hidden_size,
        target_layers=config.num_hidden_layers,
        target_kv_heads=kv_heads,
        target_head_size=size,
        heads=heads,
        kv_heads=kv_heads,
        head_size=size,
        ffn=ffn or width,
        encoder_ffn=3 * kv_heads * size,
        inference_layers=inference_layers,
        first_layers=first_layers,
        layer_self_attention=bool(why) if layer_self_attention is None else layer_self_attention,
        target_heads=heads,
        target_ffn=width,
        target_qkv_bias=layers.qkv_bias,
        target_qk_norm=layers.qk_norm,
        rope_theta=rope.theta,
        rope_frequencies=rope.frequencies,
        rope_scale=rope.scale,
        norm_eps=float(getattr(config, "rms_norm_eps", 1e-6)),
        correctable=True,
        exit_norm=bool(why),
        from_target=not why,
    )


def _rope_parameters(config: PreTrainedConfig) -> dict[str, Any]:
    return dict(getattr(config, "rope_parameters", None) or {})


def _rope(model: PreTrainedModel) -> Rope:
    """The rotary positions of an inferable target, as transformers computes them."""
    parameters = _rope_parameters(model.config.get_text_config(decoder=True))
    theta = float(parameters.get("rope_theta", 10_000.0))
    if parameters.get("rope_type", "default") == "default":
        return Rope(theta)
    rotary = model.base_model.rotary_emb
    return Rope(theta, tuple(rotary.inv_freq.float().tolist()), float(rotary.attention_scaling))


def _not_inferable(config: PreTrainedConfig) -> str | None:
    """Why the device cannot run this target's layers, or None if it can."""
    rope = _rope_parameters(config)
    if config.model_type not in INFERABLE:
        return f"needs layers like those of {', '.join(INFERABLE)}, not {config.model_type}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return "does not know partial positions"
    if rope.get("rope_type", "default") not in SCALED:
        return f"does not know {rope['rope_type']} positions, which change with the length of the text"
    if config.model_type != "qwen2" and getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False):
        return "does not know layers with biases"
    if config.hidden_act != "silu":
        return f"does not know the activation {config.hidden_act}"
    return None


def check_head(model: PreTrainedModel) -> None:
    """Raise `UnsupportedTarget` if the target's logits are not those of its head on its last hidden state.

    Drafters borrow the head, and some families scale or cap its result.
    """
    ids = torch.arange(min(8, model.get_input_embeddings().weight.shape[0]), device=model.device)[None]
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits.float()
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        plain = (hidden @ model.get_output_embeddings().weight.T).float()
    if not torch.allclose(logits.log_softmax(-1), plain.log_softmax(-1), atol=0.1, rtol=0.01):
        raise UnsupportedTarget(
            f"The head of {model.config.model_type} scales, caps or shifts its logits, which drafters cannot copy yet."
        )


def borrow(draft: DraftModel, model: PreTrainedModel) -> None:
    """Copy the target's embedding, first F and last N layers, norm and head into the drafter, and freeze them there."""
    with torch.no_grad():
        draft.embedding.weight.copy_(model.get_input_embeddings().weight)
        draft.head.weight.copy_(model.get_output_embeddings().weight)
        if draft.config.inference_layers or draft.config.from_target:
            draft.norm.load_state_dict(model.base_model.norm.state_dict())
        if draft.config.first_layers + draft.config.inference_layers:
            layers = model.base_model.layers
            theirs = [*layers[: draft.config.first_layers], *layers[len(layers) - draft.config.inference_layers :]]
            for mine, its in zip([*draft.first_layers, *draft.target_layers], theirs, strict=True):
                mine.load_state_dict(its.state_dict())
    draft.freeze()


def packed_parts(config: DrafterConfig, weights: Mapping[str, Weight]) -> dict[str, Weight]:
    """The packed matrices of the target that the drafter has unchanged, by their names in its step graph."""
    known = {"model.embedding.weight": weights["model.embed_tokens.weight"]}
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    if config.draft_vocabulary and isinstance(head, Rows):
        kept = list(config.draft_vocabulary)
        head = Rows(head.numbers[kept], head.scales[kept])
    known["head.weight"] = head
    places = {f"model.layers.{at}.": f"model.first_layers.{at}." for at in range(config.first_layers)}
    for at in range(config.inference_layers):
        places[f"model.layers.{config.entry_layer + at}."] = f"model.target_layers.{at}."
    for name, weight in weights.items():
        place = next((place for place in places if name.startswith(place)), None)
        if place is not None and not isinstance(weight, np.ndarray):
            known[places[place] + name.removeprefix(place)] = weight
    return known


@torch.no_grad()
def copy_layers(draft: DraftModel, model: PreTrainedModel) -> None:
    """Initialise from the target's layers: those after the first F as self-attention, `replaced` as cross-attention.

    So the drafter starts as its target without the layers in between, and learns to compensate for them. If its MLPs
    have another width, they keep their random weights.
    """
    layers = model.base_model.layers
    for own, theirs in zip(draft.self_attention, layers[draft.config.first_layers :]):
        _copy_fitting(own, theirs.state_dict())
    # The cross-attention has its projections next to its MLP, not in a separate module.
    source = {
        name.removeprefix("self_attn."): weight for name, weight in layers[draft.config.replaced].state_dict().items()
    }
    _copy_fitting(draft.cross_attention, source)


def _copy_fitting(module: nn.Module, source: Mapping[str, Tensor]) -> None:
    for name, weight in module.state_dict().items():
        if name in source and source[name].shape == weight.shape:
            weight.copy_(source[name])


def features(model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor, config: DrafterConfig) -> Features:
    """Run the target once, and return what a drafter of this config learns from.

    `ids`, `positions` (B, T). `mask` (B, 1, T, T) bool, true where a query sees a key.
    """
    layers = [layer for layer in (config.entry_layer, config.first_layers) if 0 < layer < config.target_layers]
    keys_values, states, last = everything(model, ids, positions, mask, layers)
    state = dict(zip(layers, torch.split(states, config.hidden, dim=-1)))
    return Features(keys_values, state.get(config.entry_layer, last), last, state.get(config.first_layers))


@torch.no_grad()
def everything(
    model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor, layers: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the target once: `Features.keys_values`, hidden states of `layers` (B, T, len(layers)*E), the last (B, T, E).

    Layers are counted as in transformers: i is the input of layer i, and L is the result of the final norm.
    """
    cache = DynamicCache()  # Without the config, layers with a sliding window keep all rows.
    out = model.base_model(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask,
        **cache_argument(model, cache),
        use_cache=True,
        output_hidden_states=list(layers) or None,
    )
    pairs = [torch.stack((layer.keys, layer.values), dim=-2) for layer in cache.layers]  # (B, Hk, T, 2, d) each
    stacked = torch.stack(pairs, dim=1).permute(0, 3, 1, 2, 4, 5).flatten(3)
    last = out.last_hidden_state
    return stacked, torch.cat([*(out.hidden_states[layer] for layer in layers), last[..., :0]], dim=-1), last
