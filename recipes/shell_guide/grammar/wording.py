"""Small changes that turn a phrase into what people type: a sentence around it, punctuation, a capital, a slip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np

from recipes.shell_guide import phrasing
from recipes.shell_guide.grammar.values import WORDS

WORDINGS = tomllib.loads(Path(__file__).with_name("wordings.toml").read_text(encoding="utf-8"))
SLIPS = 0.08
"""Share of questions with a misspelt word."""

_FRAMES: list[str] = [text for text, _ in WORDINGS["frames"]]
_FRAME_SHARES = np.cumsum([share for _, share in WORDINGS["frames"]]) / sum(share for _, share in WORDINGS["frames"])
_IMPERATIVES = frozenset(WORDS["imperatives"].split())
_MISSPELT = frozenset(WORDS["misspelt"].split())
_ASKS = re.compile(r"(how|what|which|where|can|could|is|are|why|who|does|do)\b", re.IGNORECASE)


def one_of(kind: str, rng: np.random.Generator) -> str:
    """One of the sentences of this kind in wordings.toml."""
    sentences = WORDINGS[kind]
    return str(sentences[int(rng.integers(len(sentences)))])


def framed(question: str, rng: np.random.Generator) -> str:
    """Turn an imperative into a question: `find files` -> `how do i find files`. Others are left unchanged."""
    first, *others = question.split(maxsplit=2)
    if first not in _IMPERATIVES:
        return question
    if others and others[0] == "me":  # "how do i show me" is not said.
        return one_of("requests", rng).replace("{}", question)
    return _FRAMES[int(np.searchsorted(_FRAME_SHARES, rng.random()))].replace("{}", question)


def typed(question: str, rng: np.random.Generator) -> str:
    """Vary case, punctuation and slips, but never inside a word that must be copied."""
    words = question.split(" ")
    plain = [at for at, word in enumerate(words) if word in _MISSPELT and 4 < len(word) < 12]
    if plain and rng.random() < SLIPS:
        at = plain[int(rng.integers(len(plain)))]
        words[at] = phrasing.typo(words[at], rng)
    if words[0] in _MISSPELT | _IMPERATIVES and rng.random() < 0.3:
        words[0] = words[0].capitalize()
    question = " ".join(words)
    draw = rng.random()
    if draw < (0.55 if _ASKS.match(question) else 0.04):
        return question + "?"
    return question + "." if draw > 0.97 else question
