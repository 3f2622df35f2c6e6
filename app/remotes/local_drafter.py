"""The model on this device as a drafter, for verifiers whose model has the same tokenizer."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from drafter.runtime import Drafter
from drafter.whole_model import Ask, WholeModel
from models.config import DIGEST_BYTES, DrafterConfig
from models.errors import ModelError
from models.files import is_gguf
from models.gguf.file import gguf_files
from models.gguf.text import text_source
from models.text.chat_text import ChatText
from models.text.likeness import likeness
from models.text.text_side import read_text_side
from remote.protocol import Card

HEAD = 1 << 20
"""Bytes of each file that tell one model from another, together with its size."""
MOST_MADE = 8
"""Most drafters that are kept, in case a server describes its model differently each time."""


class LocalDrafter:
    """Makes a drafter of a local model for each target that it fits. Thread-safe.

    `path`: a GGUF file, or a folder. `begin`, `runs`: see `WholeModel`. `kept`: folder that caches the tokenizers of
    GGUF files, or None to make them each time.
    """

    def __init__(
        self, name: str, path: Path, begin: Callable[[], Ask], runs: Callable[[], bool], kept: Path | None
    ) -> None:
        self.name = name
        self._path, self._begin, self._runs, self._kept = path, begin, runs, kept
        self._made: dict[tuple[bytes, ChatText | None], Drafter | None] = {}
        """The one that was used last is last."""
        self._lock = threading.Lock()

    def fitting(self, card: Card, text: ChatText | None = None) -> Drafter | None:
        """The drafter for a verifier's model, or None if the local model has another tokenizer. Reads files.

        `text`: how another drafter of this model reads conversations, so that both read them alike.
        """
        if card.likeness is None:
            return None
        about = b"\0".join((card.likeness, card.target.encode(), card.chat_template.encode()))
        key = hashlib.sha256(about).digest(), text
        with self._lock:
            made = self._made.pop(key) if key in self._made else self._made_for(card, text)
            self._made[key] = made
            if len(self._made) > MOST_MADE:
                del self._made[next(iter(self._made))]
            return made

    def _made_for(self, card: Card, text: ChatText | None) -> Drafter | None:
        try:
            return self._drafter(card, text)
        except (ModelError, OSError):
            return None  # The model itself says what is wrong, once it is started.

    def _drafter(self, card: Card, text: ChatText | None) -> Drafter | None:
        with text_source(str(self._path), self._kept) as folder:
            own = read_text_side(Path(folder), card.chat_template, card.stop_tokens).text
        if own is None or likeness(own) != card.likeness:
            return None
        config = layerless_config(card, _digest(self._path, card.target))
        return Drafter(config, text or own, WholeModel(f"{self.name} on this device", self._begin, self._runs))


def layerless_config(card: Card, digest: bytes) -> DrafterConfig:
    """The config of a drafter without its own layers. `digest` identifies it."""
    layers = (
        *("hidden", "target_layers", "target_kv_heads", "target_head_size", "target_heads", "target_ffn"),
        *("heads", "kv_heads", "head_size", "ffn", "encoder_ffn", "inference_layers", "rope_theta", "norm_eps"),
    )
    about = {"target": card.target, "vocabulary": card.vocabulary, "memory": digest.hex()}
    return msgspec.convert(dict.fromkeys(layers, 0) | about | {"stop_tokens": card.stop_tokens}, DrafterConfig)


def _digest(path: Path, target: str) -> bytes:
    """Identifies a model that drafts for a target."""
    found = hashlib.blake2b(target.encode(), digest_size=DIGEST_BYTES)
    for file in gguf_files(path) if is_gguf(str(path)) else sorted(file for file in path.iterdir() if file.is_file()):
        with file.open("rb") as opened:
            found.update(opened.read(HEAD))
        found.update(str(file.stat().st_size).encode())
    return found.digest()
