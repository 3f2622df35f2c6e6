"""`tokenizer.json` from the entries of a GGUF file, so that a device encodes as llama.cpp does.

Two kinds of tokenizers are known: byte-level BPE ("gpt2") and SentencePiece's BPE with scores ("llama"). Text is not
normalised, because llama.cpp does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from models.errors import MissingTokenizer
from models.gguf.header import Header, damaged
from models.gguf.splits import SPLITTINGS

BPE, SENTENCEPIECE = "gpt2", "llama"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The type of a token (`tokenizer.ggml.token_type`)."""
WRITTEN = (NORMAL, USER_DEFINED, UNUSED)
"""Types of tokens that text can consist of."""
NAMED = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "sep_token": "seperator_token_id",
    "pad_token": "padding_token_id",
    "cls_token": "cls_token_id",
    "mask_token": "mask_token_id",
}
"""Special tokens that a template knows by name, and the entry with the id of each."""
DEFAULTS = {"bos_token": 1, "eos_token": 2, "unk_token": 0}
"""Their ids if a file of the kind "llama" names none."""
TURN_ENDS = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>"),
    *("<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>"),
    *("<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["),
)
"""Texts of tokens that end an answer in any file, as in llama.cpp.

llama.cpp also lists `</s>`, which is an ordinary word in Qwen's vocabulary: an answer about HTML would end there. So it
counts only if the file says that it is a control token.
"""
CLOSING = "</s>"
FILL_ENDS = {
    "fim_pad_token_id": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep_token_id": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep_token_id": ("<|file_sep|>",),
}
"""Entries that name a fill-in-the-middle token after which an answer is over, and the texts of each if it is not
named."""
STRIPPED = ("phi-3", "phi3")
"""Models, by a part of their name, with special tokens that swallow the space after them."""
KEEPS_SPACE = ("<unk>", "<s>", "<|endoftext|>")
SPACE = "▁"
"""How SentencePiece writes a space."""


class Untranslatable(Exception):
    """The file has an unknown kind of tokenizer. The message says so, without its full stop."""


