"""Loads the model that verifies with transformers, from a folder or the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import cached_file

from models.engines.graphs import graph_in, is_gguf
from models.errors import CorruptWeights, MissingTokenizer, UnknownModel
from models.gguf.file import gguf_name, gguf_path, head_size, why_not_unpacked
from models.gguf.text import text_source
from models.text.text_side import TextSide, chat_text, licence_in, read_text_side, tokenizer_digest


@dataclass(frozen=True)
class Target(TextSide):
    """A loaded model with what a device must know of its text side."""

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
    `kept`: see `text_source`. `template`: in the place of the model's own chat template. Raises `UnknownModel`,
    `CorruptWeights`, `MissingTokenizer`, `MissingPackage`.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if is_gguf(model):
        if (why := why_not_unpacked(gguf_path(model))) is not None:
            raise UnknownModel(why)
        with text_source(model, kept) as source:
            return _loaded(gguf_path(model), source, quantize, device, template, half)
    if not Path(model).is_dir() and (Path(model).is_absolute() or model.startswith(("./", "../", "~"))):
        raise UnknownModel(f"There is no folder {model}. Give a model's folder, or its name on the Hugging Face hub.")
    return _loaded(model, model, quantize, device, template, half)


def _loaded(
    model: str | Path,
    source: str,
    quantize: Literal["int8", "int4"] | None,
    device: str,
    template: str | None,
    half: bool,
) -> Target:
    """`model`: a folder, a name on the hub, or the path of a GGUF file. `source`: where its text side is.

    `template` replaces the model's own.
    """
    file = model.name if isinstance(model, Path) else None
    where = str(model.parent) if isinstance(model, Path) else model
    local = Path(where).is_dir()  # Then no network is asked.
    about = {"local_files_only": local, "trust_remote_code": False} | ({} if file is None else {"gguf_file": file})
    try:
        config = AutoConfig.from_pretrained(where, **about)
    except (OSError, ValueError, KeyError) as error:
        raise UnknownModel(f"{model} is no model that this server can load: {_first_line(error)}") from error
    if isinstance(model, Path) and (size := head_size(model)) is not None:
        config.head_dim = size
    if isinstance(model, Path):
        side = read_text_side(Path(source), template)  # The same as on llama.cpp.
    else:
        tokenizer, own_template, end, special_tokens = _text_side(source)
        chosen = own_template if template is None else template
    try:
        loaded, report = AutoModelForCausalLM.from_pretrained(
            where,
            config=config,
            dtype=torch.float32 if torch.device(device).type == "cpu" and not half else torch.bfloat16,
            # The other format is pickle, which runs code while it loads.
            use_safetensors=None if file else True,
            output_loading_info=True,
            **about,
        )
    except (SafetensorError, RuntimeError, EOFError) as error:
        raise CorruptWeights(f"The weights of {model} are damaged ({_first_line(error)}). Fetch them again.") from error
    except (OSError, ValueError) as error:
        if local and graph_in(where) and not any(Path(where).glob("*.safetensors")):
            raise UnknownModel(
                f"{model} has a graph and no weights for PyTorch. Serve it without --engine torch and --quantize. "
                "Weights of the model that comes with Outrider are in its repository and its source distribution."
            ) from None
        raise UnknownModel(f"{model} cannot be loaded as a causal language model: {_first_line(error)}") from error
    if missing := sorted(report["missing_keys"]):
        raise CorruptWeights(
            f"The weights of {model} lack {', '.join(missing[:3])} ({len(missing)} in all). Fetch them again."
        )
    if quantize is not None:
        from models.engines.quanto import quantise  # Slow to import, and rarely wanted.

        quantise(loaded, 8 if quantize == "int8" else 4, head="lm_head", head_bits=None)
    positions = getattr(loaded.config.get_text_config(), "max_position_embeddings", None)
    model_here = loaded.to(device).eval()
    if isinstance(model, Path):
        rest = side.tokenizer, side.chat_template, side.stop_tokens, side.text
        return Target(gguf_name(model), *rest, positions, model_here)
    stop = loaded.generation_config.eos_token_id if loaded.generation_config is not None else None
    stop = end if stop is None else stop
    stops = tuple(stop) if isinstance(stop, list) else () if stop is None else (int(stop),)
    name = Path(model).resolve().name if local else str(model)
    text = chat_text(name, tokenizer, chosen, stops, special_tokens)
    return Target(name, tokenizer_digest(tokenizer), chosen, stops, text, positions, model_here)


def _text_side(model: str) -> tuple[bytes, str, int | None, dict[str, str]]:
    """The text side of a model, as (tokenizer, template, end, special tokens).

    They are the bytes of `tokenizer.json`, the chat template (empty: none), the end-of-sequence token, and the texts of
    the special tokens by name. Raises `MissingTokenizer`.
    """
    local = Path(model).is_dir()
    path = cached_file(model, "tokenizer.json", local_files_only=local, _raise_exceptions_for_missing_entries=False)
    if path is None:
        raise MissingTokenizer(
            f"{model} has no tokenizer.json, which devices need. Save a fast tokenizer beside its weights."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=local, trust_remote_code=False)
    except Exception as error:  # The tokenizers library raises a bare Exception for a damaged file.
        raise MissingTokenizer(f"The tokenizer of {model} cannot be read: {_first_line(error)}") from error
    template = tokenizer.chat_template or ""
    if isinstance(template, dict):
        template = template.get("default", "")
    return Path(path).read_bytes(), template, tokenizer.eos_token_id, tokenizer.special_tokens_map


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def licence_of(model: str) -> str:
    """The licence that the card of a model, a folder or a name on the hub, names; empty: none."""
    path = cached_file(model, "README.md", local_files_only=True, _raise_exceptions_for_missing_entries=False)
    return "" if path is None else licence_in(Path(path))
