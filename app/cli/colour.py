"""Colours in the command line's own output."""

from __future__ import annotations

import os
from typing import TextIO


def in_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colours that are not switched off (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, style: str) -> str:
    """`style`: SGR parameters of ECMA-48, such as "1;31" for bold red."""
    return f"\x1b[{style}m{text}\x1b[0m"