class Vocabulary:
    """The tokens of a file, with their types. Raises `CorruptWeights`, `MissingTokenizer`, `Untranslatable`."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.kind = header.text("tokenizer.ggml.model") or "none"
        tokens = header.texts("tokenizer.ggml.tokens")
        if not tokens:
            raise MissingTokenizer(
                f"{header.path.name} has no tokenizer. Put its tokenizer.json and config.json next to it."
            )
        self.tokens = [token or f"[EMPTY_{number}]" for number, token in enumerate(tokens)]
        self.types = header.numbers("tokenizer.ggml.token_type") or (NORMAL,) * len(tokens)
        self.numbers = {token: number for number, token in enumerate(self.tokens)}
        if len(self.types) < len(tokens):
            raise damaged(header.path, "not each of its tokens has a type")
        if len(self.numbers) < len(tokens):
            raise Untranslatable(f"The tokenizer of {header.path.name} has a token twice")

    @property
    def special_tokens(self) -> dict[str, str]:
        """The texts of the special tokens that a template knows by name."""
        numbers = {name: self.named(name) for name in NAMED}
        return {name: self.tokens[number] for name, number in numbers.items() if number is not None}

    def named(self, name: str) -> int | None:
        """The id of a special token that has a name in `NAMED`."""
        number = self._entry(NAMED[name])
        if number is None and self.kind == SENTENCEPIECE and DEFAULTS.get(name, len(self.tokens)) < len(self.tokens):
            return DEFAULTS[name]
        return number

    @property
    def stop_tokens(self) -> list[int]:
        """The ids that end an answer: those that the file names, and those with a text that is known to end one."""
        entries = [self._entry(entry) for entry in ("eot_token_id", "eom_token_id")]
        found = {number for number in (self.named("eos_token"), *entries) if number is not None}
        found |= {self.numbers[text] for text in TURN_ENDS if text in self.numbers}
        if CLOSING in self.numbers and self.types[self.numbers[CLOSING]] == CONTROL:
            found.add(self.numbers[CLOSING])
        for entry, known in FILL_ENDS.items():
            number = self._entry(entry)
            found |= {self.numbers[text] for text in known if text in self.numbers} if number is None else {number}
        texts = {self.tokens[number] for number in found}
        if texts & {"<|call|>", "<|calls|>"} and texts & {"<|return|>", "<|flush|>"}:
            found.discard(self.numbers.get("<|end|>", -1))  # There it ends only part of an answer.
        return sorted(found)

    def _entry(self, entry: str) -> int | None:
        """The id that an entry names, or None if there is no such entry or token."""
        number = self.header.number(f"tokenizer.ggml.{entry}")
        return number if number is not None and 0 <= number < len(self.tokens) else None

    def is_special(self, number: int) -> bool:
        """Whether a token is special, such as the end of a turn."""
        return self.types[number] in (UNKNOWN, CONTROL) or self.tokens[number] in TURN_ENDS

    def added(self) -> list[dict[str, Any]]:
        """The tokens that are found in a text before it is split into words."""
        name = (self.header.text("general.name") or "").lower()
        strips = any(part in name for part in STRIPPED)
        return [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": strips and token not in KEEPS_SPACE,
                "normalized": False,
                "special": self.is_special(number),
            }
            for number, token in enumerate(self.tokens)
            if self.types[number] == USER_DEFINED or self.is_special(number)
        ]

    def words(self) -> dict[str, int]:
        """The tokens with their ids, without the unused padding tokens at the end."""
        count = len(self.tokens)
        while count and self.types[count - 1] == UNUSED:
            count -= 1
        return self.numbers if count == len(self.tokens) else {self.tokens[number]: number for number in range(count)}


def tokenizer_json(vocabulary: Vocabulary) -> bytes:
    """The bytes of `tokenizer.json`. Raises `Untranslatable`, `CorruptWeights`."""
    if vocabulary.kind not in (BPE, SENTENCEPIECE):
        raise _untranslatable(vocabulary, f"is of the kind {vocabulary.kind}")
    parts = _byte_level(vocabulary) if vocabulary.kind == BPE else _sentencepiece(vocabulary)
    head = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": vocabulary.added()}
    return msgspec.json.encode(head | parts)


def _untranslatable(vocabulary: Vocabulary, what: str) -> Untranslatable:
    file = vocabulary.header.path.name
    return Untranslatable(f"The tokenizer of {file} {what}, which only transformers translates")


def _byte_level(vocabulary: Vocabulary) -> dict[str, Any]:
    header = vocabulary.header
    name = header.text("tokenizer.ggml.pre") or ""
    splitting = SPLITTINGS.get(name)
    if splitting is None:
        raise _untranslatable(vocabulary, f"splits text by the rule {name}")
    bytes_too = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in splitting.patterns
    ]
    words = vocabulary.words()
    model = {"vocab": words, "merges": _known(header.texts("tokenizer.ggml.merges") or [], words)}
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, bytes_too]},
        "post_processor": _beginning(vocabulary, splitting.begins),
        "decoder": bytes_too,
        "model": _model(model, whole_words=splitting.whole_words),
    }


def _sentencepiece(vocabulary: Vocabulary) -> dict[str, Any]:
    prefix = vocabulary.header.flag("tokenizer.ggml.add_space_prefix") is not False
    escape = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    decoders = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []),
    ]
    unknown = vocabulary.named("unk_token")
    model = {
        "unk_token": None if unknown is None else vocabulary.tokens[unknown],
        "fuse_unk": True,
        "byte_fallback": True,
        "vocab": vocabulary.words(),
        "merges": _by_score(vocabulary),
    }
    return {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [*([{"type": "Prepend", "prepend": SPACE}] if prefix else []), escape],
        },
        "pre_tokenizer": None,
        "post_processor": _beginning(vocabulary, True),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _model(model, whole_words=False),
    }


def _model(parts: Mapping[str, Any], *, whole_words: bool) -> dict[str, Any]:
    plain = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": whole_words,
    }
    return plain | dict(parts)


def _beginning(vocabulary: Vocabulary, begins: bool) -> dict[str, Any] | None:
    """The tokens with which a text other than a chat begins, such as one to be completed.

    A chat template writes its own.
    """
    said = vocabulary.header.flag("tokenizer.ggml.add_bos_token")
    number = vocabulary.named("bos_token")
    if number is None or not (begins if said is None else said):
        return None
    token = vocabulary.tokens[number]
    first, text = {"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}},
    }


def _known(merges: list[str], words: Mapping[str, int]) -> list[str]:
    """The merges whose parts and result are tokens; the tokenizers library cannot read others."""
    known: dict[str, None] = {}
    for merge in merges:
        left, _, right = merge.partition(" ")
        if left in words and right in words and left + right in words:
            known[merge] = None
    return list(known)


def _by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """The merges of a tokenizer with scores: all pairs of tokens that form a third, best score first.

    llama.cpp joins the pair that makes the token with the best score, wherever it occurs.
    """
    scores = vocabulary.header.numbers("tokenizer.ggml.scores")
    if scores is None or len(scores) < len(vocabulary.tokens):
        raise _untranslatable(vocabulary, "has no scores")
    joined = {number: token for token, number in vocabulary.numbers.items() if vocabulary.types[number] in WRITTEN}
    words = set(joined.values())
    return [
        (token[:cut], token[cut:])
        for token in (joined[number] for number in sorted(joined, key=lambda number: (-scores[number], number)))
        for cut in range(1, len(token))
        if token[:cut] in words and token[cut:] in words
    ]
