"""What the command line prints: colours, and JSON."""

from __future__ import annotations

import codecs
import json
import os
import sys
from typing import Any, TextIO


def in_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colours that are not switched off (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, style: str) -> str:
    """`style`: SGR parameters of ECMA-48, such as "1;31" for bold red."""
    return f"\x1b[{style}m{text}\x1b[0m"


def print_json(value: dict[str, Any]) -> None:
    """Print one line of JSON. Terminal control characters are escaped, which JSON itself does not require."""
    from app.sanitise import escape_json

    utf_8 = codecs.lookup(sys.stdout.encoding).name == "utf-8"  # Elsewhere a character might become a question mark.
    print(escape_json(json.dumps(value, ensure_ascii=not utf_8)), flush=True)
