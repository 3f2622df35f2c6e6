"""Ghost text: the command that the drafter would write for the words typed so far. It never leaves this device."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

from app.shell.words import commands
from drafter.context import DraftContext
from drafter.runtime import Drafter
from drafter.second_stage import SecondStage

FEWEST_WORDS = 3
"""With fewer words, the guess would change with each of them."""
MOST_TOKENS = 48
"""A command of Shell Guide takes some 28 tokens, with the sentence before it."""
PLAIN = re.compile(r"[^|<>;&$`(){}\\=]+")
LITTLE_WORDS = {
    "a", "all", "an", "and", "are", "by", "every", "for", "from", "how", "i", "in", "into", "is", "it", "me", "my",
    "of", "on", "than", "that", "the", "this", "to", "what", "which", "with",
}  # fmt: skip
"""Words of a sentence. Many sentences begin with a program's name, such as `find all large files`."""


class GhostText:
    """Writes commands with one draft context, which rereads only what has changed since the last key.

    The second stage guesses from the drafter's datastore, so a key takes fewer steps; the text is the same without it.
    Raises `DrafterMissing` or `DrafterCorrupt` for a damaged datastore.
    """

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._context: DraftContext = drafter.context(SecondStage((drafter.datastore(),)))

    def after(self, words: str, wanted: Callable[[], bool]) -> str:
        """The drafter's answer to these words, up to the end of its command; cut off once it is no longer `wanted`."""
        text, question = self._drafter.text, " ".join(words.split())
        self._context.follow(self._drafter.asked_as(question))
        tokens: list[int] = []
        for new in self._context.generate(0.0, 0):
            tokens += [token for token in new if token not in text.stop_tokens]
            if not wanted():
                return ""
            ended = any(token in text.stop_tokens for token in new)
            if ended or len(tokens) >= MOST_TOKENS or text.decode(tokens).count("```") > 1:
                break
        return self._drafter.marks([question]).shown(text.decode(tokens))


def reads_as_words(line: str) -> bool:
    """Whether a line is a request in words, not a command being typed."""
    words = line.split()
    if len(words) < FEWEST_WORDS or not PLAIN.fullmatch(line) or any(word.startswith("-") for word in words):
        return False
    (simple,) = commands(line) or [[]]
    if not simple or shutil.which(simple[0].value) is None:
        return not simple or "/" not in simple[0].value
    return any(word.lower() in LITTLE_WORDS for word in words[1:])
