"""Loads a model with transformers, from a folder, a GGUF file or the Hugging Face hub."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, Cache, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils import cached_file

from models.config import TEMPLATE, TOKENIZER
from models.errors import CorruptWeights, MissingTokenizer, UnknownModel
from models.files import PACKED, file_bytes, graph_in, is_gguf
from models.gguf.file import gguf_name, gguf_path, head_size, why_not_unpacked
from models.gguf.text import text_source
from models.packed import floats, read_packed
from models.text.text_side import CONFIG, GENERATION, TOKENIZER_CONFIG, TextSide, licence_in, read_text_side


@dataclass(frozen=True)
class Target(TextSide):
    """A loaded model, with its text side for devices."""

    model: PreTrainedModel


def load_target(
    model: str,
    *,
    quantize: Literal["int8", "int4"] | None = None,
    device: str | None = None,
    kept: Path | None = None,
    template: str | None = None,
    half: bool = False,
) -> Target:
    """Load a folder, a GGUF file or a hub model: float32 on a CPU, so that greedy output equals `generate`.

    On a GPU it is bfloat16, and on a CPU where `half` of the memory is wanted. A GGUF file's weights are unpacked.
    `kept`: see `text_source`. `template` replaces the model's chat template. Raises `UnknownModel`, `CorruptWeights`,
    `MissingTokenizer`, `MissingPackage`.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float32 if torch.device(device).type == "cpu" and not half else torch.bfloat16
    if is_gguf(model):
        path = gguf_path(model)
        if (why := why_not_unpacked(path)) is not None:
            raise UnknownModel(why)
        about: dict[str, Any] = {"local_files_only": True, "gguf_file": path.name}
        config = _config(model, str(path.parent), about)
        if (size := head_size(path)) is not None:
            config.head_dim = size
        with text_source(model, kept) as source:  # The same as on llama.cpp.
            side = replace(read_text_side(Path(source), template), name=gguf_name(path))
        loaded = _weights(model, str(path.parent), about, config=config, dtype=dtype)
    else:
        local = Path(model).is_dir()  # Then no network is used.
        if not local and (Path(model).is_absolute() or model.startswith(("./", "../", "~"))):
            why = f"{model} is not a GGUF file" if Path(model).exists() else f"There is no folder {model}"
            raise UnknownModel(f"{why}. Give a model's folder, a GGUF file, or a name on the hub.")
        about = {"local_files_only": local}
        config = _config(model, model, about)
        side = read_text_side(Path(model) if local else _text_files(model), template)
        side = side if local else replace(side, name=model)
        if local and file_bytes(packed := Path(model) / PACKED) is not None:
            loaded = _unpacked(packed, config, dtype)
        else:
            # The other weight format is pickle, which runs code while loading.
            loaded = _weights(model, model, about, config=config, dtype=dtype, use_safetensors=True)
    if quantize is not None:
        from models.engines.quanto import quantise  # Slow to import, and rarely wanted.

        quantise(loaded, 8 if quantize == "int8" else 4, head="lm_head", head_bits=None)
    positions = getattr(loaded.config.get_text_config(), "max_position_embeddings", None)
    return Target(**vars(replace(side, positions=positions)), model=loaded.to(device).eval())


def _config(model: str, where: str, about: Mapping[str, Any]) -> PreTrainedConfig:
    try:
        return AutoConfig.from_pretrained(where, trust_remote_code=False, **about)
    except (OSError, ValueError, KeyError) as error:
        raise UnknownModel(f"{model} cannot be loaded as a model: {_first_line(error)}") from error


def _weights(model: str, where: str, about: Mapping[str, Any], **options: Any) -> PreTrainedModel:
    """The model in the folder `where`, or of that name on the hub. Raises `UnknownModel`, `CorruptWeights`."""
    try:
        loaded, report = AutoModelForCausalLM.from_pretrained(
            where, trust_remote_code=False, output_loading_info=True, **about, **options
        )
    except (SafetensorError, RuntimeError, EOFError) as error:
        raise CorruptWeights(f"The weights of {model} are damaged ({_first_line(error)}). Fetch them again.") from error
    except (OSError, ValueError) as error:
        if about["local_files_only"] and graph_in(where) and not any(Path(where).glob("*.safetensors")):
            raise UnknownModel(
                f"{model} has a graph and no weights for PyTorch. Serve it without --engine torch and --quantize."
            ) from None
        raise UnknownModel(f"{model} cannot be loaded as a causal language model: {_first_line(error)}") from error
    if missing := sorted(report["missing_keys"]):
        raise CorruptWeights(
            f"The weights of {model} lack {', '.join(missing[:3])} ({len(missing)} in all). Fetch them again."
        )
    return loaded


def _unpacked(path: Path, config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """The model whose weights `models/packed.py` has packed. Raises `CorruptWeights`."""
    try:
        weights = {name: torch.from_numpy(floats(weight)) for name, weight in read_packed(path).items()}
        made: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
        lacking, unknown = made.load_state_dict(weights, strict=False)
    except (ValueError, RuntimeError) as error:
        raise CorruptWeights(f"{path} is damaged ({_first_line(error)}). Fetch it again.") from error
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    if wrong := sorted({*lacking, *unknown} - tied):
        raise CorruptWeights(f"{path} has other weights than its config says, such as {wrong[0]}. Fetch it again.")
    if file_bytes(path.with_name(GENERATION)) is not None:
        made.generation_config = GenerationConfig.from_pretrained(path.parent)
    return made


def _text_files(model: str) -> Path:
    """The folder in which transformers keeps the text side of a model on the hub. Raises `MissingTokenizer`."""
    names = (CONFIG, GENERATION, TOKENIZER_CONFIG, TEMPLATE, TOKENIZER)
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    paths = [cached_file(model, name, **quiet) for name in names]
    if paths[-1] is None:
        raise MissingTokenizer(f"{model} has no {TOKENIZER}, which devices need. Save a fast tokenizer with it.")
    return Path(paths[-1]).parent


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def licence_of(model: str) -> str:
    """The licence that a model's card names, or empty. The model is a folder or a name on the hub."""
    path = cached_file(model, "README.md", local_files_only=True, _raise_exceptions_for_missing_entries=False)
    return "" if path is None else licence_in(Path(path))


def cache_argument(model: PreTrainedModel, cache: Cache) -> dict[str, Cache]:
    """The cache as an argument of `model`, of its base model and of its `generate`.

    The name of this argument changed with version 5.24 of transformers.
    """
    known = inspect.signature(model.forward).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}
