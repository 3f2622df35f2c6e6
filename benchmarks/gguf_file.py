"""Writes a model's folder as a GGUF file, as llama.cpp reads it.

    python -m benchmarks.gguf_file FOLDER OUT.gguf [--type f32|f16|q8_0]

For the comparison with llama.cpp, and for tests. It knows models like Llama, Qwen 2 and Qwen 3 with a byte-level BPE
tokenizer; for all others there is llama.cpp's own `convert_hf_to_gguf.py`. The names of entries and tensors are those
of the GGUF specification.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from remote.verifier.engine import Floats
from remote.verifier.engines.tensors import read_tensors
from remote.verifier.text_side import licence_in

TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
}
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""The architecture of each `model_type` of transformers."""
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Parts of a layer, as transformers names them and as GGUF does."""


def write_gguf(folder: Path, out: Path, kind: str = "f32") -> None:
    """Write the model in `folder` to the file `out`. `kind`: of its matrices; vectors stay in float32.

    Raises `SystemExit` for a model that this module does not know.
    """
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES.get(config["model_type"])
    if architecture is None:
        raise SystemExit(f"{folder} is a {config['model_type']} model; this writes {', '.join(ARCHITECTURES)} alone.")
    writer = gguf.GGUFWriter(out, architecture)
    _about(writer, config, folder.resolve().name)
    if licence := licence_in(folder / "README.md"):
        writer.add_license(licence)
    _vocabulary(writer, folder, config)
    for name, tensor in _tensors(folder, config):
        wanted = TYPES[kind] if tensor.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(tensor), wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _about(writer: gguf.GGUFWriter, config: dict[str, Any], name: str) -> None:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    size = config.get("head_dim") or hidden // heads
    rope = config.get("rope_parameters") or config
    writer.add_name(name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(float(rope.get("rope_theta", 10_000.0)))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


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
    # The rule by which text is split. The bundled tokenizer has one of its own, and Qwen's is near to it.
    plain = (tokenizer["pre_tokenizer"] or {}).get("type") == "ByteLevel"
    writer.add_tokenizer_pre("gpt-2" if plain else "qwen2")
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
    """Each tensor with its name in GGUF."""
    heads = config["num_attention_heads"]
    counts = {"attn_q": heads, "attn_k": config.get("num_key_value_heads", heads)}
    for name, tensor in read_tensors(folder).items():
        whole, _, part = name.rpartition(".")
        whole = whole.removeprefix("model.")
        if whole.startswith("layers."):
            _, layer, rest = whole.split(".", 2)
            known = NAMES[rest]
            if config["model_type"] == "llama" and known in counts:
                tensor = _neighbours(tensor, counts[known])
            yield f"blk.{layer}.{known}.{part}", tensor
        elif whole == "lm_head":
            if not config.get("tie_word_embeddings"):
                yield f"output.{part}", tensor
        else:
            yield f"{ {'embed_tokens': 'token_embd', 'norm': 'output_norm'}[whole] }.{part}", tensor


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
