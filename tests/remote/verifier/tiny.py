"""Tiny targets with random weights, a tokenizer, an encoder, and trees of every kind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from drafter.model import MemoryEncoder
from models.config import DrafterConfig
from models.tree import DraftTree
from tests.support.tiny_text import CHAT_TEMPLATE, CORPUS, END, train_tokenizer

VOCABULARY = 48
STOP = 1

_SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 3, "max_position_embeddings": 512,
    "initializer_range": 0.4, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
_MIXED = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}

CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**_SHAPE, tie_word_embeddings=False),
    "llama-tied": lambda: transformers.LlamaConfig(**_SHAPE, tie_word_embeddings=True),
    "llama-multi-query": lambda: transformers.LlamaConfig(**{**_SHAPE, "num_key_value_heads": 1}),
    "llama-many-heads": lambda: transformers.LlamaConfig(**{**_SHAPE, "num_key_value_heads": 4}),
    "qwen2": lambda: transformers.Qwen2Config(**_SHAPE, tie_word_embeddings=True),
    "qwen3": lambda: transformers.Qwen3Config(**_SHAPE),
    "qwen3-mixed": lambda: transformers.Qwen3Config(**_SHAPE, use_sliding_window=True, **_MIXED),
    "mistral-window": lambda: transformers.MistralConfig(**_SHAPE, sliding_window=5),
    "gemma": lambda: transformers.GemmaConfig(**_SHAPE),
    "gemma2-eager": lambda: transformers.Gemma2Config(**_SHAPE, **_MIXED, query_pre_attn_scalar=8),
    "gemma3-mixed": lambda: transformers.Gemma3TextConfig(
        **_SHAPE | {"head_dim": 16}, **_MIXED, query_pre_attn_scalar=16,
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=3, n_head=4, n_positions=512, initializer_range=0.4,
        bos_token_id=None, eos_token_id=None,
    ),
}  # fmt: skip

TREELESS = {
    "bloom": lambda: transformers.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.4,
    ),
    "mamba": lambda: transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, initializer_range=0.4,
    ),
    "lfm2": lambda: transformers.Lfm2Config(
        **_SHAPE | {"layer_types": ["conv", "full_attention", "conv"]}, block_auto_adjust_ff_dim=False,
    ),
    "qwen3-next": lambda: transformers.Qwen3NextConfig(
        **_SHAPE | {"num_hidden_layers": 4}, linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
}  # fmt: skip
"""Models that cannot read a draft tree."""


def tiny_model(kind: str = "llama", seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config((CONFIGS | TREELESS)[kind](), dtype=torch.float32).eval()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {"<pad>": 0, "<end>": STOP} | {f"w{index}": index for index in range(2, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}<end>{% endfor %}"
    return fast


def save_speaking(kind: str, folder: Path, corpus: Sequence[str] = CORPUS) -> Path:
    """Write a tiny model with a byte-level tokenizer and a chat template into a folder, as transformers does."""
    tokenizer = train_tokenizer(corpus)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = CHAT_TEMPLATE
    config = (CONFIGS | TREELESS)[kind]()
    config.vocab_size, config.eos_token_id, config.pad_token_id = tokenizer.get_vocab_size(), END, None
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def encoder_config(inference_layers: int = 1) -> DrafterConfig:
    return DrafterConfig(
        target="tiny", vocabulary=VOCABULARY, hidden=32, target_layers=3, target_kv_heads=2, target_head_size=8,
        heads=2, kv_heads=2, head_size=16, ffn=48, encoder_ffn=48, inference_layers=inference_layers, target_heads=4,
        target_ffn=48, rope_theta=10_000.0, norm_eps=1e-6, stop_tokens=(STOP,), memory="ab" * 16,
    )  # fmt: skip


def tiny_encoder(inference_layers: int = 1) -> MemoryEncoder:
    torch.manual_seed(7)
    return MemoryEncoder(encoder_config(inference_layers)).eval().requires_grad_(False)


def generated(model: PreTrainedModel, prompt: list[int], count: int) -> list[int]:
    """What transformers' own greedy decoding adds to the prompt."""
    ids = torch.tensor([prompt])
    output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
    return output[0, len(prompt) :].tolist()


def plain_logits(model: PreTrainedModel, tokens: list[int]) -> np.ndarray:
    """Logits after the last token, without any cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].float().numpy()


def random_tree(rng: random.Random, nodes: int, vocabulary: int = VOCABULARY) -> DraftTree:
    pairs: list[tuple[int, int]] = []
    while len(pairs) < nodes:
        pair = (rng.randrange(-1, len(pairs)), rng.randrange(vocabulary))
        if pair not in pairs:
            pairs.append(pair)
    return DraftTree([token for _, token in pairs], [parent for parent, _ in pairs])


def tree_around(rng: random.Random, path: list[int], nodes: int) -> DraftTree:
    """A tree that holds `path` among random other nodes."""
    pairs, at = list[tuple[int, int]](), -1

    def other() -> None:
        pair = (rng.randrange(-1, len(pairs)), rng.randrange(VOCABULARY))
        if pair not in pairs:
            pairs.append(pair)

    for token in path:
        for _ in range(rng.randrange(3)):
            other()
        if (at, token) not in pairs:
            pairs.append((at, token))
        at = pairs.index((at, token))
    while len(pairs) < nodes:
        other()
    return DraftTree([token for _, token in pairs], [parent for parent, _ in pairs])
