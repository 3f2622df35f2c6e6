"""Writes a model's folder as a GGUF file, as llama.cpp reads it.

    python -m tests.support.gguf_writer FOLDER OUT.gguf [--type f32|f16|q8_0]

For the comparison with llama.cpp, and for tests. It knows the architectures below, with a byte-level BPE tokenizer;
for all others there is llama.cpp's own `convert_hf_to_gguf.py`. The names of entries and tensors are those of the GGUF
specification.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from models.engines.engine import Floats
from models.files import PACKED
from models.packed import floats, read_packed
from models.tensors import read_tensors
from models.text.text_side import licence_in

TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "mamba": gguf.MODEL_ARCH.MAMBA,
    "lfm2": gguf.MODEL_ARCH.LFM2,
}
"""The architecture of each `model_type` of transformers."""
KEPT = ("norm", "conv", "ssm_a", "ssm_d")
"""Parts of names of small tensors, which stay in float32."""


def write_gguf(folder: Path, out: Path, kind: str = "f32") -> None:
    """Write the model in `folder` to the file `out`. `kind`: of its matrices; vectors stay in float32.

    Raises `SystemExit` for a model that this module does not know.
    """
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES.get(config["model_type"])
    if architecture is None:
        raise SystemExit(f"{folder} is a {config['model_type']} model; this writes {', '.join(ARCHITECTURES)} alone.")
    writer = gguf.GGUFWriter(out, gguf.MODEL_ARCH_NAMES[architecture])
    _about(writer, config, folder.resolve().name)
    if licence := licence_in(folder / "README.md"):
        writer.add_license(licence)
    _vocabulary(writer, folder, config)
    for name, tensor in _tensors(folder, config):
        matrix = tensor.ndim > 1 and not any(part in name for part in KEPT)
        wanted = TYPES[kind] if matrix else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(tensor), wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _about(writer: gguf.GGUFWriter, config: dict[str, Any], name: str) -> None:
    writer.add_name(name)
    writer.add_context_length(config.get("max_position_embeddings", 1 << 20))
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_vocab_size(config["vocab_size"])
    eps = next(config[name] for name in ("rms_norm_eps", "norm_eps", "layer_norm_epsilon") if name in config)
    writer.add_layer_norm_rms_eps(eps)
    if "num_attention_heads" in config:
        _attention(writer, config)
    else:
        _states(writer, config)


def _attention(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    heads, kinds = config["num_attention_heads"], config.get("layer_types", [])
    kv_heads, size = config.get("num_key_value_heads", heads), config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv([0 if kind == "conv" else kv_heads for kind in kinds] if "conv" in kinds else kv_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(float(rope.get("full_attention", rope).get("rope_theta", 10_000.0)))
    if "conv" in kinds:
        writer.add_shortconv_l_cache(config["conv_L_cache"])
    if config["model_type"] == "gemma3_text":
        writer.add_rope_freq_base_swa(float(rope["sliding_attention"]["rope_theta"]))
        writer.add_sliding_window(config["sliding_window"])
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in kinds])


def _states(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """The entries of Mamba. llama.cpp wants those of attention too, as zeros."""
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(config["conv_kernel"])
    writer.add_ssm_inner_size(config["intermediate_size"])
    writer.add_ssm_state_size(config["state_size"])
    writer.add_ssm_time_step_rank(config["time_step_rank"])


def _vocabulary(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    """The tokenizer, the chat template and the token that ends an answer. Without a BPE tokenizer, only the ids."""
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text("utf-8")) if file.is_file() else {"model": {"type": None}}
    if tokenizer["model"]["type"] != "BPE":
        writer.add_tokenizer_model("none")
        return
    named = {number: token for token, number in tokenizer["model"]["vocab"].items()}
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    named |= special
    numbers = range(config["vocab_size"])
    types = [gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL for number in numbers]
    writer.add_tokenizer_model("gpt2")
    # The rule by which text is split. Qwen's is near to most.
    rule = tokenizer["pre_tokenizer"] or {}
    parts = rule.get("pretokenizers", [rule])
    digits = parts[0].get("type") == "Digits" or parts[0].get("pattern") == {"Regex": r"\p{N}"}
    writer.add_tokenizer_pre("smollm" if digits else "gpt-2" if rule.get("type") == "ByteLevel" else "qwen2")
    writer.add_token_list([named.get(number, f"[unused{number}]") for number in numbers])
    writer.add_token_types(types)
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    ends = json.loads((folder / "generation_config.json").read_text()).get("eos_token_id", config.get("eos_token_id"))
    writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    writer.add_add_bos_token(False)
    if (folder / "chat_template.jinja").is_file():
        writer.add_chat_template((folder / "chat_template.jinja").read_text("utf-8"))


def _tensors(folder: Path, config: dict[str, Any]) -> Iterator[tuple[str, Floats]]:
    """Each tensor with its name in GGUF, and as llama.cpp wants it."""
    heads = config.get("num_attention_heads", 0)
    counts = {"attn_q": heads, "attn_k": config.get("num_key_value_heads", heads)}
    names = gguf.get_tensor_name_map(ARCHITECTURES[config["model_type"]], config["num_hidden_layers"])
    packed = read_packed(folder / PACKED) if (folder / PACKED).exists() else None
    tensors = read_tensors(folder) if packed is None else {name: floats(weight) for name, weight in packed.items()}
    for name, tensor in tensors.items():
        if name.startswith("lm_head.") and config.get("tie_word_embeddings"):
            continue
        known = names.get_name(name, (".weight", ".bias"))
        assert known is not None, name
        if config["model_type"] == "llama" and (part := known.split(".")[-2]) in counts:
            tensor = _neighbours(tensor, counts[part])
        elif config["model_type"] == "gemma3_text" and "norm" in known:
            tensor = tensor + 1
        elif known.endswith("ssm_a"):
            tensor = -np.exp(tensor)
        elif "conv" in known and tensor.ndim == 3:
            tensor = tensor[:, 0]
        yield known, tensor


def _neighbours(tensor: Floats, heads: int) -> Floats:
    """The rows of queries or keys in llama.cpp's order for Llama: numbers that are turned together are neighbours."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", choices=TYPES, default="f32")
    arguments = parser.parse_args()
    write_gguf(arguments.folder, arguments.out, arguments.type)


if __name__ == "__main__":
    main()
