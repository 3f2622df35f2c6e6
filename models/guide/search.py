"""Find the examples that fit a question: first by index and vectors, then by a closer look at each candidate.

The full-text index gives candidates by BM25 over the rarer terms of the question, and the vectors (`vectors.py`) those
that mean the same in other words. Each candidate is scored by its nearest wording: how much of the question the wording
covers, and how much of the wording the question covers, both weighted by how rare a term is. The score also counts how
near its vector is, a program that the question names, the page's popularity and its platform.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import log

import numpy as np

from models.guide.assignment import Filled, fill
from models.guide.outline import unfilled
from models.guide.pages import OWN, Example, Page, Pages, split_wordings, unpack_ids
from models.guide.synonyms import PLATFORM_WORDS
from models.guide.vectors import WORDINGS, nameless
from models.guide.words import NAME, READ_CHARACTERS, name_terms, terms, typed

READ_EXAMPLES = 3_000
"""How many examples the index may read for one question, by the counts of its terms."""
PAIRED = 4
"""Most terms that are too frequent for that. They count if two of them occur together, or one with a rarer term."""
CANDIDATES, NEAREST = 60, 40
"""Examples that get the closer look: by their terms, and by their vectors."""
NEAR, CLOSE = 2.0, 0.85
"""Weight of the cosine of a question's vector and a wording's, and the cosine that adds nothing: what is below lowers
the score, so that a question about something else finds nothing."""
SAID, ALIKE = 0.75, 0.5
"""Weights of the share of the question that a wording covers, and of the share of the wording that the question
covers."""
IN_NAME, IN_TERMS = 0.7, 0.3
"""Weight of a term that is in the page's name, or in the command and description, but not in the wording."""
NAMED, LEARNT, USE, OWN_EXAMPLE, ELSEWHERE = 0.25, 0.6, 0.08, 0.1, 0.15
"""Added for a named program, for one that such questions are about, for a page in many languages, and for an example of
Outrider's own; subtracted for each preceding platform."""
LEAST = 0.3
"""Score below which an example has nothing to do with the question."""
TERMS = 40
"""Most different terms of a question that are searched."""
EARLIER = 0.5
"""Weight of a term of the previous question."""
UNKNOWN = 2.0
"""Weight of a word that is nowhere in the index."""
BY = 0.9
"""Confidence that a program in backticks, or after "with" or "using", is meant."""
SAME_PAGE = 2
"""Most examples of one page, unless the question names its program."""
VERB, VERB_WITHIN = 0.05, 3
"""Added if a wording begins with what the question begins with, give or take this many terms."""
FILLED = 16
"""How many of the best examples are filled with what the question names."""
PLACED, EMPTY = 0.60, 0.12
"""Added if everything that the question names finds a slot in the example; subtracted for each slot that stays
empty."""

_CODE = re.compile(r"`\s*(?:sudo )?([\w.+-]+)[^`]*`")
_BY = re.compile(r"\b(?:with|using|use|via|the)\s+([a-z][\w.+-]*)(?:\s+command)?\b")
_PLATFORMS = {
    "linux": ("linux", "common", OWN, "osx", "freebsd", "openbsd", "netbsd", "sunos", "android", "windows"),
    "osx": ("osx", "common", OWN, "linux", "freebsd", "openbsd", "netbsd", "sunos", "android", "windows"),
    "windows": ("windows", "common", OWN, "linux", "dos", "osx"),
}
_OTHERS = ("common", OWN, "linux", "osx", "sunos", "android", "windows")
_NEAR = 3
"""How many of a device's first platforms are as good as its own."""
_ELSEWHERE = re.compile(
    rf"\b(?:on|for|in|under|with)\s+(?:an?\s+|my\s+|the\s+)?({'|'.join(PLATFORM_WORDS)})\b"
    r"|\b(mac ?os|os ?x|powershell)\b",
    re.I,
)


@dataclass(frozen=True)
class Hit:
    """An example that may answer the question."""

    page: Page
    example: Example
    score: float
    own: bool = False
    """Whether the example is Outrider's own. It is then not on the page, which is about the same program."""
    filled: Example | None = None
    """The example filled with what the question names, or None if it names nothing."""

    @property
    def shown(self) -> Example:
        """The example as the target reads it."""
        return self.filled or self.example


def platforms_of(system: str) -> tuple[str, ...]:
    """The platforms of the pages that help on a system, best first.

    `system`: as in `sys.platform` (`linux`, `darwin`, `win32`, `freebsd14`) or as a page's platform.
    """
    system = {"darwin": "osx", "win32": "windows", "cygwin": "linux"}.get(system, system)
    name = re.sub(r"\d+$", "", system)
    return _PLATFORMS.get(name) or (name, *(platform for platform in _OTHERS if platform != name))


