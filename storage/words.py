"""Text as the search index reads it, where it is written without spaces between words.

FTS5's `unicode61` takes letters that stand together for one word: a whole clause of Chinese, Japanese or Thai, of which
only the beginning would be found. So each letter of such a script is a word of its own to it, and what is looked for
is a phrase of them. Where a text has none of them, which is nearly always, the index reads the text itself.
"""

from __future__ import annotations

import re

SEPARATOR = "\u200b"
"""No letter to `unicode61`, and nothing to see; in what search shows it is left out."""
UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese, and what others write with it
)
_HAS = re.compile(f"[{UNSPACED}]")
_BETWEEN = re.compile(rf"(?<=[{UNSPACED}])(?=\w)|(?<=\w)(?=[{UNSPACED}])")


def words(text: str) -> str | None:
    """The text with its letters apart; None: the index reads it as it is."""
    return _BETWEEN.sub(SEPARATOR, text) if _HAS.search(text) else None


def shown(snippet: str) -> str:
    """A piece of what the index read, as it was written."""
    return snippet.replace(SEPARATOR, "")
