"""Between text and token ids: the tokenizer and the chat template, run on the device so that both work offline.

What a person writes is text only: a special token spelt out in a message is encoded letter by letter, and can neither
end a turn nor open one. The template writes the special tokens, the first of a text too where there is one: nothing is
added to what it wrote.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from drafter.config import SPECIAL_TOKENS, TEMPLATE, TOKENIZER, DrafterCorrupt, read_config
from drafter.template import ChatTemplate

_BREAK = "\ufdd0"
"""A Unicode noncharacter, put inside special tokens that a person spelt out, while the template is rendered."""


@dataclass(frozen=True)
class Rendered:
    """A prompt, and where a longer one that begins with it need not be encoded again."""

    tokens: list[int]
    text: str
    spelt_out: bool
    """Somebody spelt a special token out, so what stands between special tokens was encoded piece by piece."""
    characters: int = 0
    """Before its last special token."""
    kept: int = 0
    """Tokens before that one; 0 where there is none."""


class ChatText:
    """A tokenizer and a chat template.

    `tokenizer` holds the bytes of a `tokenizer.json`, `template` Jinja source in the dialect of transformers, and
    `special_tokens` the texts that it knows by name (`bos_token`); None: what can be told from the other parts.
    Raises `DrafterCorrupt` where one of them cannot be read.
    """

    def __init__(
        self,
        tokenizer: bytes,
        template: str,
        stop_tokens: Iterable[int],
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.digest = hashlib.blake2b(tokenizer, digest_size=16).digest()
        self.stop_tokens = frozenset(stop_tokens)
        try:
            self._tokenizer = Tokenizer.from_buffer(tokenizer)
            self._literal = Tokenizer.from_buffer(tokenizer)
        except Exception as error:  # The library raises nothing narrower.
            raise DrafterCorrupt(f"{TOKENIZER} cannot be read ({error}). Reinstall the drafter.") from None
        self._literal.encode_special_tokens = True
        self._size = self._tokenizer.get_vocab_size()
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {token.content: number for number, token in added.items() if token.special}
        self._contents = {number: content for content, number in self._special.items()}
        self._strip_behind = {token.content for token in added.values() if token.special and token.rstrip}
        self._strip_before = {token.content for token in added.values() if token.special and token.lstrip}
        longest_first = sorted(self._special, key=len, reverse=True)
        self._split = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        if special_tokens is None:  # Reading a large tokenizer once more takes half a second, so only where it counts.
            wanted = "bos_token" in template or "eos_token" in template
            special_tokens = _guessed(tokenizer, self._contents, self.stop_tokens) if wanted else {}
        self._template = ChatTemplate(template, special_tokens)

    @classmethod
    def load(cls, folder: Path) -> ChatText:
        """From an artefact folder. Raises `DrafterMissing` or `DrafterCorrupt`."""
        named = (folder / SPECIAL_TOKENS).exists()  # Folders of older versions have none.
        config = read_config(folder, verify=(TOKENIZER, TEMPLATE, *((SPECIAL_TOKENS,) if named else ())))
        template = (folder / TEMPLATE).read_text("utf-8", errors="replace")
        special_tokens = _special_tokens(folder / SPECIAL_TOKENS) if named else None
        return cls((folder / TOKENIZER).read_bytes(), template, config.stop_tokens, special_tokens)

    def render(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The prompt of a conversation, (role, content) in order; it ends where the assistant's answer begins.

        Raises `TemplateFailed`.
        """
        return self.render_after(None, messages).tokens

    def render_after(self, before: Rendered | None, messages: Sequence[tuple[str, str]]) -> Rendered:
        """The same; what it has in common with `before`, an earlier prompt of the conversation, is not encoded again.

        Encoding is nearly all that a prompt costs: the 500 prompts of a conversation of 1,000 messages take 9 s if each
        is made anew, and 0.3 s one after another. A special token splits the text for the tokenizer, so that what
        stands before one is encoded alike, whatever comes after it.
        """
        literal = [(role, self._spell_out(content)) for role, content in messages]
        text = self._template.render(literal)
        spelt_out = literal != list(messages)
        if before is not None and before.kept and before.spelt_out == spelt_out and text.startswith(before.text):
            rest = self._encode_rendered(text[before.characters :], spelt_out)
            # Else what was a special token is none any more, and the text is not split there.
            same = rest.tokens[:1] == before.tokens[before.kept : before.kept + 1]
            if same and rest.spelt_out == spelt_out:
                tokens = before.tokens[: before.kept] + rest.tokens
                return Rendered(tokens, text, spelt_out, before.characters + rest.characters, before.kept + rest.kept)
        return self._encode_rendered(text, spelt_out)

    def render_begun(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """The prompt of a conversation whose last message is the beginning of an answer, to go on with it.

        A template may put other things in front of an answer than where it asks for one. Raises `TemplateFailed`.
        """
        literal = [(role, self._spell_out(content)) for role, content in messages]
        return self._encode_rendered(self._template.render(literal, begun=True), literal != list(messages)).tokens

    def answer_opening(self) -> list[int]:
        """What the template puts between the last word of a question and the first of its answer."""
        first, second = self.render([("user", "a")]), self.render([("user", "b")])
        pairs = zip(reversed(first), reversed(second))
        return first[len(first) - next((at for at, (one, other) in enumerate(pairs) if one != other), 0) :]

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text; special tokens in it are letters."""
        encoding = self._literal.encode(text, add_special_tokens=False)
        found = () if self._contents.keys().isdisjoint(encoding.ids) else zip(encoding.ids, encoding.offsets)
        # Some vocabularies hold special tokens among the words, and find them in plain text: cut these in two.
        cuts = [start + 1 for token, (start, end) in found if end - start > 1 and self._spells(token, text[start:end])]
        if cuts:
            return [token for at, to in pairwise([0, *cuts, len(text)]) for token in self.encode(text[at:to])]
        return list(encoding.ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text without special tokens; bytes that do not yet make a character come out as U+FFFD."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def knows(self, tokens: Sequence[int]) -> bool:
        """Whether all of them are of this vocabulary; at the end may be a token that ends answers, and no other
        special one."""
        last = tokens[-1] if tokens else None
        special = last in self._special.values() and last not in self.stop_tokens
        return not special and all(0 <= token < self._size for token in tokens)

    def _encode_rendered(self, text: str, spelt_out: bool) -> Rendered:
        """What a template wrote, in which special tokens are such, but for those that were `spelt_out`."""
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
            # A token that stands for what is not in the vocabulary is special, too, and splits nothing.
            if self._contents.get(tokens[last]) == text[start:end]:
                return Rendered(tokens, text, spelt_out, start, last)
        return Rendered(tokens, text, spelt_out)

    def _spells(self, token: int, text: str) -> bool:
        """Whether this is a special token that stands for its own name; one may also stand for unknown letters."""
        return token in self._contents and self._contents[token] in self._normalise(text)

    def _disguised(self, token: int, text: str) -> bool:
        """Whether letters that only look like a special token became one: no template writes it so."""
        return text.strip() != self._contents[token].strip() and self._spells(token, text)

    def _normalise(self, text: str) -> str:
        normalizer = self._tokenizer.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def _spell_out(self, content: str) -> str:
        return self._split.sub(lambda found: found[0][0] + _BREAK + found[0][1:], content) if self._split else content

    def _put_back(self, text: str) -> str:
        for token in self._special:
            text = text.replace(token[0] + _BREAK + token[1:], token)
        return text


def _special_tokens(path: Path) -> dict[str, str]:
    """Name -> text. Raises `DrafterCorrupt`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise DrafterCorrupt(f"{path} cannot be read ({error}). Reinstall the drafter.") from None


def _guessed(tokenizer: bytes, contents: Mapping[int, str], stop_tokens: frozenset[int]) -> dict[str, str]:
    """What a drafter of an older version does not say: the token that its tokenizer puts in front of every text, and
    the one that ends an answer, where there is no choice."""
    guessed = {}
    processor = json.loads(tokenizer).get("post_processor") or {}
    for step in processor.get("processors", [processor]):
        first = (step.get("single") or [{}])[0].get("SpecialToken", {}).get("id")
        if first in contents.values():
            guessed["bos_token"] = first
    ends = [contents[token] for token in stop_tokens if token in contents]
    if len(ends) == 1:
        guessed["eos_token"] = ends[0]
    return guessed
