"""Small GGUF files without tensors: a vocabulary and what a test wants to say of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = [
    "It's a test: don't panic, she'll WE'VE been there. The quick brown fox jumps over the lazy dog, and then others.",
    "def mean(values: list[float]) -> float:\n    if not values:\n\t\treturn 0.0\n    return sum(values) / 12\n",
    "Größe, Äpfel und ÜBERMUT: 50 € für Straßenbahn-Fahrkarten. Привет, мир! 你好，世界！这是一个测试。",
    "12345678901 2026-01-31 1,000,000 0x1F",
]
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
UNK, BOS, EOS, START, END = range(5)


def write_vocabulary(path: Path, entries: Mapping[str, Any]) -> Path:
    """Write a file with these entries: texts, whole numbers, truth values, and lists of texts or numbers."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in {"llama.context_length": 512, **entries}.items():
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def rewritten(
    source: Path, out: Path, *, architecture: str | None = None, most_tensors: int = 0, **changes: Any
) -> Path:
    """Write a file again: as another `architecture`, in several files, and with `changes` of its tokenizer's entries.

    `most_tensors`: in one file; 0: any number. Returns `out`, or the first of several files.
    """
    read = gguf.GGUFReader(source)
    own = str(read.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(out, architecture or own, split_max_tensors=most_tensors)
    for name, field in read.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        value = changes.get(name.removeprefix("tokenizer.ggml."), field.contents())
        new = f"{architecture or own}.{name.removeprefix(f'{own}.')}" if name.startswith(f"{own}.") else name
        writer.add_key_value(new, value, field.types[0], sub_type=sub_type)
    for tensor in read.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return min(out.parent.glob(f"{out.stem}-00001-of-*.gguf"), default=out) if most_tensors else out


def byte_level(pattern: str | None = None) -> Tokenizer:
    """A trained byte-level tokenizer, which splits text by a pattern; None: as GPT-2 does."""
    tokenizer = Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is None:
        tokenizer.pre_tokenizer = last
    else:
        from tokenizers import Regex

        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    tokenizer.decoder = decoders.ByteLevel()
    bytes = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=640, special_tokens=SPECIAL, initial_alphabet=bytes, show_progress=False)
    tokenizer.train_from_iterator([*CORPUS] * 4, trainer)
    return tokenizer


def sentencepiece() -> Tokenizer:
    """A trained tokenizer like that of Llama 2: spaces are ▁, text begins with one, and unknown letters are bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(
        vocab_size=480,
        special_tokens=[*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))],
        limit_alphabet=80,
        show_progress=False,
        max_token_length=8,
    )
    tokenizer.train_from_iterator([word for line in CORPUS for word in line.split(" ")] * 4, trainer)
    return tokenizer


def entries_of(tokenizer: Tokenizer, **others: Any) -> dict[str, Any]:
    """The entries of a file with this tokenizer. `others`: the last parts of names, with their values."""
    tokens = [str(tokenizer.id_to_token(number)) for number in range(tokenizer.get_vocab_size())]
    model = json.loads(tokenizer.to_str())["model"]
    types = [_type(token) for token in tokens]
    named = {"tokens": tokens, "token_type": types, "bos_token_id": BOS, "eos_token_id": END, "unknown_token_id": UNK}
    if model["byte_fallback"]:
        # Tokens are in the order in which they were made, so the earlier one is the likelier.
        named |= {"model": "llama", "scores": [-float(number) for number in range(len(tokens))]}
    else:
        named |= {"model": "gpt2", "merges": [" ".join(merge) for merge in model["merges"]]}
    return {f"tokenizer.ggml.{name}": value for name, value in {**named, **others}.items()}


def _type(token: str) -> int:
    if token in SPECIAL:
        return int(gguf.TokenType.UNKNOWN if token == "<unk>" else gguf.TokenType.CONTROL)
    return int(gguf.TokenType.BYTE if token.startswith("<0x") else gguf.TokenType.NORMAL)


_silent: list[Any] = []
"""llama.cpp holds a bare pointer to what hears it."""


class LlamaVocabulary:
    """llama.cpp's own tokenizer of a file."""

    def __init__(self, path: Path) -> None:
        import llama_cpp

        self._lib = llama_cpp
        if not _silent:
            _silent.append(llama_cpp.llama_log_callback(lambda *_: None))
        llama_cpp.llama_log_set(_silent[0], None)
        parameters = llama_cpp.llama_model_default_params()
        parameters.vocab_only = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        assert self._model, f"llama.cpp does not load {path}"
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)

    def __call__(self, text: bytes) -> list[int]:
        """The ids of a text. Special tokens in it are special, and nothing is added."""
        room = (self._lib.llama_token * (len(text) + 8))()
        count = self._lib.llama_tokenize(self._vocab, text, len(text), room, len(room), False, True)
        return list(room[:count])

    def ends(self) -> list[int]:
        """The ids that end an answer."""
        count = self._lib.llama_vocab_n_tokens(self._vocab)
        return [number for number in range(count) if self._lib.llama_vocab_is_eog(self._vocab, number)]

    def close(self) -> None:
        self._lib.llama_model_free(self._model)


LlamaCpp = Callable[[Path], LlamaVocabulary]
"""Opens llama.cpp's own tokenizer of a file."""


def texts() -> Sequence[str]:
    """Texts of many kinds, with special tokens among them."""
    return [
        *CORPUS, "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", "<s> hello</s>world <unk>",
        "\t\ttabs\n\n\n\nmany\r\n\r\nlines \r end   ", "   leading and trailing   ", "a", "\n", " ", "",
        " \u00a0nbsp\u2003em\u3000ideo\u200bzero\u0085next\u2028line", "don't I'LL we'Ve SHE'S it's ''s 'tis",
        "1234567890 12.34 0x1F ½ ² Ⅷ ①", "e\u0301 a\u0308 x\u0302 Zalgo: Z\u0338\u0322a\u0336",
        "👩\u200d💻 🇩🇪 ❤\ufe0f", "İstanbul ıI ǅ ǆ ß ẞ ſ camelCase HTTPServer ÄPFELäpfel",
        "مرحبا ١٢٣ नमस्ते สวัสดี 한국어 テスト", "$€£ © ® ™ ± × ÷ ≠ ∑ ∫ foo_bar.baz(qux)->x += 1; // c++",
    ]  # fmt: skip
