"""The text side of a GGUF file as the files of a model's folder: `tokenizer.json` and what belongs to it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from models.config import TOKENIZER
from models.gguf.header import Header
from models.gguf.tokenizer import Vocabulary, tokenizer_json
from models.text.text_side import CONFIG, GENERATION, TOKENIZER_CONFIG

CHAT_TEMPLATE = "tokenizer.chat_template"


def write_text_side(header: Header, folder: Path) -> None:
    """Write the files of a text side into a folder. Raises `Untranslatable`, `CorruptWeights`."""
    vocabulary = Vocabulary(header)
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    positions = header.number(f"{header.text('general.architecture')}.context_length")
    files = {
        CONFIG: {"max_position_embeddings": positions},
        GENERATION: {"eos_token_id": vocabulary.stop_tokens},
        TOKENIZER_CONFIG: {**named, **vocabulary.special_tokens, "chat_template": chat_template(header)},
    }
    (folder / TOKENIZER).write_bytes(tokenizer_json(vocabulary))
    for name, content in files.items():
        (folder / name).write_bytes(msgspec.json.encode(content))


def chat_template(header: Header) -> str:
    """The chat template of a file; empty: it has none. Of several, the one without a name, or the first."""
    names = [name for name in header.entries if name == CHAT_TEMPLATE or name.startswith(f"{CHAT_TEMPLATE}.")]
    wanted = [name for name in (CHAT_TEMPLATE, f"{CHAT_TEMPLATE}.default", *names) if name in names]
    return header.text(wanted[0]) or "" if wanted else ""
