"""The coins of sampled decoding: pseudo-random numbers that a seed and an absolute position determine.

Drafting, verifying and plain decoding all read the same coins at the same position. So a seed determines the text, with
or without speculation, for any tree and after any number of retries.

A token is drawn by a race: each token arrives after an exponential time, divided by its probability, and the first one
is taken. So each token is taken with its probability (this is the Gumbel-max trick). A token's time depends only on
seed, position and token. So a race with nearly the same probabilities mostly gives the same token: that is how a
drafter guesses what a target will *draw*. What the target draws never depends on the guess.

Recursive rejection tries several tokens at one position; each attempt has its own coin, which a retried round
reproduces.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drafter.search import Proposals

LEAST_TEMPERATURE = 1e-300
"""Smaller temperatures above 0 are raised to this: a log-probability divided by it is still finite."""
LIGHT = 1 / 256
"""A token of at most this share of the largest weight is light; see `contenders`."""
BLOCK = 1 << 14
"""Tokens whose random numbers are made together: few enough that they stay in the cache of a core."""
_MASK = (1 << 64) - 1


def coin(seed: int, position: int, attempt: int = 0) -> float:
    """A uniform number in [0, 1), with 53 random bits, for the token at `position`.

    Attempt 0 draws the token; later attempts accept or refuse drafted ones. Seeds count modulo 2**64, so negative ones
    are allowed.
    """
    key = struct.pack("<QQ", seed & _MASK, position & _MASK) + (struct.pack("<Q", attempt) if attempt else b"")
    (bits,) = struct.unpack("<Q", hashlib.blake2b(key, digest_size=8, person=b"outrider coin").digest())
    return float(bits >> 11) * 2.0**-53


def arrivals(seed: int, position: int, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
    """The times of tokens (n,) at a position, (n,), from an exponential distribution of mean 1."""
    times: NDArray[np.float64] = -np.log((_uniform(seed, position, tokens).astype(np.float64) + 0.5) * 2.0**-53)
    return times


def _uniform(seed: int, position: int, tokens: NDArray[np.integer]) -> NDArray[np.uint64]:
    """A random number of 53 bits for each token (n,): the larger, the earlier the token arrives."""
    key = struct.pack("<QQ", seed & _MASK, position & _MASK)
    (start,) = struct.unpack("<Q", hashlib.blake2b(key, digest_size=8, person=b"outrider race").digest())
    mixed = tokens.astype(np.uint64)
    with np.errstate(over="ignore"):  # The numbers of SplitMix64 (Steele, Lea, Flood 2014) wrap around.
        mixed += np.uint64(1)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed += np.uint64(start)
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(27)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed >> np.uint64(11)


def race(tokens: NDArray[np.integer], weights: NDArray[np.float64], seed: int, position: int) -> int:
    """The token that is drawn at a position, each with a chance in proportion to its weight; never one of weight 0.

    `tokens` and `weights`: (n,); at least one weight is above 0.
    """
    with np.errstate(divide="ignore", over="ignore"):  # A tiny weight never arrives.
        times = arrivals(seed, position, tokens) / (weights / weights.max())
    return int(tokens[times.argmin()])


def contenders(leads: NDArray[np.float32], seed: int, position: int) -> NDArray[np.intp]:
    """The tokens of a whole vocabulary that may win the race at a position.

    `leads` (V,): the logarithms of their weights, of which the largest is 0. A vocabulary has few heavy tokens, and
    only a light one that arrives very early can be ahead of them.
    """
    heavy = np.flatnonzero(leads > math.log(LIGHT))
    first = (arrivals(seed, position, heavy) / np.exp(leads[heavy].astype(np.float64))).min()
    least = np.uint64(max(0, int(math.exp(-first * LIGHT) * 2**53) - 2))
    blocks = (np.arange(start, min(start + BLOCK, len(leads))) for start in range(0, len(leads), BLOCK))
    return np.concatenate([heavy, *(block[_uniform(seed, position, block) >= least] for block in blocks)])


@dataclass(frozen=True)
class Coins:
    """The coins with which a target will draw, to guess its choice. The temperature is above 0."""

    seed: int
    temperature: float

    @classmethod
    def at(cls, temperature: float, seed: int) -> Coins | None:
        """The coins of a target at this temperature, or None at temperature 0, where nothing is drawn."""
        return cls(seed, temperature) if temperature else None

    def ranked(self, proposals: Proposals, positions: NDArray[np.integer]) -> Proposals:
        """Proposals for the tokens at `positions` (M,), ordered by their arrival under the drafter's probabilities.

        Their log-probabilities become the drafter's estimates of being drawn: its probabilities are not the target's,
        and a token that wins its race may come second in the target's.
        """
        log_probs, tokens = proposals
        times = np.stack([arrivals(self.seed, int(at), row) for at, row in zip(positions, tokens)])
        below = log_probs.astype(np.float64) - log_probs[:, :1]
        leads = below / max(self.temperature, LEAST_TEMPERATURE) - np.log(times)
        order = np.argsort(-leads, axis=1, kind="stable")
        leads = np.take_along_axis(leads, order, axis=1)
        chances = leads - np.logaddexp.reduce(leads, axis=1, keepdims=True)
        least = np.finfo(np.float32).min  # An infinite value would not be a candidate.
        return np.maximum(chances, least).astype(np.float32), np.take_along_axis(tokens, order, axis=1)
