"""A tiny random target, and a distiller on it, for tests of training: wide weights, so that every input matters."""

from __future__ import annotations

import msgspec
import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from drafter.training.batches import Batch
from drafter.training.distil import Distiller
from drafter.training.target import Features, drafter_config, features
from models.config import DrafterConfig
from tests.remote.verifier.tiny import CONFIGS

VOCABULARY = 61


def tiny_target(seed: int = 0) -> LlamaForCausalLM:
    config = CONFIGS["llama"]()
    config.vocab_size, config.num_hidden_layers = VOCABULARY, 4
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        target = LlamaForCausalLM(config).eval().requires_grad_(False)
        widen(target, 0.25)
    return target


def tiny_distiller(target: LlamaForCausalLM, inference_layers: int, seed: int = 1, **shape: int) -> Distiller:
    """Untrained, with weights so wide that memory, cache rows and positions all move the result."""
    config = drafter_config(target, "tiny", inference_layers=inference_layers)
    config = msgspec.structs.replace(config, top=VOCABULARY, **{"layer_self_attention": True, **shape})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        distiller = Distiller(config, target).eval().requires_grad_(False)
        for part in (distiller.encoder, distiller.draft.self_attention, distiller.draft.cross_attention):
            widen(part, 0.25)
    return distiller


def widen(module: nn.Module, std: float) -> None:
    for weight in module.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=std)


def features_of(target: LlamaForCausalLM, batch: Batch, config: DrafterConfig) -> Features:
    """The target's features of a packed batch, as `train` asks for them."""
    index = torch.arange(batch.ids.shape[1])
    mask: Tensor = (batch.segments[:, :, None] == batch.segments[:, None, :])[:, None] & (index[:, None] >= index)
    return features(target, batch.ids, batch.positions, mask, config)
