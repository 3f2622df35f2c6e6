"""A drafter's datastore: answers that its target gave in training. The second stage searches them for what comes next.

It is a compressed array of token ids beside the weights, with `BREAK` after each answer. The term comes from
retrieval-based speculative decoding (REST, arXiv 2311.08252). Numpy only.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from drafter.ngram import BREAK, NGramIndex
from models.config import DrafterCorrupt


def save_datastore(path: Path, texts: Iterable[Sequence[int]]) -> None:
    """Write texts of token ids."""
    tokens = np.array([token for text in texts for token in (*text, BREAK)], np.int32)
    np.savez_compressed(path, tokens=tokens)


def load_datastore(path: Path, vocabulary: int) -> NGramIndex:
    """The texts of a datastore as an index.

    Raises `DrafterCorrupt` for another file, and for ids outside the vocabulary.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            tokens = file["tokens"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DrafterCorrupt(f"{path} cannot be read ({error}). Reinstall the drafter.") from None
    known = tokens.ndim == 1 and tokens.dtype == np.int32
    if not known or (tokens.size and not BREAK <= tokens.min() <= tokens.max() < vocabulary):
        raise DrafterCorrupt(f"{path} holds no tokens of this drafter. Reinstall the drafter.")
    return NGramIndex.of(tokens)
