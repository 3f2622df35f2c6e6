"""Makes text from a model safe to print: a terminal must never take orders from an answer.

A model repeats whatever it was shown, and terminals obey what they are told to print: an escape sequence can write the
clipboard (OSC 52), retitle the window, move the cursor over the prompt or ask the terminal to type its answer back. So
every sequence of ECMA-48 goes whole, in its 7-bit and its 8-bit form, and so do the Unicode controls that make text
read in another order than it runs (CVE-2021-42574). Newline and tab stay.

`Sanitiser.feed` is a stream: the clean text of a prefix is a prefix of the clean text, wherever the chunks are cut.
"""

from __future__ import annotations

import copy
import re
from enum import Enum, auto

MAX_STRING = 4096
"""Characters after which an unterminated control string ends: one stray `ESC ]` must not hide the rest of an answer."""

ESCAPE, BELL, CANCEL, SUBSTITUTE, STRING_TERMINATOR = "\x1b", "\x07", "\x18", "\x1a", "\x9c"
CSI, STRINGS = "\x9b", "\x90\x98\x9d\x9e\x9f"
"""8-bit introducers; the strings are DCS, SOS, OSC, PM and APC. In 7 bits: `ESC` and the letter 0x40 below."""

_HARMLESS = re.compile(
    "[^"
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u202a-\u202e\u2066-\u2069"  # bidirectional embeddings, overrides and isolates
    "]+"
)


class _State(Enum):
    TEXT = auto()
    ESCAPE = auto()
    CONTROL = auto()
    """Inside CSI: parameters, intermediates, one final character."""
    STRING = auto()
    STRING_ESCAPE = auto()
    """`ESC` inside a control string: its end if a backslash follows."""


class Sanitiser:
    """Removes what is not plain text from a stream of chunks; keeps its place between them."""

    def __init__(self) -> None:
        self._state = _State.TEXT
        self._swallowed = 0

    def copy(self) -> Sanitiser:
        """A second sanitiser at the same place of the stream, to try a continuation that may be withdrawn."""
        return copy.copy(self)

    def feed(self, chunk: str) -> str:
        """The printable part of `chunk`."""
        clean: list[str] = []
        at = 0
        while at < len(chunk):
            if self._state is _State.TEXT and (run := _HARMLESS.match(chunk, at)):
                clean.append(run.group())
                at = run.end()
            elif self._takes(chunk[at]):
                at += 1
        return "".join(clean)

    def _takes(self, char: str) -> bool:
        """Swallows `char` and moves on; False where it ends a sequence without belonging to it."""
        match self._state:
            case _State.TEXT:
                self._introduce(char)
            case _State.ESCAPE:
                if "\x40" <= char <= "\x5f":
                    self._introduce(chr(ord(char) + 0x40))
                elif char == ESCAPE or " " <= char <= "/":  # Intermediates: `ESC ( B` has one.
                    pass
                else:
                    self._state = _State.TEXT
                    return "0" <= char <= "~"
            case _State.CONTROL:
                if not " " <= char <= "?":
                    self._state = _State.TEXT
                    return "@" <= char <= "~"
            case _State.STRING:
                self._swallowed += 1
                if char == ESCAPE:
                    self._state = _State.STRING_ESCAPE
                elif char in (BELL, STRING_TERMINATOR, CANCEL, SUBSTITUTE) or self._swallowed >= MAX_STRING:
                    self._state = _State.TEXT
            case _State.STRING_ESCAPE:
                self._state = _State.TEXT if char == "\\" else _State.ESCAPE
                return char == "\\"
        return True

    def _introduce(self, char: str) -> None:
        """A control character outside any sequence: what begins here?"""
        self._swallowed = 0
        if char == ESCAPE:
            self._state = _State.ESCAPE
        elif char == CSI:
            self._state = _State.CONTROL
        elif char in STRINGS:
            self._state = _State.STRING
        else:
            self._state = _State.TEXT


def sanitise(text: str) -> str:
    """The printable part of a whole text."""
    return Sanitiser().feed(text)