def search(
    pages: Pages,
    question: str,
    platforms: Sequence[str],
    limit: int = 3,
    without: Collection[int] = frozenset(),
    *,
    before: str = "",
) -> list[Hit]:
    """The examples that fit a question best, best first; empty if none fits.

    `platforms`: those that may be shown, best first. One that the question names ("on macOS") comes before them.
    `without`: ids of wordings to ignore (`Pages.wordings`): training questions are in the index, and must not always
    find themselves. `before`: an earlier question that this one continues; its terms count half.

    Raises `DrafterCorrupt`.
    """
    query = _Query(pages, question[:READ_CHARACTERS], before)
    if not query.counts:
        return []
    distance = query.distances(platforms)
    best: list[tuple[float, int]] = []
    rows = {row[0]: row for row in _candidates(pages, query)}
    near = _similarities(pages, query, without)
    if near is not None:
        rows |= {row[0]: row for row in _nearest(pages, near)}
    for number, platform, name, languages, own, wordings, command_terms, page_terms, page in rows.values():
        if platform not in distance:
            continue
        score = query.score(number, name, wordings, command_terms, page_terms, without)
        if score is None:
            continue
        score += USE * log(1 + languages) / 4 + OWN_EXAMPLE * own + LEARNT * query.learnt.get(page, 0.0)
        score -= ELSEWHERE * distance[platform]
        if near is not None:
            score += NEAR * (float(near[number - 1]) - CLOSE)
        best.append((score, number))
    best.sort(key=lambda one: (-one[0], one[1]))
    if not query.things and not query.before:
        return _distinct(pages, query, best, limit, {})
    filled = {number: query.filled(number) for _, number in best[:FILLED]}
    best = [(score + _worth(filled.get(number)), number) for score, number in best]
    best.sort(key=lambda one: (-one[0], one[1]))
    return _distinct(pages, query, best, limit, filled)


def _worth(filled: Filled | None) -> float:
    """What slots for everything that the question names add to an example's score."""
    return 0.0 if filled is None else PLACED * filled.used - EMPTY * min(filled.empty, 3)


def _distinct(
    pages: Pages, query: _Query, best: Iterable[tuple[float, int]], limit: int, filled: Mapping[int, Filled]
) -> list[Hit]:
    """The best hits, without duplicate commands and not all from one page."""
    hits: list[Hit] = []
    commands: set[str] = set()
    for score, number in best:
        if score < LEAST or len(hits) >= limit:
            break
        ((name, platform, task, command, own),) = pages.rows(
            "SELECT name, platform, task, command, own FROM examples JOIN pages ON pages.id = page "
            "WHERE examples.id = ?",
            (number,),
        )
        shown = sum(hit.page.name == name for hit in hits)
        put = filled.get(number)
        typed = unfilled(command) if put is None else put.command
        if typed in commands or (shown >= SAME_PAGE and name.split()[0] not in query.named):
            continue
        page = pages.page(name, platform)
        if page is not None:
            commands.add(typed)
            asked = None if put is None else Example(put.task, typed)
            hits.append(Hit(page, Example.read(task, command), round(score, 4), bool(own), asked))
    return hits


_Row = tuple[int, str, str, int, int, bytes, bytes, bytes, int]
_ROWS = "SELECT e.id, p.platform, p.name, p.languages, e.own, e.wordings, e.terms, p.terms, p.id FROM "


def _similarities(pages: Pages, query: _Query, without: Collection[int]) -> np.ndarray | None:
    """How near each example's nearest wording is, float32 [examples], or None without vectors."""
    vectors = pages.vectors
    if vectors is None:
        return None
    texts = (query.question, query.things), (query.earlier, query.before)
    asked, before = (nameless(text, things, vectors.words) for text, things in texts)
    return vectors.similarities(vectors.vector(asked, before), without)


def _nearest(pages: Pages, near: np.ndarray) -> list[_Row]:
    """The rows of the examples with the nearest vectors."""
    numbers = np.argpartition(-near, min(NEAREST, len(near) - 1))[:NEAREST] + 1
    chosen = ",".join(map(str, numbers.tolist()))  # Our own numbers.
    return pages.rows(f"{_ROWS} examples AS e JOIN pages AS p ON p.id = e.page WHERE e.id IN ({chosen})")


def _candidates(pages: Pages, query: _Query) -> list[_Row]:
    """The rows of examples that have the rarer terms of a question."""
    chosen = [f"name{program}" for program, share in query.named.items() if share >= 0.1 and program.isalnum()]
    frequent: list[str] = []
    read = 0
    for term, count in sorted(query.counts.items(), key=lambda one: one[1]):
        if read and read + count > READ_EXAMPLES:
            frequent.append(term)
        else:
            chosen.append(term)
            read += count
    frequent = frequent[:PAIRED]
    pairs = [*combinations(frequent, 2), *product(chosen[-PAIRED:], frequent)]
    match = " OR ".join([*chosen, *(f"({one} AND {other})" for one, other in pairs)])
    return pages.rows(
        _ROWS
        + "(SELECT rowid AS id FROM asked WHERE asked MATCH ? ORDER BY bm25(asked, 1.0, 2.0, 0.4) LIMIT ?) AS found "
        "JOIN examples AS e ON e.id = found.id JOIN pages AS p ON p.id = e.page",
        (match, CANDIDATES),
    )


