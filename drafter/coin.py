"""The coin of sampled decoding: one uniform number for each (seed, absolute position).

Drafting, verifying and plain decoding all read the same coin at the same position, so a seed fixes the text whether
speculation is on or off, whatever the tree's shape, and after any number of retries.
"""

from __future__ import annotations

import hashlib
import struct

_MASK = (1 << 64) - 1


def coin(seed: int, position: int) -> float:
    """A uniform number in [0, 1), with 53 random bits, for the token that will stand at `position`.

    Seeds count modulo 2**64, so negative ones are allowed.
    """
    key = struct.pack("<QQ", seed & _MASK, position & _MASK)
    (bits,) = struct.unpack("<Q", hashlib.blake2b(key, digest_size=8, person=b"outrider coin").digest())
    return float(bits >> 11) * 2.0**-53
