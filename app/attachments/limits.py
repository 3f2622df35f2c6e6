"""Maximum sizes of attachments. Anything larger is reported before anything is sent."""

from __future__ import annotations

from storage import Attachment

MOST_FILES = 100
MOST_TEXT_BYTES = 1_000_000
"""Largest text file: about 250,000 tokens, more than nearly every model reads."""
MOST_IMAGE_BYTES = 10_000_000
"""Largest image. Servers accept between 5 and 20 MB; sent as text, an image is a third larger."""
MOST_BYTES = 20_000_000
"""Most bytes of all attachments of one question."""
BYTES_PER_TOKEN = 4
"""Bytes of English and of code that make about one token."""


def size(count: int) -> str:
    """A number of bytes for people: `12 bytes`, `3.4 kB`, `1.2 MB`."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    return f"{count / 1000:.1f} kB" if count < 999_950 else f"{count / 1_000_000:.1f} MB"


def estimated_tokens(*attachments: Attachment) -> int:
    """The approximate number of tokens of the text files among these. It cannot be estimated for images."""
    return sum(len(one.data) // BYTES_PER_TOKEN + 1 for one in attachments if one.is_text)