class _Query:
    """A question in the terms of the index."""

    def __init__(self, pages: Pages, question: str, before: str) -> None:
        self.question, self.earlier = question, before[:READ_CHARACTERS]
        vocabulary, rarity = pages.vocabulary, pages.rarity
        asked = [pages.corrected(term) for term in list(dict.fromkeys(terms(question)))[:TERMS]]
        earlier = [pages.corrected(term) for term in list(dict.fromkeys(terms(before)))[:TERMS]]
        self.counts = {term: vocabulary[term][1] for term in [*earlier, *asked] if term in vocabulary}
        """Term -> how many examples have it."""
        self.weights: dict[int, float] = {}
        """Id of a term -> its weight."""
        for term in self.counts:
            number = vocabulary[term][0]
            self.weights[number] = rarity[number] * (1.0 if term in asked else EARLIER)
        if any(term not in vocabulary for term in asked) and NAME in vocabulary:  # Unknown, so it is a name.
            self.weights.setdefault(vocabulary[NAME][0], rarity[vocabulary[NAME][0]])
        unknown = sum(term not in vocabulary and not term.startswith(("slot", "dot")) for term in asked)
        self._all = sum(self.weights.values()) + UNKNOWN * unknown
        self._vocabulary, self._rarity = vocabulary, rarity
        plain = [term for term in asked if not term.startswith(("slot", "dot"))]
        self._verb = vocabulary[plain[0]][0] if plain and plain[0] in vocabulary else None
        self.named = _named(pages, question)
        self.learnt = self._links(pages)
        self.things = pages.named(question)
        self.before = pages.named(self.earlier) if before else []
        self._pages = pages
        said = _ELSEWHERE.search(question)
        self._platform = said and PLATFORM_WORDS[(said[1] or said[2]).lower().replace(" ", "")]

    def _links(self, pages: Pages) -> dict[int, float]:
        """Page -> how strongly the terms of the question point to it, 0 to 1."""
        found: dict[int, float] = {}
        if not self.weights:
            return found
        total = sum(self.weights.values())
        for number, packed in pages.rows(
            f"SELECT id, links FROM terms WHERE id IN ({','.join(map(str, self.weights))})"  # Our own numbers.
        ):
            pairs = iter(unpack_ids(packed))
            for page, share in zip(pairs, pairs):
                found[page] = found.get(page, 0.0) + self.weights[number] * share / 65535 / total
        return found

    def filled(self, number: int) -> Filled:
        """An example with what the question names."""
        ((task, command),) = self._pages.rows("SELECT task, command FROM examples WHERE id = ?", (number,))
        return fill(task, command, self.things, self.before)

    def distances(self, platforms: Sequence[str]) -> dict[str, int]:
        """Platform -> its distance from the wanted one: the device's own, or the one that is named."""
        found = {platform: max(0, place - _NEAR + 1) for place, platform in enumerate(platforms)}
        if self._platform is not None:
            found = {platform: far + (platform != "common") for platform, far in found.items()}
            found[self._platform] = 0
        return found

    def score(
        self, number: int, name: str, wordings: bytes, command_terms: bytes, page_terms: bytes, without: Collection[int]
    ) -> float | None:
        """How well an example fits; None if all of its wordings are left out."""
        weights = self.weights
        elsewhere: dict[int, float] = {}
        for plain in name_terms(name):
            number_of = self._vocabulary.get(plain, (0, 0))[0]
            if number_of in weights:
                elsewhere[number_of] = IN_NAME * weights[number_of]
        for packed in (command_terms, page_terms):
            for term in unpack_ids(packed):
                if term in weights and term not in elsewhere:
                    elsewhere[term] = IN_TERMS * weights[term]
        best = None
        for place, wording in enumerate(split_wordings(wordings)):
            if without and WORDINGS * number + place in without:
                continue
            said = length = 0.0
            aside = sum(elsewhere.values())
            for term in wording:
                weight = weights.get(term)
                if weight is None:
                    length += 0.6 * self._rarity[term]
                else:
                    said += weight
                    length += weight
                    aside -= elsewhere.get(term, 0.0)
            close = SAID * (said + aside) / self._all + ALIKE * (said / length if length else 0.0)
            if self._verb is not None and self._verb in wording[:VERB_WITHIN]:
                close += VERB
            if best is None or close > best:
                best = close
        if best is None:
            return None
        return best + NAMED * max(self.named.get(name.split()[0], 0.0), self.named.get(name, 0.0))


def _named(pages: Pages, question: str) -> dict[str, float]:
    """Programs and pages that the question names -> confidence, 0 to 1."""
    shares = pages.distinct_shares
    words = typed(question)
    named = {word: shares[word] for word in words if word in shares}
    said = _CODE.findall(question.lower()) + _BY.findall(question.lower())
    named |= {word: max(BY, shares[word]) for word in said if word in shares}
    pairs = [f"{one} {other}" for one, other in zip(words, words[1:])]
    return named | {pair: 1.0 for pair in pairs if pair in pages.names and pair.split()[0] in named}
