"""Remarks and questions that no command answers, and Shell Guide's replies."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recipes.shell_guide.grammar.names import pick, word
from recipes.shell_guide.grammar.phrases import Phrase, PhraseError
from recipes.shell_guide.grammar.slot_types import draw
from recipes.shell_guide.grammar.values import Slot

FOLDER = Path(__file__).parents[1] / "talk"
ORDINARY = FOLDER / "ordinary.toml"
"""Questions without replies, for `recipes.shell_guide.ordinary`."""
_SLOT = re.compile(r"\{([a-z_]+\d*)\}")
_ENDINGS = ("ctl", "er", "it", "sh", "fmt", "-cli", "x", "d", "kit", "ify", "o", "2", "tool", "grep", "stat", "ly")
_CONSONANTS = "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True)
class Talk:
    """One kind of remark, the ways to make it, and the reply."""

    kind: str
    asks: tuple[Phrase, ...]
    answers: tuple[str, ...]
    lists: Mapping[str, Sequence[str]]

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """A remark, without changes of case and punctuation, and the reply to it."""
        # A phrase with many wordings is drawn more often, but less than proportionally.
        weights = np.cumsum([np.log2(1 + phrase.count()) for phrase in self.asks])
        phrase = self.asks[int(np.searchsorted(weights, rng.random() * weights[-1]))]
        text, named = phrase.draw(rng)
        values: dict[str, str] = {}
        for name in sorted(named):
            values[name] = self._value(name, rng)
            while values[name] in [value for other, value in values.items() if other != name]:
                values[name] = self._value(name, rng)
        answer = self.answers[int(rng.integers(len(self.answers)))]
        return _filled(text, values), _filled(answer, values)

    def _value(self, name: str, rng: np.random.Generator) -> str:
        words = self.lists.get(name) or self.lists.get(name.rstrip("0123456789"))
        if words:
            return words[int(rng.integers(len(words)))]
        if name == "program":
            return invented_program(rng)
        if name == "gibberish":
            return "".join(_CONSONANTS[int(at)] for at in rng.integers(len(_CONSONANTS), size=int(rng.integers(3, 9))))
        return draw(Slot.read(name, {}), rng).said


def invented_program(rng: np.random.Generator) -> str:
    """A name that sounds like a program. The caller leaves out names that exist."""
    name = word(rng) + pick(rng, _ENDINGS)
    return name if rng.random() < 0.8 else word(rng)[:3] + word(rng)[:4]


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda found: values[found[1]], text)


def read_talk(folder: Path = FOLDER) -> list[Talk]:
    """All kinds of remarks that have replies. Raises `PhraseError` that names the file."""
    return [one for path in sorted(folder.glob("*.toml")) if path != ORDINARY for one in read_file(path)]


def read_file(path: Path) -> list[Talk]:
    """The kinds of remarks of one file. Without an `answer`, the reply is empty. Raises `PhraseError`."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    talks = []
    for one in raw["talk"]:
        try:
            asks = tuple(Phrase.read(text) for text in one["ask"])
        except PhraseError as error:
            raise PhraseError(f"{path.name}, {one['kind']}: {error}") from None
        talks.append(Talk(one["kind"], asks, tuple(one.get("answer", ("",))), raw.get("lists", {})))
    return talks
