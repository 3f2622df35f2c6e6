"""A tiny target and its drafter, made in seconds with random weights, for tests that need real parts.

Both are nearly a bigram table: their layers add little to the embedding, and they share embedding and head. So the
drafter guesses right often but not always, and every path of a round is tested. Unprintable bytes are never chosen.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import AddedToken, Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from drafter.model import DraftModel, MemoryEncoder, memory_digest, save_weights
from drafter.training.export import export_graph
from drafter.training.target import borrow, drafter_config
from models.config import ENCODER, FLOAT, GRAPH, TEMPLATE, TOKENIZER, Measured, write_config
from models.files import TARGET_GRAPH
from models.guide.names import MARKS
from recipes.shell_guide.graph import write_graph
from tests.support.tiny_text import CHAT_TEMPLATE, END, SPECIAL, train_tokenizer

GOOD = Measured(tau=3.0, alone=0.8, perplexity=5.0, repeated=0.1)
"""Figures above all floors, so that tests may draft and write alone with random weights."""


def build_pair(folder: Path, *, seed: int = 0, marks: bool = False, guesses: bool = True) -> Path:
    """Write `folder/target` (a transformers checkpoint and its graph) and `folder/drafter` (a drafter's folder).

    Returns `folder`. `marks`: it says the marks of names, too. `guesses` False: the drafter guesses nothing right.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        target = _write_target(folder / "target", marks)
        # A server then starts without PyTorch.
        write_graph(folder / "target", folder / "target" / TARGET_GRAPH, int8=False)
        write_drafter(folder / "drafter", folder / "target", target, guesses)
    return folder


def write_smaller(target: Path, folder: Path) -> Path:
    """Write this target without its last layer into `folder`, and return it."""
    model = LlamaForCausalLM.from_pretrained(target)
    del model.model.layers[-1]
    model.config.num_hidden_layers -= 1
    model.save_pretrained(folder)
    for name in (TOKENIZER, TEMPLATE, "tokenizer_config.json"):
        (folder / name).write_bytes((target / name).read_bytes())
    write_graph(folder, folder / TARGET_GRAPH, int8=False)
    return folder


def random_target(tokenizer: Tokenizer, **shape: Any) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A model of this shape, and its tokenizer in transformers."""
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|pad|>")
    fast.chat_template = CHAT_TEMPLATE
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
        max_position_embeddings=1024, bos_token_id=None, eos_token_id=END, pad_token_id=0, **shape,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval().requires_grad_(False), fast


def save_target(model: LlamaForCausalLM, fast: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save both. Tokens that are special or not printable are never the likeliest, so a greedy answer fills its length.

    Marks of names are printable here.
    """
    for token in range(model.config.vocab_size):
        text = fast.decode([token])
        if token < len(SPECIAL) or not (text in MARKS or (text.isascii() and text.isprintable())):
            model.lm_head.weight[token] = 0.0
    model.generation_config.eos_token_id = END
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def _write_target(folder: Path, marks: bool) -> LlamaForCausalLM:
    tokenizer = train_tokenizer()
    if marks:
        tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in MARKS])
    model, fast = random_target(tokenizer, hidden_size=32, intermediate_size=48, num_hidden_layers=3, head_dim=8)
    torch.nn.init.normal_(model.model.embed_tokens.weight)
    torch.nn.init.normal_(model.lm_head.weight)
    for layer in model.model.layers:
        attention = layer.self_attn
        spread = {attention.q_proj: 0.3, attention.k_proj: 0.3, attention.v_proj: 0.2, attention.o_proj: 0.08}
        for projection, std in spread.items():
            torch.nn.init.normal_(projection.weight, std=std)
    for token in range(tokenizer.get_vocab_size()):
        if fast.decode([token]) in MARKS:
            model.lm_head.weight[token] *= 1.5  # Any answer says some of them.
    save_target(model, fast, folder)
    return model


def write_drafter(folder: Path, target_folder: Path, target: LlamaForCausalLM, guesses: bool = True) -> None:
    """Write the folder of a drafter that borrows from this target, unless it `guesses` nothing right."""
    folder.mkdir(parents=True)
    for name in (TOKENIZER, TEMPLATE):
        (folder / name).write_bytes((target_folder / name).read_bytes())
    config = drafter_config(target, "tiny", inference_layers=0, layer_self_attention=True)
    encoder, drafter = MemoryEncoder(config), DraftModel(config)
    if guesses:
        borrow(drafter, target)
    for layer in (drafter.self_attention[0].self_attn["o_proj"], drafter.cross_attention.o_proj):
        torch.nn.init.normal_(layer.weight, std=0.1)
    save_weights(encoder, folder / ENCODER)
    save_weights(drafter, folder / FLOAT)
    export_graph(drafter.eval(), folder / GRAPH)
    digest = hashlib.blake2b((folder / TOKENIZER).read_bytes(), digest_size=16).hexdigest()
    memory = memory_digest(target.state_dict(), encoder).hex()
    known = {"stop_tokens": (END,), "tokenizer": digest, "memory": memory, "measured": GOOD}
    write_config(folder, msgspec.structs.replace(config, **known))
