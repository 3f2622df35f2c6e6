"""Maps a question to the terms of the index: stems, one word for several with the same meaning, kinds of names.

A question and a wording of the index are normalised in the same way: `Unpack photos.tar.gz` and `extract
{archive.tar.gz}` are both `extract slotfile dottargz`. A term has only letters and digits.
"""

from __future__ import annotations

import re
from functools import lru_cache

from models.guide.synonyms import NUMBERS, PHRASES, SAME, STOP_WORDS

READ_CHARACTERS = 1_000
"""How much of a question's beginning is read. A person may paste a whole file after it."""

_SLOT = re.compile(r"\{([a-z0-9_]+)((?:\.[a-z0-9]+)*)\}")
_QUOTED = re.compile(r"(?<!\w)(?:\"[^\"\n]+\"|'[^'\n]+'(?!\w))")
_CODE = re.compile(r"`([^`\n]+)`")
_URL = re.compile(r"\b(?:https?|ftp|ssh|git|s3)://[^\s,;\"'<>]+|\bwww\.[^\s,;\"'<>]+", re.I)
_LOGIN = re.compile(r"\b[\w.+-]+@[\w.-]+\w(?::\S*)?")
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?::\d+)?\b")
_HOST = re.compile(
    r"\b(?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|io|dev|local|lan|example|test|internal)\b(?::\d+)?", re.I
)
_FILE = re.compile(
    r"(?<![\w.])(?P<whole>(?:~?/|\.{1,2}/)[\w./+*@%,-]*|[\w.+@%,*-]*/[\w./+@%,*-]+|[\w+@%,*-]*(?:\.[A-Za-z]\w{0,7}){1,2}\b|[\w.+-]+/(?=\s|$))"
)
_ENDING = re.compile(r"((?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,2})$")
_BARE_ENDING = re.compile(r"\*?(?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,2}")
_ARCHIVE = re.compile(r"tar\.(?:gz|xz|bz2|zst|lz4?|Z)", re.I)
_NUMBER = re.compile(r"(?<![A-Za-z])\d+(?:[.,:]\d+)*")
_TYPED = re.compile(r"[\w][\w.+-]*[\w+]|\w")
_WORD = re.compile(r"[a-z]+[a-z0-9]*|\d+[a-z]+")

SLOT_KINDS = {
    **dict.fromkeys(("file", "script", "archive", "input", "output"), "slotfile"),
    **dict.fromkeys(("directory", "source", "destination"), "slotpath"),
    **dict.fromkeys(("ip", "host"), "slothost"),
    **dict.fromkeys(("number", "pid", "port"), "slotnumber"),
    "url": "sloturl",
}
"""Slots by what their values look like; the values of all others are names, like any unknown word."""
NAME = "slotname"


def terms(text: str) -> list[str]:
    """The terms of a question, a task or a wording with slots, in their order; each may come more than once.

    >>> terms("How do I unpack photos.tar.gz?")
    ['slotfile', 'dottargz', 'dottar', 'extract']
    """
    text = text[:READ_CHARACTERS]
    found: list[str] = []

    def take(pattern: re.Pattern[str], kind: str, text: str) -> str:
        def swap(_: re.Match[str]) -> str:
            found.append(kind)
            return " "

        return pattern.sub(swap, text)

    def slot(match: re.Match[str]) -> str:
        found.append(SLOT_KINDS.get(match[1], NAME))
        found.extend(endings(match[2]))
        return " "

    def file(match: re.Match[str]) -> str:
        whole = match["whole"]
        if not re.search(r"[A-Za-z*~]", whole):
            return " "
        if _BARE_ENDING.fullmatch(whole):
            found.extend(endings(whole))
            return " "
        if _ARCHIVE.fullmatch(whole):
            found.extend(endings("." + whole))
            return " "
        ending = _ENDING.search(whole)
        if ending and whole.lower() in ("e.g", "i.e"):
            return " "
        found.append("slotfile" if ending else "slotpath")
        found.extend(endings(ending[1]) if ending else ())
        return " "

    text = _SLOT.sub(slot, text)
    text = _CODE.sub(r" \1 ", text)
    text = take(_QUOTED, NAME, text)
    text = take(_URL, "sloturl", text)
    text = take(_LOGIN, "slothost", text)
    text = take(_ADDRESS, "slothost", text)
    text = take(_HOST, "slothost", text)
    text = _FILE.sub(file, text)
    text = take(_NUMBER, "slotnumber", text)
    return found + words(text)


def endings(ending: str) -> list[str]:
    """Terms of a file's ending: `.tar.gz` -> `dottargz`, `dottar`."""
    parts = ending.lower().lstrip("*").strip(".").split(".") if ending.strip("*.") else []
    parts = [
        "jpg" if part == "jpeg" else "html" if part == "htm" else "yaml" if part == "yml" else part for part in parts
    ]
    whole = "dot" + "".join(parts)
    return [whole, "dot" + parts[0]] if len(parts) > 1 else [whole] if parts else []


def words(text: str) -> list[str]:
    """Terms of plain words: phrases of one meaning are joined, stop words left out, the others stemmed."""
    text = text.lower().replace("’", "'")
    for pattern, replacement in PHRASES:
        text = pattern.sub(replacement, text)
    text = text.replace("'", "")
    return ["slotnumber" if word in NUMBERS else term(word) for word in _WORD.findall(text) if word not in STOP_WORDS]


def typed(text: str) -> list[str]:
    """The words of a question as typed, in lower case, if they may be programs: `g++`, `7z`."""
    return _TYPED.findall(text[:READ_CHARACTERS].lower())


@lru_cache(maxsize=10_000)
def name_terms(name: str) -> tuple[str, ...]:
    """The terms of a page's name: `git rev-list` is `namegit`, `namerevlist`, and the plain words `git`, `rev`.

    Words that stand for others are left out, as `head` does for `first`: a question about the first line need not mean
    the page `head`.
    """
    whole = ["name" + letters for part in name.lower().split() if (letters := re.sub(r"[^a-z0-9]", "", part))]
    plain = [stem(word) for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in STOP_WORDS]
    return tuple(dict.fromkeys([*whole, *(word for word in plain if word not in _CANON)]))


@lru_cache(maxsize=50_000)
def term(word: str) -> str:
    """The term of one lower-case word: its stem, or the first word with the same meaning."""
    stemmed = stem(word)
    return _CANON.get(word) or _CANON.get(stemmed) or stemmed


def stem(word: str) -> str:
    """Cut the endings of English: `renaming`, `renames` and `renamed` become `renam`.

    It is light on purpose: two words that differ in more than an ending stay two.
    """
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending, least, instead in _RULES:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: len(word) - len(ending)] + instead
            if ending in ("ing", "ed") and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "sl":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


_RULES = (
    ("sses", 1, "ss"),
    ("ches", 2, "ch"),
    ("shes", 2, "sh"),
    ("xes", 2, "x"),
    ("ies", 2, "y"),
    ("ied", 2, "y"),
    ("ively", 2, "ive"),
    ("ally", 3, "al"),
    ("ing", 3, ""),
    ("ed", 3, ""),
    ("ss", 1, "ss"),
    ("us", 1, "us"),
    ("is", 1, "is"),
    ("s", 3, ""),
    ("ly", 4, ""),
)
"""(ending, fewest letters before it, replacement); the first match counts."""

_CANON = {form: words[0] for words in SAME for word in words for form in {word, stem(word)}}
