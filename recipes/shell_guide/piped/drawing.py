"""Draws a question about a text that is piped into `outrider ask`, or attached to it, in exactly that form.

Piped, the text follows the question after an empty line (`app/cli/question.py`); attached, the question follows the
file (`app/attachments/renderer.py`).
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np

from app.attachments.renderer import fenced, language
from recipes.shell_guide.grammar.phrases import Phrase
from recipes.shell_guide.grammar.wording import typed
from recipes.shell_guide.piped.diffs import diff
from recipes.shell_guide.piped.failures import FAILURES
from recipes.shell_guide.piped.files import FILES
from recipes.shell_guide.piped.logs import LOGS
from recipes.shell_guide.piped.parts import Maker, Text
from recipes.shell_guide.piped.tables import TABLES
from storage import Attachment

_FILE = Path(__file__).with_name("questions.toml")
QUESTIONS = {
    kind: tuple(map(Phrase.read, phrases)) for kind, phrases in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
DIFFS = 0.16
"""Share of diffs, which people pipe most of all."""
ATTACHED, ALONE = 0.22, 0.07
"""Shares of texts that are attached, and of those piped in without a word."""
AGAIN = 0.2
"""Share of texts about which a second question follows."""
USUAL = 3
"""How much more often the questions of questions.toml are asked than those that are about one kind of text."""
NAMED = 0.3
"""Share of attached files that the question names, as `@file`."""
STANDARD = frozenset({"README.md", "compose.yaml", "requirements.txt"})
"""Names that tell themselves from the text."""

MAKERS: tuple[Maker, ...] = (*TABLES, *LOGS, *FAILURES, *FILES, diff)


def draw(rng: np.random.Generator) -> list[tuple[str, str]]:
    """A question with its text and the answer, and perhaps a second question about the same text."""
    text = diff(rng) if rng.random() < DIFFS else MAKERS[int(rng.integers(len(MAKERS)))](rng)
    way = rng.random()
    if way >= ALONE + ATTACHED or way < ALONE:
        text = nameless(text)
    if way < ALONE:
        return [(text.body.strip(), text.asked[0][1])]
    shares = np.array([USUAL if kind in QUESTIONS else 1.0 for kind, _ in text.asked])
    order = rng.choice(len(text.asked), size=len(text.asked), replace=False, p=shares / shares.sum())
    question, answer = asked(text, int(order[0]), rng)
    turns = [(piped(text, question) if way >= ALONE + ATTACHED else attached(text, question, rng), answer)]
    if rng.random() < AGAIN:
        other = next((int(at) for at in order[1:] if text.asked[int(at)][1] != answer), None)
        if other is not None:
            turns.append(asked(text, other, rng))
    return turns


def nameless(text: Text) -> Text:
    """The text without its file's name in the answers, which nobody can know of a text that is piped in."""
    name = PurePath(text.name)
    if not name.suffix or text.name in STANDARD or text.name in text.body:
        return text
    known = re.compile(rf"(?<![\w-]){re.escape(text.name)}(?![\w.-])")
    return replace(text, asked=tuple((kind, known.sub(f"file{name.suffix}", said)) for kind, said in text.asked))


def piped(text: Text, question: str) -> str:
    """The question and the text, as `outrider ask` reads what is piped in."""
    return f"{question}\n\n{text.body.strip()}"


def attached(text: Text, question: str, rng: np.random.Generator) -> str:
    """The text as a file, and the question."""
    if rng.random() < NAMED:
        question = re.sub(r"\b(?:this|that)\b(?! \w)", f"@{text.name}", question, count=1)
    attached = Attachment(text.name, "text/plain", text.body.encode())
    return f"File: {text.name}\n{fenced(text.body, language(attached))}\n\n{question}"


def asked(text: Text, at: int, rng: np.random.Generator) -> tuple[str, str]:
    """One of the questions about a text, by its number, and the answer."""
    kind, answer = text.asked[at]
    phrases = _phrases(kind)
    question, _ = phrases[int(rng.integers(len(phrases)))].draw(rng)
    return typed(question, rng), answer


def _phrases(kind: str) -> tuple[Phrase, ...]:
    """The phrases of a kind of question, or the phrase that is written out."""
    return QUESTIONS.get(kind) or (Phrase.read(f"({kind})"),)
