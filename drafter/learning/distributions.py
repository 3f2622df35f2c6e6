"""What the target might have said at some positions of a conversation: its likeliest tokens, and how likely each was.

At a rejected draft token, it is also known what the target would have said after that token. Numpy only: the verifier
makes distributions from logits, the wire and the database carry them, and the code that teaches a drafter reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]

MOST = 8
"""Most tokens of one distribution. All others are its tail."""
TEXT: Final = -1
"""In `instead`: nothing was replaced, so the distribution follows the text itself."""
NONE: Final = -1
"""In `tokens`: padding, because the distribution has fewer tokens."""

HEAD = struct.Struct("<II")


class MalformedDistributions(ValueError):
    """Bytes that are not packed distributions."""


@dataclass(frozen=True, eq=False)
class Distributions:
    """N distributions over the vocabulary, ordered by position, those of the text before those of branches.

    They are the target's own: those at temperature 1, before any setting of sampling.
    """

    positions: Ids
    """(N,): position of the token that each describes."""
    instead: Ids
    """(N,): the rejected token that replaces the one before that position, or `TEXT` if none does."""
    tokens: Ids
    """(N, MOST), likeliest first; `NONE` after the last one."""
    log_probs: Floats
    """(N, MOST); -inf after the last one."""

    def __len__(self) -> int:
        return len(self.positions)

    @classmethod
    def of(cls, parts: Sequence[Distributions]) -> Distributions:
        """Several merged, in order. A place that occurs twice counts once."""
        if not parts:
            return NOTHING
        whole = cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))
        # Unique rows come sorted: by position, then the text (-1) before rejected tokens.
        _, first = np.unique(np.stack((whole.positions, whole.instead), axis=1), axis=0, return_index=True)
        return whole.take(first)

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Distributions:
        """Some of them."""
        return Distributions(self.positions[rows], self.instead[rows], self.tokens[rows], self.log_probs[rows])

    def within(self, begin: int, end: int) -> Distributions:
        """Those that describe an answer at `begin .. end`: they follow a token of the positions `begin - 1 .. end - 1`.

        This includes those after a rejected alternative to the last token.
        """
        last = self.positions - (self.instead != TEXT)
        return self.take((last >= begin) & (last < end))

    @property
    def text(self) -> Distributions:
        """Those that follow the text itself."""
        return self.take(self.instead == TEXT)

    @property
    def branches(self) -> Distributions:
        """Those that follow a rejected token."""
        return self.take(self.instead != TEXT)

    # ---- bytes -------------------------------------------------------------------------------------------------------

    def pack(self) -> bytes:
        """Bytes for the database: 9 for each of them, and 6 for each token that it lists.

        An answer of 64 tokens takes about 1 kB for its text, and another 1 kB for every 40 rejected tokens.
        """
        listed = self.tokens != NONE
        return b"".join(
            (
                HEAD.pack(len(self), int(listed.sum())),
                self.positions.astype("<u4").tobytes(),
                self.instead.astype("<i4").tobytes(),
                listed.sum(axis=1).astype("u1").tobytes(),
                self.tokens[listed].astype("<i4").tobytes(),
                self.log_probs[listed].astype("<f2").tobytes(),
            )
        )

    @classmethod
    def unpack(cls, data: bytes) -> Distributions:
        """Raises `MalformedDistributions`."""
        if len(data) < HEAD.size:
            raise MalformedDistributions("too short")
        rows, listed = HEAD.unpack_from(data)
        if len(data) != HEAD.size + 9 * rows + 6 * listed:
            raise MalformedDistributions(f"{len(data)} bytes are not {rows} distributions with {listed} tokens")
        ends = np.cumsum([HEAD.size, 4 * rows, 4 * rows, rows, 4 * listed]).tolist()
        positions, instead, counts, tokens, log_probs = (
            np.frombuffer(data[begin:end], kind)
            for begin, end, kind in zip(ends, [*ends[1:], len(data)], ("<u4", "<i4", "u1", "<i4", "<f2"))
        )
        return cls(positions.astype(np.int64), instead.astype(np.int64), *ragged(counts, tokens, log_probs))


NOTHING = Distributions(
    np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, MOST), np.int64), np.zeros((0, MOST), np.float32)
)
"""No distribution at all."""


def ragged(
    counts: NDArray[np.integer], tokens: NDArray[np.integer], log_probs: NDArray[np.floating]
) -> tuple[Ids, Floats]:
    """Turn concatenated lists of `counts` tokens into rows: (N, MOST) tokens and log-probabilities.

    Raises `MalformedDistributions` for counts that do not fit.
    """
    if counts.size and not 1 <= int(counts.min()) <= int(counts.max()) <= MOST:
        raise MalformedDistributions(f"a distribution has from 1 to {MOST} tokens")
    if int(counts.sum()) != len(tokens) or len(tokens) != len(log_probs):
        raise MalformedDistributions(f"{int(counts.sum())} tokens are announced, and {len(tokens)} came")
    listed = np.arange(MOST) < counts[:, None]
    rows, chances = np.full(listed.shape, NONE, np.int64), np.full(listed.shape, -np.inf, np.float32)
    rows[listed], chances[listed] = tokens, log_probs
    return rows, chances
