"""Reads a JSON list one element at a time, so that a file may be larger than memory.

A file may be hostile. So its size, the size of each element and their number are bounded, whatever the file claims.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from app.archive.errors import KINDS, Unreadable

CHUNK = 1 << 20
LARGEST_ELEMENT = 32 << 20
"""Most characters of one conversation; a year-long one has a few million."""
MOST_VALUES = 3_000_000
"""Most commas and brackets in one conversation. Each may mean a value, which takes up to 72 bytes of memory. In real
conversations they are about one in twenty characters."""
MOST = 50_000
"""Most conversations in one file."""
_SPACE = re.compile(r"[ \t\n\r]*")


def elements(read: Callable[[int], bytes], name: str) -> Iterator[Any]:
    """Yields the elements of the list in a file, or its single value if it is not a list.

    `read` returns as many bytes as asked, fewer only at the end. Raises `Unreadable`, which names the file by `name`,
    after it has yielded the elements before the fault.
    """
    text = _Text(read, name)
    text.skip_space()
    if not text.startswith("["):
        yield text.value()
        text.end()
        return
    text.take("[")
    for number in range(MOST + 1):
        text.skip_space()
        if number == 0 and text.startswith("]"):
            break
        if number == MOST:
            raise Unreadable(f"{name} holds more than {MOST:,} conversations; import it in parts.")
        yield text.value()
        text.skip_space()
        if text.startswith("]"):
            break
        text.take(",")
    text.take("]")
    text.end()


class _Text:
    """The text of a file from the current position on."""

    def __init__(self, read: Callable[[int], bytes], name: str) -> None:
        self._read = read
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._whole = False
        """Whether the whole file has been read."""

    def value(self) -> Any:
        """The next value. If its text may be incomplete, half as much more is read before the next attempt."""
        while True:
            problem: Exception | None = None
            try:
                found, end = self._decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                problem = error
            else:
                if self._whole or end < len(self._text):  # A number at the end may continue with more digits.
                    self._at = end
                    return found
            have = len(self._text) - self._at
            if have > LARGEST_ELEMENT:
                raise Unreadable(
                    f"{self._name} holds a conversation that is larger than {LARGEST_ELEMENT >> 20} MiB, "
                    "more than can be read."
                )
            if self._whole or isinstance(problem, RecursionError):
                raise self._not_json(problem)
            if sum(self._text.count(mark, self._at) for mark in ",[{") > MOST_VALUES:
                raise Unreadable(f"{self._name} has a conversation with too many parts.")
            self._more(max(CHUNK, have // 2))

    def skip_space(self) -> None:
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or self._whole:
                return
            self._more(CHUNK)

    def startswith(self, character: str) -> bool:
        return self._text.startswith(character, self._at)

    def take(self, character: str) -> None:
        if not self.startswith(character):
            raise self._not_json(f"{character!r} is missing" if self._at < len(self._text) else "it is cut off")
        self._at += 1

    def end(self) -> None:
        self.skip_space()
        if self._at < len(self._text):
            raise self._not_json("there is data after its end")

    def _more(self, size: int) -> None:
        data = self._read(size)
        self._whole = not data
        try:
            read = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise self._not_json("it is not UTF-8 text") from None
        self._text, self._at = self._text[self._at :] + read, 0

    def _not_json(self, problem: object) -> Unreadable:
        return Unreadable(f"{self._name} cannot be imported ({problem}). Outrider reads: {KINDS}.")
