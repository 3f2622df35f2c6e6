"""llama.cpp's own tokenizer as a text side, for files whose tokenizer cannot be written as a `tokenizer.json`.

Only llama.cpp can read such a tokenizer, so no device drafts for the model. Other clients are not affected.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from models.gguf.tokenizer import CLOSING
from models.text.chat_text import ChatText, Rendered
from models.text.template import ChatTemplate
from models.text.text_side import tokenizer_digest

if TYPE_CHECKING:
    from llguidance import LLTokenizer

NAMED = {
    "bos_token": "llama_vocab_bos",
    "eos_token": "llama_vocab_eos",
    "sep_token": "llama_vocab_sep",
    "pad_token": "llama_vocab_pad",
    "mask_token": "llama_vocab_mask",
}
"""Special tokens that a template knows by name, and the function that returns the id of each."""
LONGEST_PIECE = 512
"""Bytes of a token's text. Longer ones are read with a second call."""


class LlamaText(ChatText):
    """The tokenizer of a loaded model, which must stay loaded, with a chat template. Raises `TemplateUnreadable`."""

    def __init__(self, lib: Any, vocabulary: Any, template: str) -> None:
        self._lib, self._vocabulary = lib, vocabulary
        self._size = int(lib.llama_vocab_n_tokens(vocabulary))
        texts = [self._name(token) for token in range(self._size)]
        kinds = [lib.llama_vocab_get_attr(vocabulary, token) for token in range(self._size)]
        control = lib.LLAMA_TOKEN_ATTR_CONTROL | lib.LLAMA_TOKEN_ATTR_UNKNOWN
        self.digest = tokenizer_digest("\0".join(texts).encode())
        self.stop_tokens = frozenset(
            token
            for token in range(self._size)
            if lib.llama_vocab_is_eog(vocabulary, token) and (texts[token] != CLOSING or kinds[token] & control)
        )
        self._special = {texts[token]: token for token in range(self._size) if kinds[token] & control and texts[token]}
        self._contents = {token: text for text, token in self._special.items()}
        strips = {text: kinds[token] for text, token in self._special.items()}
        self._strip_behind = {text for text, kind in strips.items() if kind & lib.LLAMA_TOKEN_ATTR_RSTRIP}
        self._strip_before = {text for text, kind in strips.items() if kind & lib.LLAMA_TOKEN_ATTR_LSTRIP}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        named = {name: getattr(lib, function)(vocabulary) for name, function in NAMED.items()}
        special_tokens = {name: texts[token] for name, token in named.items() if 0 <= token < self._size}
        self._template = ChatTemplate(template, special_tokens)

    def encode(self, text: str) -> list[int]:
        return self._tokens(text, whole=False)

    def encode_whole(self, text: str) -> list[int]:
        return self._tokens(text, whole=True)

    def decode(self, tokens: Sequence[int]) -> str:
        given = (self._lib.llama_token * len(tokens))(*tokens)
        return self._bytes(
            lambda room, size: self._lib.llama_detokenize(
                self._vocabulary, given, len(tokens), room, size, False, False
            ),
            LONGEST_PIECE + 16 * len(tokens),
        ).decode(errors="replace")

    def spelling(self, token: int) -> tuple[str, bytes]:
        data = self._bytes(
            lambda room, size: self._lib.llama_token_to_piece(self._vocabulary, token, room, size, 0, True),
            LONGEST_PIECE,
        )
        return data.decode(errors="replace"), data

    def words(self) -> dict[str, int]:
        """None: what llama.cpp alone can read, no device drafts."""
        return {}

    def tokenizer_json(self) -> str:
        raise NotImplementedError("only llama.cpp has this tokenizer")

    def grammar_tokenizer(self, size: int, stop_tokens: Sequence[int]) -> LLTokenizer:
        """The tokenizer for llguidance. `size`: tokens of the model's logits."""
        from llguidance.llamacpp import lltokenizer_from_vocab

        return lltokenizer_from_vocab(self._vocabulary, n_vocab=size, eos_token=list(stop_tokens))

    def _encode_rendered(self, text: str, spelt_out: bool) -> Rendered:
        if self._split is None:
            return Rendered(self.encode(text), text, spelt_out)
        return replace(super()._encode_rendered(text, True), spelt_out=spelt_out)

    def _normalise(self, text: str) -> str:
        return text

    def _tokens(self, text: str, *, whole: bool) -> list[int]:
        """The tokens of a text.

        `whole`: special tokens in it are recognised, and the beginning-of-text tokens are added.
        """
        data = text.encode(errors="replace")
        room = (self._lib.llama_token * (len(data) + 8))()
        count = self._lib.llama_tokenize(self._vocabulary, data, len(data), room, len(room), whole, whole)
        return list(room[: max(0, count)])

    def _name(self, token: int) -> str:
        name: bytes | None = self._lib.llama_vocab_get_text(self._vocabulary, token)
        return (name or b"").decode(errors="replace")

    def _bytes(self, write: Any, size: int) -> bytes:
        """What a function of llama.cpp writes into a buffer of `size` bytes, or of the size that it then asks for."""
        room = ctypes.create_string_buffer(size)
        if (count := write(room, size)) < 0:
            size = -count
            room = ctypes.create_string_buffer(size)
            count = write(room, size)
        return room.raw[: max(0, count)]
