"""JSON from servers that keep to no schema: any value may be missing, `null` or of another type.

`parse` never raises. The other functions take any value and return one of the wanted type, or its empty value.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

MOST = 1 << 62
BOM = b"\xef\xbb\xbf"


class _Unreadable:
    """The result of `parse` for text that is not JSON. (`null` is JSON.)"""

    def __bool__(self) -> bool:
        return False


UNREADABLE = _Unreadable()


def parse(data: bytes | str) -> Any:
    """The value of a JSON text. `UNREADABLE` if it is not JSON, or nested too deeply to be read."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:  # Python's own reader accepts NaN and halves of surrogate pairs, which servers written in Python may send.
        return json.loads(data)
    except (ValueError, RecursionError):
        return UNREADABLE


def text(value: Any) -> str:
    """A text that can be stored and printed. Empty for anything else."""
    if not isinstance(value, str):
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:  # Half of a surrogate pair.
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def piece(value: Any) -> str:
    """A part of a text, which may end or begin with half of a character; see `Halves`. Empty for anything else."""
    return value if isinstance(value, str) else ""


class Halves:
    """Joins the pieces of a text where a server splits a character, so that each has half of a surrogate pair.

    A half that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self.held = ""
        """The half with which the last piece ended."""

    def join(self, new: str, *, last: bool = False) -> str:
        """The text that a piece completes. `last`: nothing follows."""
        if not new and not last:
            return ""
        joined = self.held + new
        self.held = joined[-1] if not last and "\ud800" <= joined[-1] <= "\udbff" else ""
        return text(joined[: len(joined) - len(self.held)])


def number(value: Any) -> int:
    """A non-negative whole number, also if it is given as text; 0 for anything else."""
    if isinstance(value, str):
        try:
            value = float(value[:32])
        except ValueError:
            return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    return int(min(max(value, 0), MOST))
