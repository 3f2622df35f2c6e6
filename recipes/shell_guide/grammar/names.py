"""Names as people give them to files, folders, hosts and branches.

A model that has seen few names learns few names. Most of these are built from a word list in the styles that people
use, some have no meaning at all, so that copying is the only way to get them right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recipes.shell_guide.grammar.values import WORDS

_WORDS = tuple(WORDS["names"].split())
_CONSONANTS, _VOWELS = list("bcdfghjklmnprstvwz"), list("aeiou")
_LETTERS = list("abcdefghijklmnopqrstuvwxyz")
_DIGITS = list("0123456789")
_CAMERA = ("IMG", "DSC", "VID", "scan", "q", "part", "page", "DOC")
_MARKS = ("old", "new", "final", "v2", "v3", "copy", "bak", "draft", "dev", "prod", "test", "tmp", "orig", "2")


def pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def word(rng: np.random.Generator) -> str:
    """A word: mostly an English one, else syllables without a meaning, else letters."""
    draw = rng.random()
    if draw < 0.65:
        return pick(rng, _WORDS)
    if draw < 0.9:
        syllables = "".join(pick(rng, _CONSONANTS) + pick(rng, _VOWELS) for _ in range(int(rng.integers(2, 4))))
        return syllables + pick(rng, ("", "", "n", "r", "s", "x", "l"))
    return "".join(pick(rng, _LETTERS) for _ in range(int(rng.integers(2, 6))))


def digits(rng: np.random.Generator, least: int = 1, most: int = 4) -> str:
    """A run of digits that does not begin with 0."""
    number = "".join(pick(rng, _DIGITS) for _ in range(int(rng.integers(least, most + 1))))
    return number if number[0] != "0" else pick(rng, _DIGITS[1:]) + number[1:]


def day(rng: np.random.Generator) -> tuple[int, int, int]:
    """Year, month and day of this century's first quarter."""
    return int(rng.integers(2005, 2028)), int(rng.integers(1, 13)), int(rng.integers(1, 29))


def stem(rng: np.random.Generator, *, spaces: float = 0.04) -> str:
    """The name of a file without its ending. `spaces`: the share of names with a space."""
    first, second = word(rng), word(rng)
    draw = rng.random()
    if draw < spaces:
        return pick(
            rng, (f"{first} {second}", f"{first.title()} {digits(rng, 1, 2)}", f"{first.title()} {second.title()}")
        )
    if draw < 0.42:
        return first
    if draw < 0.62:
        return f"{first}{pick(rng, '_-')}{second}"
    if draw < 0.70:
        return f"{first}{pick(rng, ('', '_', '-'))}{digits(rng)}"
    if draw < 0.79:
        return f"{first}{pick(rng, '_-')}{pick(rng, _MARKS)}"
    if draw < 0.84:
        year, month, date = day(rng)
        dates = (f"{year}", f"{year}-{month:02}", f"{year}-{month:02}-{date:02}", f"{year}{month:02}{date:02}")
        return f"{first}{pick(rng, '_-')}{pick(rng, dates)}"
    if draw < 0.88:
        return pick(rng, _CAMERA) + pick(rng, ("_", "-", "")) + digits(rng)
    if draw < 0.92:
        return first + second.title()
    if draw < 0.95:
        return f"{first}.{pick(rng, _MARKS)}"
    if draw < 0.98:
        return pick(rng, (first.upper(), first.title()))
    return f"{first}_{second}{pick(rng, '_-')}{pick(rng, _MARKS)}{digits(rng, 1, 1)}"


def identifier(rng: np.random.Generator, marks: str = "-_") -> str:
    """A name without spaces and dots: of a service, a package, a branch, a table."""
    first, second = word(rng), word(rng)
    draw = rng.random()
    if draw < 0.5 or not marks:
        return first
    if draw < 0.8:
        return first + pick(rng, marks) + second
    return first + pick(rng, ("", marks[0])) + digits(rng, 1, 2)


def address(rng: np.random.Generator) -> str:
    """An IPv4 address, most of them private or set aside for documents."""
    first = pick(rng, ("10", "172.16", "192.168", "192.0.2", "198.51.100", "203.0.113", digits(rng, 2, 2)))
    parts = first.split(".")
    return ".".join([*parts, *(str(int(rng.integers(1, 255))) for _ in range(4 - len(parts)))])


def domain(rng: np.random.Generator) -> str:
    """A host name with a dot."""
    ending = pick(rng, ("com", "org", "net", "io", "dev", "local", "lan", "de", "co.uk", "internal", "example"))
    sub = pick(rng, ("", "", "", "www.", "api.", "git.", "db.", f"{word(rng)}."))
    return f"{sub}{identifier(rng, '-')}.{ending}"
