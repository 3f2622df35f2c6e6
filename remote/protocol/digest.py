"""Digests of token sequences, by which both sides compare what they hold."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from models.config import DIGEST_BYTES


class RunningDigest:
    """The digest of a growing token sequence, which can be read at each of its prefixes."""

    def __init__(self) -> None:
        self._digests = [hashlib.blake2b(digest_size=DIGEST_BYTES).digest()]

    def __len__(self) -> int:
        return len(self._digests) - 1

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            link = self._digests[-1] + struct.pack("<i", token)
            self._digests.append(hashlib.blake2b(link, digest_size=DIGEST_BYTES).digest())

    def truncate(self, length: int) -> None:
        del self._digests[length + 1 :]

    def at(self, length: int) -> bytes:
        """The digest of the first `length` tokens."""
        return self._digests[length]


def digest_of(tokens: Iterable[int]) -> bytes:
    """The digest of a whole sequence: that of `RunningDigest` after the last token."""
    running = RunningDigest()
    running.extend(tokens)
    return running.at(len(running))
