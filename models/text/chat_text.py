"""Text to token ids and back: the tokenizer and the chat template, on the device, so that both work offline.

Whatever a person writes is plain text: a special token that is spelt out in a message is encoded letter by letter, so
it can neither end a turn nor open one. The template writes all special tokens, also the first one of a text; nothing is
added to its output.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from models.config import SPECIAL_TOKENS, TEMPLATE, TOKENIZER, DrafterCorrupt, read_config
from models.text.template import ChatTemplate, TemplateFailed
from models.text.tool_format import ToolFormat, format_of, probe_messages

_BREAK = "\ufdd0"
"""A Unicode noncharacter, put inside special tokens that a person spelt out, while the template is rendered."""

REMEMBERED = 4_096
"""Most texts with a remembered length."""
_PROBE = "probe"
"""A system message to test what a template does with one."""


def _bytes_by_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for, as GPT-2 had it.

    Printable bytes stand for themselves; the others are mapped, in order, to the characters from 256 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}


BYTES = _bytes_by_character()


@dataclass(frozen=True)
class Rendered:
    """A prompt, and the point from which on a longer prompt with the same beginning must be encoded."""

    tokens: list[int]
    text: str
    spelt_out: bool
    """Whether a message spells out a special token, so that the text between special tokens was encoded piece by
    piece."""
    characters: int = 0
    """Characters before the last special token."""
    kept: int = 0
    """Tokens before the last special token; 0 if there is none."""


class ChatText:
    """A tokenizer and a chat template.

    `tokenizer`: the bytes of a `tokenizer.json`. `template`: Jinja source in the dialect of transformers.
    `special_tokens`: texts that the template knows by name (`bos_token`). Raises `DrafterCorrupt` if one of them cannot
    be read.
    """

    def __init__(
        self,
        tokenizer: bytes,
        template: str,
        stop_tokens: Iterable[int],
        special_tokens: Mapping[str, str] = {},
    ) -> None:
        self.digest = hashlib.blake2b(tokenizer, digest_size=16).digest()
        self.stop_tokens = frozenset(stop_tokens)
        try:
            self._tokenizer = Tokenizer.from_buffer(tokenizer)
            self._literal = _beside(self._tokenizer)
        except Exception as error:  # The library raises nothing narrower.
            raise DrafterCorrupt(f"{TOKENIZER} cannot be read ({error}). Reinstall the drafter.") from None
        self._literal.encode_special_tokens = True
        self._lengths: dict[str, int] = {}
        self._size = self._tokenizer.get_vocab_size()
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {token.content: number for number, token in added.items() if token.special}
        self._contents = {number: content for content, number in self._special.items()}
        self._strip_behind = {token.content for token in added.values() if token.special and token.rstrip}
        self._strip_before = {token.content for token in added.values() if token.special and token.lstrip}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        self._template = ChatTemplate(template, special_tokens)

    @classmethod
    def load(cls, folder: Path) -> ChatText:
        """Open the text side of a drafter's folder. Raises `DrafterMissing` or `DrafterCorrupt`."""
        named = (folder / SPECIAL_TOKENS).exists()  # A template that names none needs none.
        config = read_config(folder, verify=(TOKENIZER, TEMPLATE, *((SPECIAL_TOKENS,) if named else ())))
        template = (folder / TEMPLATE).read_text("utf-8", errors="replace")
        special_tokens = _special_tokens(folder / SPECIAL_TOKENS) if named else {}
        return cls((folder / TOKENIZER).read_bytes(), template, config.stop_tokens, special_tokens)

    def render(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The tokens of a prompt: a conversation, (role, content) in order, up to where the assistant's answer begins.

        Raises `TemplateFailed`.
        """
        return self.render_after(None, messages).tokens

    def render_after(self, before: Rendered | None, messages: Sequence[tuple[str, str]]) -> Rendered:
        """Render a prompt, and encode only what differs from `before`, an earlier prompt of the same conversation.

        Raises `TemplateFailed`.
        """
        return next(self.render_each(before, messages, [len(messages)]))

    def render_each(
        self, before: Rendered | None, messages: Sequence[tuple[str, str]], ends: Sequence[int]
    ) -> Iterator[Rendered]:
        """Render the prompts of `messages[:end]`, one for each of these ends, which grow.

        Only the difference to the previous prompt is encoded; for the first, the difference to `before`, an earlier
        prompt of the same conversation. Rendering and encoding make up nearly all of a prompt's cost, and both grow
        linearly with the conversation. This works because a special token splits the text for the tokenizer: the text
        before it is encoded in the same way, whatever comes after it. Raises `TemplateFailed`.
        """
        literal = [(role, self._spell_out(content)) for role, content in messages]
        spelt_from = next((at for at, (one, other) in enumerate(zip(literal, messages)) if one != other), len(literal))
        for end, text in zip(ends, self._template.render_each(literal, ends)):
            before = self._encode_after(before, text, spelt_from < end)
            yield before

    def _encode_after(self, before: Rendered | None, text: str, spelt_out: bool) -> Rendered:
        if before is not None and before.kept and before.spelt_out == spelt_out and text.startswith(before.text):
            rest = self._encode_rendered(text[before.characters :], spelt_out)
            # Otherwise it is no longer a special token, and the text is not split there.
            same = rest.tokens[:1] == before.tokens[before.kept : before.kept + 1]
            if same and rest.spelt_out == spelt_out:
                tokens = before.tokens[: before.kept] + rest.tokens
                return Rendered(tokens, text, spelt_out, before.characters + rest.characters, before.kept + rest.kept)
        return self._encode_rendered(text, spelt_out)

    def render_begun(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The tokens of a prompt whose last message is the beginning of an answer, to continue it.

        A template may write something else before a given answer than where it asks for one. Raises `TemplateFailed`.
        """
        literal = [(role, self._spell_out(content)) for role, content in messages]
        return self._encode_rendered(self._template.render(literal, begun=True), literal != list(messages)).tokens

    def render_tools(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None
    ) -> list[int]:
        """The tokens of a prompt whose messages may call tools and have their results, in OpenAI's form.

        The arguments of calls are objects. Raises `TemplateFailed`.
        """
        literal = self._spell_out_all([messages, tools])
        text = self._template.render_tools(*literal)
        return self._encode_rendered(text, literal != [messages, tools]).tokens

    @cached_property
    def tool_format(self) -> ToolFormat | None:
        """The form in which the template writes tool calls, or None if it takes no tools, or in an unknown form."""
        messages, tools = probe_messages()
        try:
            prompt = self._template.render_tools(messages[:1], tools)
            return format_of(prompt, self._template.render_tools(messages, tools, ask=False))
        except TemplateFailed:
            return None

    def opening(self, form: ToolFormat) -> list[int]:
        """The tokens with which a call begins, as the template writes them."""
        marker = form.opening.rstrip()
        if (special := self._special.get(marker)) is not None:
            return [special]
        return self.encode(form.opening) if form.opening else []

    def special(self, text: str) -> int | None:
        """The special token with this text, or None."""
        return self._special.get(text)

    @cached_property
    def takes_system(self) -> bool:
        """Whether the template writes a system message. Some templates refuse or omit it."""
        try:
            return _PROBE in self._template.render([("system", _PROBE), ("user", "a")])
        except TemplateFailed:
            return False

    def answer_opening(self) -> list[int]:
        """What the template writes between the last word of a question and the first word of its answer."""
        first, second = self.render([("user", "a")]), self.render([("user", "b")])
        pairs = zip(reversed(first), reversed(second))
        return first[len(first) - next((at for at, (one, other) in enumerate(pairs) if one != other), 0) :]

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text. Special tokens in it are treated as letters."""
        encoding = self._literal.encode(text, add_special_tokens=False)
        found = () if self._contents.keys().isdisjoint(encoding.ids) else zip(encoding.ids, encoding.offsets)
        # Some vocabularies have special tokens among their words, and find them in plain text. These are cut in two.
        cuts = [start + 1 for token, (start, end) in found if end - start > 1 and self._spells(token, text[start:end])]
        if cuts:
            return [token for at, to in pairwise([0, *cuts, len(text)]) for token in self.encode(text[at:to])]
        return list(encoding.ids)

    def length(self, text: str) -> int:
        """How many tokens `encode` makes of a text. Recent results are cached."""
        if (length := self._lengths.get(text)) is None:
            if len(self._lengths) >= REMEMBERED:
                self._lengths.clear()
            length = self._lengths[text] = len(self.encode(text))
        return length

    def encode_whole(self, text: str) -> list[int]:
        """Token ids of a complete text, as in the model's training.

        The tokenizer adds the beginning-of-text tokens, and special tokens in the text are recognised.
        """
        return list(self._tokenizer.encode(text).ids)

    def spelling(self, token: int) -> tuple[str, bytes]:
        """The text of one token, and its bytes, which may be only part of a character."""
        name = self._contents.get(token) or self._tokenizer.id_to_token(token) or ""
        if self._spells_bytes and token not in self._contents and all(one in BYTES for one in name):
            data = bytes(BYTES[one] for one in name)
        elif found := re.fullmatch(r"<0x([0-9A-F]{2})>", name):  # SentencePiece's notation for a byte.
            data = bytes.fromhex(found[1])
        elif token in self._contents:
            data = name.encode()
        else:  # Some decoders drop the space before a first word, so the second of two counts.
            data = self.decode([token, token]).removeprefix(self.decode([token])).encode()
        return data.decode(errors="replace"), data

    def is_special(self, token: int) -> bool:
        """Whether a token stands for no text, but for the beginning of a turn or the like."""
        return token in self._contents

    @cached_property
    def _spells_bytes(self) -> bool:
        """Whether each character of a token's text stands for a byte."""
        decoder = self._tokenizer.decoder
        return decoder is not None and b"ByteLevel" in decoder.__getstate__()

    def words(self) -> dict[str, int]:
        """The tokens that text consists of, with their ids: all but those that were added."""
        added = self._tokenizer.get_added_tokens_decoder()
        known = self._tokenizer.get_vocab(with_added_tokens=False)
        return {word: number for word, number in known.items() if number not in added}

    def tokenizer_json(self) -> str:
        return str(self._tokenizer.to_str())

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens. Incomplete characters become U+FFFD."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def knows(self, tokens: Sequence[int]) -> bool:
        """True if all ids are in this vocabulary.

        Only the last may be a special token, and only one that ends answers.
        """
        last = tokens[-1] if tokens else None
        special = last in self._special.values() and last not in self.stop_tokens
        return not special and all(0 <= token < self._size for token in tokens)

    def _encode_rendered(self, text: str, spelt_out: bool) -> Rendered:
        """Encode a template's output. Its special tokens stay special, except those that were `spelt_out`."""
        if self._split is not None and spelt_out:
            tokens: list[int] = []
            characters = kept = at = 0
            parts = self._split.split(text)
            for place, part in enumerate(parts):
                if part in self._special:
                    characters, kept = at, len(tokens)
                    tokens.append(self._special[part])
                else:
                    plain = part.lstrip() if place and parts[place - 1] in self._strip_behind else part
                    if place + 1 < len(parts) and parts[place + 1] in self._strip_before:
                        plain = plain.rstrip()
                    tokens += self.encode(self._put_back(plain))
                at += len(part)
            return Rendered(tokens, text, spelt_out, characters, kept)
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        tokens, places = list(encoding.ids), encoding.offsets
        if self._split is not None and any(
            token in self._contents and self._disguised(token, text[slice(*place)])
            for token, place in zip(tokens, places)
        ):
            return self._encode_rendered(text, True)
        for last in reversed(range(len(tokens))):
            start, end = places[last]
            # The unknown token is special too, but splits nothing.
            if self._contents.get(tokens[last]) == text[start:end]:
                return Rendered(tokens, text, spelt_out, start, last)
        return Rendered(tokens, text, spelt_out)

    def _spells(self, token: int, text: str) -> bool:
        """True for a special token that stands for its own name. A special token may also stand for unknown letters."""
        return token in self._contents and self._contents[token] in self._normalise(text)

    def _disguised(self, token: int, text: str) -> bool:
        """True if letters that only look like a special token became one; no template writes a token in that form."""
        return text.strip() != self._contents[token].strip() and self._spells(token, text)

    def _normalise(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def _spell_out(self, content: str) -> str:
        return self._split.sub(lambda found: found[0][0] + _BREAK + found[0][1:], content) if self._split else content

    def _spell_out_all(self, value: Any) -> Any:
        """A value with every special token in its texts spelt out."""
        if isinstance(value, str):
            return self._spell_out(value)
        if isinstance(value, Mapping):
            return {self._spell_out_all(name): self._spell_out_all(one) for name, one in value.items()}
        return [self._spell_out_all(one) for one in value] if isinstance(value, list | tuple) else value

    def _put_back(self, text: str) -> str:
        for token in self._special:
            text = text.replace(token[0] + _BREAK + token[1:], token)
        return text


def _beside(tokenizer: Tokenizer) -> Tokenizer:
    """A second tokenizer with the same tokens.

    It shares the model, which takes half a second to read if it is large.
    """
    other = Tokenizer(tokenizer.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (found := getattr(tokenizer, part)) is not None:
            setattr(other, part, found)
    other.add_tokens([token for _, token in sorted(tokenizer.get_added_tokens_decoder().items())])
    return other


def _special_tokens(path: Path) -> dict[str, str]:
    """Read the texts of special tokens by name. Raises `DrafterCorrupt`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DrafterCorrupt(f"{path} cannot be read ({error}). Reinstall the drafter.") from None
