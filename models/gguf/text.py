"""The text side of a GGUF file, in the form of the files that other targets have in their folder.

Published GGUF files mostly come alone. Then the text side is made from the file's header; transformers translates kinds
of tokenizers that are not known here. A `tokenizer.json` and a `config.json` in the same folder are the model's own,
and are used as they are.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from models.config import TOKENIZER
from models.errors import MissingPackage, MissingTokenizer, UnknownModel
from models.extras import how_to_install
from models.files import is_gguf
from models.gguf.file import gguf_path
from models.gguf.header import Header, read_header
from models.gguf.kept_text import keep_text, kept_text
from models.gguf.tokenizer import Untranslatable, Vocabulary, tokenizer_json
from models.text.chat_text import ChatText
from models.text.likeness import PROBES, TALK
from models.text.template import TemplateFailed
from models.text.text_side import CONFIG, GENERATION, TOKENIZER_CONFIG

CHAT_TEMPLATE = "tokenizer.chat_template"
Tokenize = Callable[[bytes], list[int]]
"""The ids of a text in llama.cpp. Special tokens in it are special, and nothing is added."""


@contextlib.contextmanager
def text_source(model: str, kept: Path | None = None) -> Iterator[str]:
    """The folder or the name on the hub that the text side of `model` is read from.

    For a GGUF file, the folder may exist only while the block runs. `kept`: folder that caches the result, or None to
    make it each time. Raises `UnknownModel`, `CorruptWeights`, `MissingPackage`, `MissingTokenizer`.
    """
    if not is_gguf(model):
        yield model
        return
    path = gguf_path(model)
    if has_own_text(path):
        yield str(path.parent)
    elif kept is not None and (known := kept_text(path, kept)) is not None:
        yield str(known)
    else:
        with tempfile.TemporaryDirectory(prefix="outrider-") as scratch:
            folder = Path(scratch) / path.stem  # The name of the folder is that of the target.
            folder.mkdir()
            try:
                write_text_side(read_header(path), folder)
            except Untranslatable as unknown:
                _translate(path, folder, str(unknown))
            if kept is not None:
                keep_text(path, folder, kept)
            yield str(folder)


def has_own_text(path: Path) -> bool:
    """Whether the model's own tokenizer is in the folder of a GGUF file."""
    return (path.parent / TOKENIZER).is_file() and (path.parent / CONFIG).is_file()


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
    """The chat template of a file, or an empty string. If there are several, the unnamed one or the first."""
    names = [name for name in header.entries if name == CHAT_TEMPLATE or name.startswith(f"{CHAT_TEMPLATE}.")]
    wanted = [name for name in (CHAT_TEMPLATE, f"{CHAT_TEMPLATE}.default", *names) if name in names]
    return header.text(wanted[0]) or "" if wanted else ""


def _translate(path: Path, folder: Path, why: str) -> None:
    """Write the text side of a GGUF file into a folder, as transformers translates it.

    `why`: a sentence without its full stop that says what transformers is needed for. Raises `MissingPackage`,
    `UnknownModel`, `MissingTokenizer`, `CorruptWeights`.
    """
    try:
        ends = Vocabulary(read_header(path)).stop_tokens
    except Untranslatable as error:
        raise MissingTokenizer(f"{error}. Put its tokenizer.json and config.json next to it.") from error
    try:
        import gguf  # noqa: F401 # transformers needs it, and would say so in other words.
        from transformers import AutoConfig, AutoTokenizer
    except ImportError as error:
        raise MissingPackage(
            f"{why}, and {error.name} is missing: {how_to_install('server,gguf')}, "
            "or put its tokenizer.json and config.json next to it."
        ) from error
    try:
        config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    except Exception as error:  # The file may have any architecture, known to transformers or not.
        raise UnknownModel(f"transformers does not know the model in {path.name}: {error}") from error
    try:
        AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True).save_pretrained(folder)
    except Exception as error:
        raise MissingTokenizer(
            f"The tokenizer of {path.name} cannot be unpacked ({error}). "
            "Put its tokenizer.json and config.json next to it."
        ) from error
    config.save_pretrained(folder)
    (folder / GENERATION).write_bytes(msgspec.json.encode({"eos_token_id": ends}))


def first_difference(text: ChatText, tokenize: Tokenize) -> str | None:
    """What the two tokenize differently, as part of a sentence, or None if nothing."""
    for what, piece in PROBES.items():
        if text.encode(piece) != tokenize(piece.encode()):
            return f"{what}, such as {piece[:24]!r}"
    try:
        rendered = text.render_after(None, TALK)
    except TemplateFailed:  # A template for another kind of conversation.
        return None
    return "what its chat template writes" if rendered.tokens != tokenize(rendered.text.encode()) else None
