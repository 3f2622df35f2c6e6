"""The pages that Shell Guide reads: command-line programs with examples, in one SQLite file that is shipped with it.

`recipes/shell_guide/index.py` writes the file. Its text is tldr pages, (c) the tldr-pages team and contributors, CC-BY
4.0, and everyday needs that were written for Outrider.

The table `asked` is an FTS5 index. Each row is one example, with the ways to ask for it in the terms of `words.py`.
"""

from __future__ import annotations

import sqlite3
import sys
import weakref
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from threading import Lock
from typing import Any

from models.config import DrafterCorrupt, DrafterMissing
from models.guide.mentions import Named, called, named
from models.guide.outline import unfilled
from models.guide.synonyms import STOP_WORDS
from models.guide.vectors import WORDINGS, Vectors
from models.guide.words import term, terms

FILE = "pages.db"
FORMAT = "3"
"""Version of the tables. Another one cannot be read."""
OWN = "outrider"
"""Platform of pages that tldr pages does not have, with Outrider's own examples alone."""

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pages (
    id INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    languages INTEGER NOT NULL,
    terms BLOB NOT NULL,
    UNIQUE (name, platform)
);
CREATE TABLE examples (
    id INTEGER PRIMARY KEY,
    page INTEGER NOT NULL REFERENCES pages,
    task TEXT NOT NULL,
    command TEXT NOT NULL,
    own INTEGER NOT NULL,
    wordings BLOB NOT NULL,
    terms BLOB NOT NULL
);
CREATE INDEX examples_of_page ON examples (page);
CREATE TABLE programs (name TEXT PRIMARY KEY, distinct_share REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE terms (id INTEGER PRIMARY KEY, term TEXT NOT NULL, count INTEGER NOT NULL, links BLOB NOT NULL);
CREATE TABLE vectors (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE asked USING fts5(wordings, name, terms, content = '', tokenize = ascii);
"""
"""`languages`: in how many other languages the page exists, a sign of use. `own`: 1 for an example of Outrider's.
`task`, `command`: with slots (`outline.py`).
`distinct_share`: how often a program's name in a wording means that program, 0 to 1. `terms`, `wordings`: ids of terms,
two bytes each; 0 separates two wordings. `terms.count`: examples that have the term;
`terms.links`: pages that wordings with it are about. `vectors`: what `vectors.Vectors` takes, or nothing. `asked`: the
full-text index; its rowid is the example's id."""
SLOT = 0.25
"""Weight of a term that only says what kind of name a question has."""
DISTINCT = 0.5
"""Share from which on a word counts as a program."""
COMMON, MISSPELT, CERTAIN = 8, 3, 10
"""Fewest examples of a term that replaces a misspelt one. People's wordings in the index contain misspellings too: a
term in at most this many examples may be one, if the other term is this many times as frequent for each."""
RARE = 200
"""Most examples of a word that is a name where one is expected."""
PHRASE = 10
"""Fewest examples of a word with hyphens that is no name."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Example:
    """One thing that a program does, and the command that does it."""

    task: str
    command: str

    @classmethod
    def read(cls, task: str, command: str) -> Example:
        """An example as it is in the file, with the placeholders of its slots."""
        return cls(unfilled(task), unfilled(command))


@dataclass(frozen=True)
class Page:
    """What one page says of one program on one platform."""

    name: str
    platform: str
    description: str
    examples: tuple[Example, ...]


class Pages:
    """The opened file. Thread-safe."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        weakref.finalize(self, connection.close)
        self._lock = Lock()

    @classmethod
    def open(cls, path: Path) -> Pages:
        """Open the file for reading. Raises `DrafterMissing` or `DrafterCorrupt`."""
        if not path.is_file():
            raise DrafterMissing(f"{path} is missing. Reinstall outrider.")
        connection = None
        try:
            # immutable: no lock and no journal file, so a folder without write permission is fine.
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            known = connection.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
        except sqlite3.Error as error:
            if connection is not None:
                connection.close()
            raise DrafterCorrupt(f"{path} cannot be read ({error}). Reinstall outrider.") from None
        if known != (FORMAT,):
            connection.close()
            raise DrafterCorrupt(f"{path} has another format than this version of Outrider reads. Update outrider.")
        return cls(connection)

    def close(self) -> None:
        self._connection.close()

    # ---- what is in it -----------------------------------------------------------------------------------------------

    def page(self, name: str, platform: str) -> Page | None:
        """The page of this name on this platform, with its examples, or None."""
        found = self.rows("SELECT id, description FROM pages WHERE name = ? AND platform = ?", (name, platform))
        return self._page(found[0][0], name, platform, found[0][1]) if found else None

    def find(self, name: str, platforms: Sequence[str]) -> Page | None:
        """The page of this name on the first of these platforms that has one, or None."""
        return next((page for platform in platforms if (page := self.page(name, platform)) is not None), None)

    def knows(self, program: str) -> bool:
        """Whether a page is about this program, or an example runs it."""
        return program in self.distinct_shares

    def programs(self) -> frozenset[str]:
        """All programs that a page is about or an example runs."""
        return frozenset(self.distinct_shares)

    @property
    def licence(self) -> str:
        """The authors and the licence of the text, in a few sentences."""
        return str(self.rows("SELECT value FROM facts WHERE name = 'licence'")[0][0])

    def _page(self, number: int, name: str, platform: str, description: str) -> Page:
        # Outrider's own examples are only on pages that have no others.
        own = int(platform == OWN)
        found = self.rows("SELECT task, command FROM examples WHERE page = ? AND own = ? ORDER BY id", (number, own))
        return Page(name, platform, description, tuple(Example.read(*row) for row in found))

    # ---- for the search ----------------------------------------------------------------------------------------------

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query. Raises `DrafterCorrupt`."""
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise DrafterCorrupt(f"The pages cannot be read ({error}). Reinstall outrider.") from None

    @cached_property
    def distinct_shares(self) -> dict[str, float]:
        """Program -> how often its name in a wording means that program, 0 to 1."""
        return dict(self.rows("SELECT name, distinct_share FROM programs"))

    @cached_property
    def vocabulary(self) -> dict[str, tuple[int, int]]:
        """Term -> its id, and how many examples have it."""
        return {term: (number, count) for number, term, count in self.rows("SELECT id, term, count FROM terms")}

    def corrected(self, term: str) -> str:
        """The most frequent known term from which one slip of the keyboard made this one, or else the term itself."""
        vocabulary = self.vocabulary
        count = vocabulary.get(term, (0, 0))[1]
        if count > MISSPELT or len(term) < 4 or not term.isalpha():
            return term
        known = [
            one for one in _slips(term) if one in vocabulary and vocabulary[one][1] >= COMMON * (1 + CERTAIN * count)
        ]
        return max(known, key=lambda one: (vocabulary[one][1], one), default=term)

    def named(self, question: str) -> list[Named]:
        shares = self.distinct_shares
        return named(question, self._means_something, lambda word: shares.get(word, 0.0) >= DISTINCT, self._is_rare)

    def called(self, question: str) -> list[tuple[int, int]]:
        """Beginnings and ends of what a question gives as the name of something, which gets a mark too.

        Programs get none.
        """
        return called(one for one in self.named(question) if one.text.lower() not in self.names)

    def _means_something(self, word: str) -> bool:
        """Whether the index has a word, or one that is one slip of the keyboard away."""
        if "-" in word:
            return self._is_phrase(word.split("-"))
        return self.corrected(term(word)) in self.vocabulary or (len(word) > 4 and bool(_slips(word) & STOP_WORDS))

    def _is_rare(self, word: str) -> bool:
        """Whether a word, which is no plural and has no synonyms, is in at most `RARE` examples."""
        return term(word) == word and self.vocabulary.get(word, (0, 0))[1] <= RARE

    def _is_phrase(self, words: Iterable[str]) -> bool:
        """Whether examples have these words next to each other, as those of "pretty-print" and "non-empty"."""
        phrase = f'wordings:"{" ".join(map(term, words))}"'
        found = self.rows("SELECT 1 FROM asked WHERE asked MATCH ? LIMIT ?", (phrase, PHRASE))
        return len(found) == PHRASE

    @cached_property
    def vectors(self) -> Vectors | None:
        """The vectors of the examples, or None if the file has none."""
        found = dict(self.rows("SELECT name, value FROM vectors"))
        return Vectors(**found) if found else None

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(name for (name,) in self.rows("SELECT DISTINCT name FROM pages"))

    @cached_property
    def rarity(self) -> list[float]:
        """Id of a term -> its weight: the logarithm of how rare it is. Kinds of names weigh little."""
        weights = [0.0] * (len(self.vocabulary) + 1)
        for known, (number, count) in self.vocabulary.items():
            weights[number] = log(1 + self.count / count) * (SLOT if known.startswith("slot") else 1.0)
        return weights

    @cached_property
    def count(self) -> int:
        """How many examples there are."""
        return int(self.rows("SELECT count(*) FROM examples")[0][0])

    def wordings(self, text: str) -> frozenset[int]:
        """Ids of the wordings that ask this in the same terms. `text` may have slots, such as `{file}`."""
        known = [self.vocabulary.get(term, (0, 0))[0] for term in dict.fromkeys(terms(text))]
        return self._wordings.get(tuple(known), frozenset())

    @cached_property
    def _wordings(self) -> dict[tuple[int, ...], frozenset[int]]:
        found: dict[tuple[int, ...], set[int]] = {}
        for number, wordings in self.rows("SELECT id, wordings FROM examples"):
            for place, one in enumerate(split_wordings(wordings)):
                found.setdefault(tuple(one), set()).add(WORDINGS * number + place)
        return {one: frozenset(numbers) for one, numbers in found.items()}


def _slips(word: str) -> set[str]:
    """Words that are one slip of the keyboard away: one letter more, less or different, or two swapped."""
    halves = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    near = {left + right[1:] for left, right in halves if right}
    near |= {left + right[1] + right[0] + right[2:] for left, right in halves if len(right) > 1}
    near |= {left + letter + right for left, right in halves for letter in _LETTERS}
    return near | {left + letter + right[1:] for left, right in halves if right for letter in _LETTERS}


def pack_ids(numbers: Iterable[int]) -> bytes:
    """Ids in the file's format: two bytes each, little-endian."""
    packed = array("H", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_ids(packed: bytes) -> array[int]:
    """The inverse of `pack_ids`."""
    numbers = array("H", packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def split_wordings(packed: bytes) -> list[list[int]]:
    """The ids of the terms of each wording of an example."""
    parts: list[list[int]] = [[]]
    for number in unpack_ids(packed):
        if number:
            parts[-1].append(number)
        else:
            parts.append([])
    return parts
