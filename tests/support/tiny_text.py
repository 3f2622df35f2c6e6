"""The tiny pair's tokenizer and chat template, without torch."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from drafter.text import ChatText

SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
END = 1
CHAT_TEMPLATE = (
    "{%- if not messages or messages[0]['role'] != 'system' -%}<|system|>Answer with a command.<|end|>{%- endif -%}"
    "{%- for message in messages -%}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
CORPUS = ["list all files in a folder", "unpack a tar archive", "find large files and delete them", "show disk usage"]


def train_tokenizer(corpus: Sequence[str] = CORPUS) -> Tokenizer:
    """Byte-level BPE. Every byte has a token, and a few merges make several encodings of one text possible."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*corpus] * 4, trainer)
    return tokenizer


def tiny_text() -> ChatText:
    return ChatText(train_tokenizer().to_str().encode(), CHAT_TEMPLATE, [END])
