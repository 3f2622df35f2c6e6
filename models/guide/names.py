"""Replaces names in a question by marks, and marks in an answer by names. A mark is one token and cannot be misspelt.

    asked:   rename report_final2.docx to q3-summary.docx
    read:    rename report_final2①.docx to q3-summary②.docx
    said:    mv ①.docx ②.docx
    shown:   mv report_final2.docx q3-summary.docx

A small model easily copies a word of one token, but gets lost in names of ten. The text that it reads and writes has
marks (`MARKS`, a token each); the text that a person reads and that is stored has names.

Names are paths, names of files without their ending, of hosts and of branches, addresses, and numbers from three digits
on; with pages to read, also what a question calls the name of something (`models/guide/mentions.py`: "user ofelia").
The marks of a conversation are reused in turn: the ninth name takes the mark of the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

MARKS = tuple(map(chr, range(0xFDD1, 0xFDD9)))
"""Marks as characters. Unicode assigns these to nothing, so no text contains them."""

_MARK = re.compile(f"([{MARKS[0]}-{MARKS[-1]}])")
_WORD = re.compile(r"[^\s\"'`,;()<>|&=*?!$\[\]{}\\]+")
_ENDING = re.compile(r"(?:\.(?:7z|[A-Za-z][A-Za-z0-9]{0,4})){1,2}$")
_LIKE_A_NAME = re.compile(r"\d|_|/|\w[.@]\w|[a-z][A-Z]")
_NUMBER = re.compile(r"\d{1,2}(?::\d\d){0,2}")
"""A small number or a time of day, which a command may write differently."""
_NO_BEGINNING = ".-+%#~^"
"""Beginnings of words that are endings, options or signs; `~/notes` and `./run` are names."""
NO_NAMES = frozenset({
    "7z", "7zip", "aes256", "amd64", "and/or", "arm64", "base32", "base64", "bzip2", "ed25519", "ext2", "ext3", "ext4",
    "h264", "h265", "http/1", "http/2", "http2", "i/o", "i386", "i686", "ipv4", "ipv6", "java8", "k8s", "macos", "md5",
    "mp3", "mp4", "mysql", "n/a", "neo4j", "oauth2", "p7zip", "postgresql", "python2", "python3", "s3", "sha1",
    "sha224", "sha256", "sha384", "sha512", "sqlite3", "tar.bz2", "tar.gz", "tar.lz4", "tar.xz", "tar.zst", "tcp/ip",
    "tls1", "tls1.2", "tls1.3", "utf-16", "utf-8", "utf16", "utf8", "w/", "w/o", "x264", "x265", "x509", "x86",
    "x86_64",
})  # fmt: skip
"""Words that look like names but are not."""

Spans = list[tuple[int, int]]
"""Beginnings and ends of words in a question, from first to last."""


def names(question: str) -> Spans:
    """The words of a question that look like names."""
    found = []
    for word in _WORD.finditer(question):
        text, start = word.group().rstrip(".:"), word.start()
        if not text or (text[0] in _NO_BEGINNING and "/" not in text[1:3]) or text.lower() in NO_NAMES:
            continue
        ending = _ENDING.search(text)
        stem = (text[: ending.start()] if ending else text).rstrip("/")
        if len(stem) > 1 and not _NUMBER.fullmatch(stem) and (ending or _LIKE_A_NAME.search(stem)):
            found.append((start, start + len(stem)))
    return found


class Marks:
    """The names of a conversation up to a question, and the mark of each.

    `called`: finds what else in a question gets a mark, besides words that look like names.
    """

    def __init__(self, questions: Iterable[str] = (), called: Callable[[str], Spans] = lambda question: []) -> None:
        self._called = called
        self._of_name: dict[str, str] = {}
        self._count = 0
        for question in questions:
            self.read(question)

    @classmethod
    def of(cls, names_of: Mapping[str, str]) -> Marks:
        marks = cls()
        marks._of_name = {name: mark for mark, name in names_of.items()}
        return marks

    def read(self, question: str) -> str:
        """The conversation's next question, with a mark after each name."""
        question = _MARK.sub("", question)
        out, at = [], 0
        for start, end in self.found(question):
            name = question[start:end]
            if name not in self._of_name:
                mark = MARKS[self._count % len(MARKS)]
                self._count += 1
                self._of_name = {other: its for other, its in self._of_name.items() if its != mark} | {name: mark}
            out += [question[at:end], self._of_name[name]]
            at = end
        return "".join([*out, question[at:]])

    def found(self, question: str) -> Spans:
        """The names that get a mark."""
        found = names(question)
        apart = [
            (start, end)
            for start, end in self._called(question)
            if all(end <= first or last <= start for first, last in found)
        ]
        return sorted(found + apart)

    def said(self, answer: str) -> str:
        """An answer with marks in place of names. Part of a word is not a name, and the longer of two names counts."""
        if not self._of_name:
            return answer
        longest_first = sorted(self._of_name, key=len, reverse=True)
        pattern = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first)
        return re.sub(pattern, lambda found: self._of_name[found.group()], answer)

    def shown(self, said: str) -> str:
        """An answer with names in place of marks. A mark without a name is left out."""
        names_of = {mark: name for name, mark in self._of_name.items()}
        return _MARK.sub(lambda found: names_of.get(found.group(), ""), said)


def marked(messages: Iterable[tuple[str, str]], marks: Marks | None = None) -> list[tuple[str, str]]:
    """A conversation, (role, text), as a model reads and writes it.

    `marks`: of its names, before its first question.
    """
    marks = marks or Marks()
    roles: dict[str, Callable[[str], str]] = {"user": marks.read, "assistant": marks.said}
    return [(role, roles[role](text) if role in roles else text) for role, text in messages]


class NoMarks(Marks):
    """For a model that reads names as they are."""

    def read(self, question: str) -> str:
        """The question as it is."""
        return question


def names_said(said: str, text: str) -> dict[str, str] | None:
    """The names that turn what was said into `text`, by their marks (empty for a mark without a name), or None.

    With these, the tokens of a stored answer can be read without its conversation.
    """
    parts = _MARK.split(said)
    if len(parts) == 1:
        return {} if said == text else None
    met: set[str] = set()
    pattern = []
    for part in parts:
        if part not in MARKS:
            pattern.append(re.escape(part))
            continue
        group = f"mark{MARKS.index(part)}"
        pattern.append(f"(?P={group})" if part in met else rf"(?P<{group}>\S*?)")
        met.add(part)
    found = re.fullmatch("".join(pattern), text)
    return None if found is None else {mark: found[f"mark{at}"] for at, mark in enumerate(MARKS) if mark in parts}
