"""A target of many layers that each change what it says, as in a model that was trained: little can be cut out of it.

The tiny pair's target is nearly a bigram table, so it says about the same without its middle layers. Here, what a layer
adds is larger than what comes in.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tests.support.tiny_text import CHAT_TEMPLATE, END, SPECIAL, train_tokenizer

LAYERS = 12


def write_deep_target(folder: Path, *, seed: int = 0) -> Path:
    """Write the model's folder. It never ends an answer by itself. Returns `folder`."""
    tokenizer = train_tokenizer()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    fast.chat_template = CHAT_TEMPLATE
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1024,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=0,
    )
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    try:
        model = LlamaForCausalLM(config).eval().requires_grad_(False)
    finally:
        torch.random.set_rng_state(state)
    for token in range(config.vocab_size):
        text = fast.decode([token])
        if token < len(SPECIAL) or not (text.isascii() and text.isprintable()):
            model.lm_head.weight[token] = 0.0
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
