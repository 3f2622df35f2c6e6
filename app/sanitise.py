"""Makes text from a model safe to print: an answer must never control the terminal.

A model repeats whatever it was shown, and a terminal obeys escape sequences. These can write to the clipboard (OSC 52),
change the window's title, move the cursor over the prompt, or make the terminal type. So every complete ECMA-48
sequence is removed, in 7-bit and 8-bit form. Characters that hide or reorder text are removed too
(`app/invisible_text.py`). Newline and tab stay.

`Sanitiser.feed` takes a stream: the clean text of a prefix is a prefix of the clean text, wherever the chunks are cut.
"""

from __future__ import annotations

import copy
import re
from enum import Enum, auto

from app.invisible_text import INVISIBLE, JOINERS, joins, joins_alone, selects

MAX_STRING = 4096
"""Longest control string. One stray `ESC ]` without an end must not hide the rest of an answer."""

ESCAPE, BELL, CANCEL, SUBSTITUTE, STRING_TERMINATOR = "\x1b", "\x07", "\x18", "\x1a", "\x9c"
CSI, STRINGS = "\x9b", "\x90\x98\x9d\x9e\x9f"
"""8-bit introducers; the strings are DCS, SOS, OSC, PM and APC. In 7 bits: `ESC` and the letter 0x40 below."""

_HARMLESS = re.compile(
    f"[^\x00-\x08\x0b-\x1f\x7f-\x9f{INVISIBLE}]+"  # C0 without tab and newline, DEL, C1
)
_HIDDEN = re.compile(f"[\x7f-\x9f\ud800-\udfff{INVISIBLE}]")
"""Characters that JSON itself does not escape. Lone surrogates are bytes of file names that are no UTF-8."""
_INVISIBLE = re.compile(f"[{INVISIBLE}]")


class _State(Enum):
    TEXT = auto()
    ESCAPE = auto()
    CONTROL = auto()
    """Inside CSI: parameters, intermediates, one final character."""
    STRING = auto()
    STRING_ESCAPE = auto()
    """`ESC` inside a control string: its end if a backslash follows."""


class Sanitiser:
    """Removes everything except plain text from a stream of chunks, and keeps its state between them."""

    def __init__(self) -> None:
        self._state = _State.TEXT
        self._swallowed = 0
        self._last = ""
        """The last character of the clean text."""
        self._joiner = ""
        """A joiner that is held back until the next character shows whether it joins anything."""

    def copy(self) -> Sanitiser:
        """A second sanitiser with the same state, to try a continuation that may be taken back."""
        return copy.copy(self)

    def feed(self, chunk: str) -> str:
        """The printable part of `chunk`."""
        clean: list[str] = []
        at = 0
        while at < len(chunk):
            if self._state is _State.TEXT and (run := _HARMLESS.match(chunk, at)):
                if self._joiner and joins(self._last, run[0][0]):
                    clean.append(self._joiner)
                self._joiner, self._last = "", run[0][-1]
                clean.append(run[0])
                at = run.end()
            elif self._state is _State.TEXT and _INVISIBLE.match(chunk, at):
                clean.append(self._kept(chunk[at]))
                at += 1
            elif self._takes(chunk[at]):
                at += 1
        return "".join(clean)

    def _kept(self, char: str) -> str:
        """An invisible character if it has a meaning here, or else an empty string."""
        if char in JOINERS:
            if not joins_alone(self._last):
                self._joiner = self._joiner or char
                return ""
        elif self._joiner or not selects(char, self._last):
            return ""
        self._last = char
        return char

    def _takes(self, char: str) -> bool:
        """Take one character of a sequence. Returns False if it ends the sequence without belonging to it."""
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
        """Set the state for what a control character begins outside any sequence."""
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


def sanitise_paste(text: str) -> str:
    """The printable part of a paste, whose newlines a terminal may send as carriage returns."""
    return sanitise(text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """A text from outside, such as a title, as one line that is safe to draw."""
    return " ".join(sanitise(text).split())


def escape_json(encoded: str) -> str:
    """Escape in JSON, as `\\u…`, all characters that a terminal obeys or hides. The JSON value stays equal."""
    return _HIDDEN.sub(_escape, encoded)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
