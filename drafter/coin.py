"""The coin of sampled decoding: one uniform number for each (seed, absolute position).

Drafting, verifying and plain decoding all read the same coin at the same position. So a seed fixes the text, with or
without speculation, for any tree and after any number of retries. Recursive rejection tries several tokens at one
position; each attempt has a coin of its own, which a retried round finds again.
"""

from __future__ import annotations

import hashlib
import struct

_MASK = (1 << 64) - 1


def coin(seed: int, position: int, attempt: int = 0) -> float:
    """A uniform number in [0, 1), with 53 random bits, for the token at `position`.

    Attempt 0 draws the token; later attempts accept or refuse drafted ones. Seeds count modulo 2**64, so negative ones
    are allowed.
    """
    key = struct.pack("<QQ", seed & _MASK, position & _MASK) + (struct.pack("<Q", attempt) if attempt else b"")
    (bits,) = struct.unpack("<Q", hashlib.blake2b(key, digest_size=8, person=b"outrider coin").digest())
    return float(bits >> 11) * 2.0**-53
