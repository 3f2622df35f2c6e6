"""Ghost text: the command of the example that fits the words typed so far best. It never leaves this device."""

from __future__ import annotations

import re
import shutil
import sys

from app.commands.known import bundled_pages
from app.shell.words import commands
from models.guide.prompt import find
from models.guide.search import platforms_of

FEWEST_WORDS = 3
"""With fewer words, the guess would change with each of them."""
LEAST_SCORE = 0.7
"""Score below which an example is not shown. The best example of all everyday questions reaches it, of 87 % of them in
other words, and of 18 % of the questions that are not about the shell."""
PLAIN = re.compile(r"[^|<>;&$`(){}\\=]+")
LITTLE_WORDS = {
    "a", "all", "an", "and", "are", "by", "every", "for", "from", "how", "i", "in", "into", "is", "it", "me", "my",
    "of", "on", "than", "that", "the", "this", "to", "what", "which", "with",
}  # fmt: skip
"""Words of a sentence. Many sentences begin with a program's name, such as `find all large files`."""


def ghost_text(words: str) -> str:
    """The command that fits these words best, with the names in them filled in, or "" if none fits well.

    Raises `DrafterMissing` or `DrafterCorrupt`.
    """
    found = find(bundled_pages(), [" ".join(words.split())], platforms_of(sys.platform))
    return found[0].shown.command.partition("\n")[0] if found and found[0].score >= LEAST_SCORE else ""


def reads_as_words(line: str) -> bool:
    """Whether a line is a request in words, not a command being typed."""
    words = line.split()
    if len(words) < FEWEST_WORDS or not PLAIN.fullmatch(line) or any(word.startswith("-") for word in words):
        return False
    (simple,) = commands(line) or [[]]
    if not simple or shutil.which(simple[0].value) is None:
        return not simple or "/" not in simple[0].value
    return any(word.lower() in LITTLE_WORDS for word in words[1:])
