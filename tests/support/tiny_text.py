"""The tiny pair's tokenizer and chat template, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from models.text.chat_text import ChatText, Rendered
from models.text.template import ChatTemplate

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
    bytes = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, initial_alphabet=bytes, show_progress=False)
    tokenizer.train_from_iterator([*corpus] * 4, trainer)
    return tokenizer


def tiny_text() -> ChatText:
    return ChatText(train_tokenizer().to_str().encode(), CHAT_TEMPLATE, [END])


class CountedTemplate(ChatTemplate):
    """Counts the messages that it renders."""

    messages = 0

    def render(self, messages: Sequence[tuple[str, str]], *, begun: bool = False) -> str:
        self.messages += len(messages)
        return super().render(messages, begun=begun)


class CountedText(ChatText):
    """A chat text that counts the characters that it turns into tokens, and the messages that it renders."""

    def __init__(self, tokenizer: bytes, template: str, stop_tokens: Iterable[int]) -> None:
        super().__init__(tokenizer, template, stop_tokens)
        self._template = self._counted = CountedTemplate(template, {})
        self._characters = 0

    def encode(self, text: str) -> list[int]:
        self._characters += len(text)
        return super().encode(text)

    def _encode_rendered(self, text: str, spelt_out: bool) -> Rendered:
        self._characters += len(text)
        return super()._encode_rendered(text, spelt_out)

    def taken(self) -> tuple[int, int]:
        """Characters and messages since this was asked last."""
        taken = self._characters, self._counted.messages
        self._characters = self._counted.messages = 0
        return taken


def counted_text() -> CountedText:
    return CountedText(train_tokenizer().to_str().encode(), CHAT_TEMPLATE, [END])
