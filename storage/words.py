"""Text as it is stored, and for the search index, for scripts that have no spaces between words.

FTS5's `unicode61` reads adjacent letters as one word: a whole clause of Chinese, Japanese or Thai, of which only the
beginning would be found. So each letter of such a script becomes a separate word, and a search looks for a phrase of
such words. A text without such letters, as nearly every text is, goes to the index unchanged.
"""

from __future__ import annotations

import re
from contextlib import suppress

SEPARATOR = "\u200b"
"""A zero-width space: `unicode61` does not count it as a letter. `shown` removes it from snippets."""
UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters, in any language
)
_HAS = re.compile(f"[{UNSPACED}]")
_BETWEEN = re.compile(rf"(?<=[{UNSPACED}])(?=\w)|(?<=\w)(?=[{UNSPACED}])")


def well_formed(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode.

    Python turns each byte of input that it cannot decode into one. If they are UTF-8 that a locale such as `C` did not
    understand, they become the characters they stand for; others become `?`.
    """
    if text.isascii():
        return text
    with suppress(UnicodeError):
        return text.encode("utf-8", "surrogateescape").decode("utf-8")
    return text.encode("utf-8", "replace").decode("utf-8")


def words(text: str) -> str | None:
    """The text with separators between such letters, or None if it has none and the index reads the text as it is."""
    return _BETWEEN.sub(SEPARATOR, text) if _HAS.search(text) else None


def shown(snippet: str) -> str:
    """A piece of the indexed text without the separators."""
    return snippet.replace(SEPARATOR, "")
