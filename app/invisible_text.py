"""Characters that hide or reorder text, and the places where a few of them belong to words and emoji.

A terminal draws nothing for them, or draws the surrounding text in another order (CVE-2021-42574). So a person reads
something other than what a program gets. They are all default-ignorable characters of Unicode, direction marks, tags
and interlinear annotations. Only these are kept:

- joiners (U+200C, U+200D) between two letters of a script that joins them, after a virama, and between emoji;
- one variation selector after the character whose form it selects, unless that is an ASCII letter.
"""

from __future__ import annotations

import unicodedata

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The characters, as ranges for a set of a regular expression: soft hyphen, fillers, zero widths, directions, …"""

JOINERS = "\u200c\u200d"
_KEYCAPS = "0123456789#*©®"
"""Characters below U+1000 that have a form as an emoji."""
_VIRAMA = 9
"""Combining class of the signs that bind a consonant to the next one."""
_JOINING = (
    (0x0600, 0x08FF),  # Arabic, Syriac, N'Ko, Mandaic
    (0x0900, 0x0DFF),  # Devanagari to Sinhala
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x18AF),  # Khmer, Mongolian
    (0x1A20, 0x1C4F),  # Tai Tham to Lepcha
    (0xA800, 0xA8FF),
    (0xA980, 0xAAFF),
    (0xABC0, 0xABFF),
    (0xFB50, 0xFDFF),  # Arabic presentation forms
    (0xFE70, 0xFEFE),
    (0x10AC0, 0x10AFF),
    (0x10D00, 0x10FFF),
    (0x11000, 0x11FFF),  # Brahmi and its descendants
    (0x1E900, 0x1E95F),  # Adlam
)
"""Blocks of scripts in which a joiner changes the form of a letter."""


def selects(selector: str, base: str) -> bool:
    """Whether a variation selector changes the character `base` before it; `base` may be empty."""
    if not base or unicodedata.category(base)[0] not in "LNPS":
        return False
    if "\ufe00" <= selector <= "\ufe0f":
        return base in _KEYCAPS or base >= "\u1000"
    if "\U000e0100" <= selector <= "\U000e01ef":
        return base >= "\u2e80" and unicodedata.category(base) == "Lo"
    return selector in "\u180b\u180c\u180d\u180f" and "\u1820" <= base <= "\u18aa"


def joins_alone(before: str) -> bool:
    """Whether a joiner has a meaning after this character, whatever follows (a half form)."""
    return bool(before) and unicodedata.combining(before) == _VIRAMA


def joins(before: str, after: str) -> bool:
    """Whether a joiner between these two characters is part of how they are written."""
    if not before or not after:
        return False
    return (_letter(before) and _letter(after)) or (_emoji(before) and unicodedata.category(after) in ("So", "Sm"))


def _letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LM" and any(first <= ord(char) <= last for first, last in _JOINING)


def _emoji(char: str) -> bool:
    skin_tone = "\U0001f3fb" <= char <= "\U0001f3ff"
    return char == "\ufe0f" or skin_tone or unicodedata.category(char) == "So"
