"""Phrases with alternatives: `(find|list) [all] files over {size}`. The notation is described in intents/README.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

_SPECIAL = "()[]|{}"
_SLOT = re.compile(r"\{([a-z_]+\d*)\}")
_SPACES = re.compile(r" {2,}")
_BEFORE_MARK = re.compile(r" +([,.?!:;])(?=\s|$)")
_LAST_ONE = re.compile(r"\b(last|past) (?:an?|one|1) (?=(?:minute|hour|day|week|month|year)\b)")


class PhraseError(ValueError):
    """A phrase is not well formed. The message holds the phrase and the place."""


@dataclass(frozen=True)
class Word:
    """Text that is always said."""

    text: str


@dataclass(frozen=True)
class Named:
    """A slot that the phrase names."""

    slot: str


@dataclass(frozen=True)
class Either:
    """One of several phrases, or perhaps none."""

    options: tuple[Phrase, ...]
    optional: bool


@dataclass(frozen=True)
class Phrase:
    """Parts in sequence."""

    parts: tuple[Word | Named | Either, ...]

    @classmethod
    def read(cls, text: str) -> Phrase:
        """Parse a phrase. Raises `PhraseError`."""
        reader = _Reader(text)
        phrase = reader.sequence(top=True)
        return phrase

    def slots(self) -> Iterator[str]:
        """The slots that the phrase may name, in order; some may occur twice."""
        for part in self.parts:
            if isinstance(part, Named):
                yield part.slot
            elif isinstance(part, Either):
                for option in part.options:
                    yield from option.slots()

    def draw(self, rng: np.random.Generator) -> tuple[str, frozenset[str]]:
        """One way to say it, with its slots still as `{slot}`, and the slots that it names."""
        text = _tidy(self._draw(rng))
        return text, frozenset(_SLOT.findall(text))

    def _draw(self, rng: np.random.Generator) -> str:
        return "".join(_say(part, lambda either: _random(either, rng)) for part in self.parts)

    def told(self, named: frozenset[str]) -> str:
        """The wording after a question that named these slots: a bracket is included if all its slots were named.

        Of alternatives, the first one is said. Slots are still `{slot}`.
        """
        return _tidy(self._told(named))

    def _told(self, named: frozenset[str]) -> str:
        def choose(either: Either) -> str:
            first = either.options[0]
            if either.optional and not (set(first.slots()) and set(first.slots()) <= named):
                return ""
            return first._told(named)

        return "".join(_say(part, choose) for part in self.parts)

    def outlined(self, aside: Callable[[str], str]) -> str:
        """The wording with all slots; `aside` writes a bracket that is included only if its slots are named."""

        def choose(either: Either) -> str:
            first = either.options[0]
            named = frozenset(first.slots())
            if either.optional:
                return aside(first._told(named)) if named else ""
            return first.outlined(aside)

        return _tidy("".join(_say(part, choose) for part in self.parts))

    def count(self) -> int:
        """The number of possible wordings."""
        ways = 1
        for part in self.parts:
            if isinstance(part, Either):
                ways *= sum(option.count() for option in part.options) + part.optional
        return ways


def _say(part: Word | Named | Either, choose: Callable[[Either], str]) -> str:
    if isinstance(part, Word):
        return part.text
    return f"{{{part.slot}}}" if isinstance(part, Named) else choose(part)


def _random(either: Either, rng: np.random.Generator) -> str:
    if either.optional and rng.random() < 0.5:
        return ""
    return either.options[int(rng.integers(len(either.options)))]._draw(rng)


def _tidy(text: str) -> str:
    """Reduce to single spaces where an optional word was left out, and none before punctuation."""
    return _BEFORE_MARK.sub(r"\1", _SPACES.sub(" ", text)).strip()


def without_one(text: str) -> str:
    """A text with its values, where `the last a week` and `the last one week` are said as `the last week`."""
    return _LAST_ONE.sub(r"\1 ", text)


class _Reader:
    """A recursive descent over one phrase."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def sequence(self, *, top: bool = False) -> Phrase:
        parts: list[Word | Named | Either] = []
        text = ""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in _SPECIAL:
                text += self._text[self._at + 1]
                self._at += 2
                continue
            if char in _SPECIAL:
                if text:
                    parts.append(Word(text))
                    text = ""
                if char in ")]|":
                    if top:
                        self._fail(f"{char!r} without a beginning")
                    break
                parts.append(self._slot() if char == "{" else self._either(char))
                continue
            text += char
            self._at += 1
        if text:
            parts.append(Word(text))
        return Phrase(tuple(parts))

    def _slot(self) -> Named:
        found = _SLOT.match(self._text, self._at)
        if found is None:
            self._fail("no slot, such as {file}, begins here")
        self._at = found.end()
        return Named(found[1])

    def _either(self, opening: str) -> Either:
        closing = ")" if opening == "(" else "]"
        options = []
        while True:
            self._at += 1  # The bracket, or the bar between two options.
            options.append(self.sequence())
            char = self._text[self._at : self._at + 1]
            if char == closing:
                self._at += 1
                return Either(tuple(options), opening == "[")
            if char != "|":
                self._fail(f"{opening!r} is not closed")

    def _fail(self, why: str) -> NoReturn:
        raise PhraseError(f"{why}, at character {self._at + 1} of: {self._text}")
