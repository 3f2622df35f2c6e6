"""The text side of a target: its tokenizer, chat template, stop tokens and licence, from the files of its folder.

Nothing here needs PyTorch or transformers.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.config import DIGEST_BYTES, TEMPLATE, TOKENIZER, DrafterError
from models.errors import BadTemplate, MissingTokenizer, UnknownModel
from models.text.chat_text import ChatText
from models.text.template import ChatTemplate, TemplateFailed, TemplateUnreadable

CONFIG, GENERATION, TOKENIZER_CONFIG = "config.json", "generation_config.json", "tokenizer_config.json"
HEAD = 20_000
"""Characters of a model card that are searched."""
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""Special tokens that a template knows by name."""
QUESTION = "Which folder is the largest?"
"""A message with which a template is tested."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextSide:
    """What is needed, besides a model's logits, to turn text into tokens and back."""

    name: str
    tokenizer: bytes
    """Digest of `tokenizer.json`."""
    tokenizer_json: bytes | None
    """None if only llama.cpp can read the tokenizer."""
    special_tokens: Mapping[str, str]
    """Texts that the chat template knows by name."""
    chat_template: str
    stop_tokens: tuple[int, ...]
    text: ChatText | None
    """None if the chat template cannot be rendered here."""
    positions: int | None
    """Most tokens that the model was made for, if known."""


def tokenizer_digest(tokenizer: bytes) -> bytes:
    return hashlib.blake2b(tokenizer, digest_size=DIGEST_BYTES).digest()


def read_template(path: Path) -> str:
    """Read a chat template from a file and test it on a short conversation. Raises `BadTemplate`."""
    try:
        template = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadTemplate(f"The chat template {path} cannot be read: {error}. Give a text file.") from error
    check_template(template, f"The chat template {path}", f"Correct {path}.")
    return template


def check_template(template: str, what: str, advice: str) -> None:
    """Test a chat template on a short conversation. Raises `BadTemplate`, with `what` it is and `advice`."""
    try:
        texts = {name: f"<{name}>" for name in NAMED}
        written = ChatTemplate(template, texts).render([("user", QUESTION), ("assistant", "a"), ("user", "b")])
    except TemplateUnreadable as error:
        raise BadTemplate(f"{what} is not valid Jinja: {error.why}. {advice}") from error
    except TemplateFailed as error:
        raise BadTemplate(f"{what} fails. {error} {advice}") from error
    if QUESTION not in written:
        raise BadTemplate(f"{what} leaves out what is asked; it has to write each message's content. {advice}")


def read_text_side(folder: Path, template: str | None = None, stop_tokens: tuple[int, ...] | None = None) -> TextSide:
    """Read the text side of a model's folder. `template` and `stop_tokens` replace its own.

    Raises `UnknownModel`, `MissingTokenizer`.
    """
    try:
        return _read_text_side(folder, template, stop_tokens)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UnknownModel(
            f"{folder} cannot be loaded as a model: {CONFIG}, {GENERATION} or {TOKENIZER_CONFIG} is invalid "
            f"({error!r}). Fetch it again."
        ) from error


def _read_text_side(folder: Path, template: str | None, stop_tokens: tuple[int, ...] | None) -> TextSide:
    config, named = _json(folder / CONFIG), _json(folder / TOKENIZER_CONFIG)
    if not config:
        raise UnknownModel(f"{folder} cannot be loaded as a model: {CONFIG} is missing.")
    try:
        tokenizer = (folder / TOKENIZER).read_bytes()
    except OSError:
        raise MissingTokenizer(
            f"{folder} has no {TOKENIZER}, which devices need. Save a fast tokenizer with it."
        ) from None
    special_tokens = {name: _content(named[name]) for name in NAMED if named.get(name)}
    end = _json(folder / GENERATION).get("eos_token_id", config.get("eos_token_id"))
    if end is None:
        end = _numbers(tokenizer, folder).get(special_tokens.get("eos_token", ""))
    ends = end if isinstance(end, list) else [] if end is None else [end]
    stops = tuple(map(int, ends)) if stop_tokens is None else stop_tokens
    template = _template(folder, named) if template is None else template
    return TextSide(
        folder.resolve().name,
        tokenizer_digest(tokenizer),
        tokenizer,
        special_tokens,
        template,
        stops,
        _chat_text(folder.name, tokenizer, template, stops, special_tokens),
        (config.get("text_config") or config).get("max_position_embeddings"),
    )


def _chat_text(
    name: str, tokenizer: bytes, template: str, stops: Iterable[int], special_tokens: Mapping[str, str]
) -> ChatText | None:
    """The tokenizer with its chat template, or None, with a line in the log, if the template cannot be rendered here.

    Raises `MissingTokenizer` for a damaged tokenizer.
    """
    try:
        return ChatText(tokenizer, template, stops, special_tokens)
    except TemplateUnreadable as error:
        log.warning("No chat completions, only rounds and streams: the chat template of %s fails. %s", name, error)
        return None
    except DrafterError as error:
        raise MissingTokenizer(f"The tokenizer of {name} cannot be read: {error}") from error


def licence_in(card: Path) -> str:
    """The licence that a model's card names in its first lines, as in `license: apache-2.0`; may be empty."""
    try:
        head = card.read_text(encoding="utf-8", errors="replace")[:HEAD]
    except OSError:
        return ""
    found = re.match(r"---\n(?:.*\n)*?license: *['\"]?([\w.+-]{1,60})", head)
    return "" if found is None else found[1]


def stored_size(folder: Path) -> str:
    """Size of the weights in a folder, for people. Empty for a model's name."""
    files = sum(file.stat().st_size for file in folder.glob("*.safetensors")) if folder.is_dir() else 0
    return f" ({files / 1e6:,.0f} MB)" if files else ""


def _template(folder: Path, named: Mapping[str, Any]) -> str:
    if (folder / TEMPLATE).is_file():
        return (folder / TEMPLATE).read_text("utf-8", errors="replace")
    template = named.get("chat_template") or ""
    if isinstance(template, list):  # A template for each use, by name.
        template = next((one["template"] for one in template if one.get("name") == "default"), "")
    return str(template)


def _numbers(tokenizer: bytes, folder: Path) -> dict[str, int]:
    """The number of each added token."""
    try:
        added = json.loads(tokenizer).get("added_tokens", [])
    except (ValueError, AttributeError) as error:
        raise MissingTokenizer(f"The tokenizer of {folder} cannot be read: {error}") from error
    return {token["content"]: token["id"] for token in added}


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, dict) else token)


def _json(path: Path) -> dict[str, Any]:
    """A file's JSON object, or an empty one if there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
