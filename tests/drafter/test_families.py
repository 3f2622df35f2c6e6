"""Drafters for targets of many families: what the device borrows from each is exactly what the target computes."""

from __future__ import annotations

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto import AutoModelForCausalLM

from drafter.model import load_draft_model, save_weights
from drafter.training.batches import AnsweredConversation
from drafter.training.distil import Distiller, train
from drafter.training.recipe import Recipe
from drafter.training.target import UnsupportedTarget, check_head, copy_layers, drafter_config
from models.config import FLOAT, write_config
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree

VOCABULARY = 61
SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256,
    "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
"""The scaling of Llama 3.1, in small."""
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 64}
FAMILIES = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False),
    "llama-tied": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "mistral-window": MistralConfig(**SHAPE, sliding_window=8),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE, tie_word_embeddings=True),
    "llama-scaled": LlamaConfig(**SHAPE, rope_parameters=LLAMA3),
    "llama-linear": LlamaConfig(**SHAPE, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}),
    "qwen3-yarn": Qwen3Config(**SHAPE, rope_parameters=YARN),
    "qwen3-wide-heads": Qwen3Config(**{**SHAPE, "head_dim": 16, "num_key_value_heads": 4}),
    "gemma": GemmaConfig(**SHAPE),
    "gemma3": Gemma3TextConfig(**SHAPE, sliding_window=8),
}
INFERABLE = [name for name in FAMILIES if not name.startswith("gemma")]
TRAINED = ("llama", "llama-tied", "mistral-window", "qwen2", "gemma", "gemma3")
"""Others differ in their positions and sizes alone, which only the first test is about."""


def tiny(name: str) -> PreTrainedModel:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(FAMILIES[name]).eval().requires_grad_(False)
        for weight_name, weight in model.named_parameters():
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=0.25)
            elif weight_name.endswith("bias"):
                torch.nn.init.normal_(weight, std=0.5)
            else:
                weight.mul_(torch.empty_like(weight).uniform_(0.5, 1.5))
    return model


def seven_tokens() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, their positions and a causal mask of tokens that are all within the windows."""
    return torch.arange(3, 10)[None], torch.arange(7)[None], torch.ones(1, 1, 7, 7, dtype=torch.bool).tril()


@pytest.mark.parametrize(
    ("name", "count", "first", "blocks"),
    [*((name, 1, 0, 1) for name in INFERABLE), ("qwen3", 0, 0, 1), ("qwen3", 0, 1, 1), ("qwen3", 0, 0, 2)],
)
def test_a_drafter_begins_as_its_target_without_the_layers_between(name, count, first, blocks):
    target = tiny(name)
    shape = drafter_config(target, name, inference_layers=count, first_layers=first)
    config, own_layers = msgspec.structs.replace(shape, blocks=blocks), first + blocks
    for layer in target.base_model.layers[own_layers : config.replaced + 1]:  # Nothing is lost when these are left out.
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    draft = Distiller(config, target).draft.eval()
    copy_layers(draft, target)
    ids, positions, causal = (one[0] for one in seven_tokens())
    mask = torch.where(causal[0], 0.0, -1e9)
    own, theirs = (config.kv_heads, 0, config.head_size), (config.target_kv_heads, 0, config.target_head_size)
    past = [tuple(torch.zeros(2, *shape)) for shape in ([theirs] * first + [own] * blocks + [theirs] * count)]
    hidden, _ = draft(ids, positions, mask, past, past[0])
    torch.testing.assert_close(draft.head(hidden), target(input_ids=ids[None]).logits[0], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", TRAINED)
def test_every_family_trains_and_drafts(name, tmp_path):
    target = tiny(name)
    check_head(target)
    config = drafter_config(target, name)
    assert config.inference_layers == (1 if name in INFERABLE else 0)
    ids = torch.randint(2, VOCABULARY, (6, 24), generator=torch.Generator().manual_seed(5)).tolist()
    data = [AnsweredConversation(row, [(6, 24)]) for row in ids]
    recipe = Recipe(steps=2, rows=1, row=24, rate=1e-2, warmup=1, decay=0.0)
    model = train(config, target, data, tmp_path, recipe)
    engine = TorchEngine(target, model.encoder.eval().requires_grad_(False))
    context = engine.context()
    context.assign(0, ids[0])
    engine.verify(context, DraftTree.empty())
    assert engine.memory(context, 0, 24)


def test_a_family_that_cannot_be_inferred_says_so():
    with pytest.raises(UnsupportedTarget, match="not gemma. A drafter with its own layers can be trained"):
        drafter_config(tiny("gemma"), "gemma", inference_layers=1)
    with pytest.raises(UnsupportedTarget, match="3 layers"):
        drafter_config(tiny("llama"), "llama", inference_layers=3)
    scaled = LlamaConfig(**SHAPE, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})
    with pytest.raises(UnsupportedTarget, match="dynamic positions, which change with the length"):
        drafter_config(AutoModelForCausalLM.from_config(scaled), "scaled", inference_layers=1)


def test_a_head_that_cannot_be_borrowed_is_refused():
    shape = {**SHAPE, "final_logit_softcapping": 2.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        capped = AutoModelForCausalLM.from_config(Gemma2Config(**shape)).eval()
        torch.nn.init.normal_(capped.get_output_embeddings().weight)
    with pytest.raises(UnsupportedTarget, match="gemma2"):
        check_head(capped)
    shape = {key: value for key, value in SHAPE.items() if key not in ("num_key_value_heads", "head_dim")}
    assert drafter_config(AutoModelForCausalLM.from_config(GPTNeoXConfig(**shape)), "neox").kv_heads == 4


@pytest.mark.parametrize(("name", "tied"), [("llama", False), ("qwen3", True)])
def test_a_tied_head_is_kept_once_and_read_again(name, tied, tmp_path):
    target = tiny(name)
    model = Distiller(drafter_config(target, name), target)
    save_weights(model.draft, tmp_path / FLOAT)
    write_config(tmp_path, model.config)
    assert ("head.weight" not in load_file(tmp_path / FLOAT)) == tied
    again = load_draft_model(tmp_path)
    for part, weight in model.draft.state_dict().items():
        assert torch.equal(again.state_dict()[part], weight.bfloat16().float()), part
