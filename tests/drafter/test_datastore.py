"""Texts beside the weights: what is saved is what is found, and what is no datastore is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drafter.ngram import BREAK, load_datastore, save_datastore
from drafter.training.answers import AnsweredConversation
from drafter.training.pipeline import datastore_texts
from models.config import DrafterCorrupt


@pytest.mark.parametrize("texts", [[], [[3, 4], [5]], [[], [6]]])
def test_what_is_saved_is_found(tmp_path: Path, texts: list[list[int]]) -> None:
    path = tmp_path / "datastore.npz"
    save_datastore(path, texts)
    assert load_datastore(path, 7).tokens.tolist() == [token for text in texts for token in (*text, BREAK)]


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (np.array([1, 9], np.int32), "no tokens of this drafter"),
        (np.array([-2, 1], np.int32), "no tokens of this drafter"),
        (np.array([1.5, 2]), "no tokens of this drafter"),
        (np.array([[1, 2]], np.int32), "no tokens of this drafter"),
        (np.array([None, 1]), "cannot be read"),
    ],
)
def test_other_numbers_are_refused(tmp_path: Path, tokens: np.ndarray, why: str) -> None:
    path = tmp_path / "datastore.npz"
    np.savez_compressed(path, tokens=tokens)
    with pytest.raises(DrafterCorrupt, match=why):
        load_datastore(path, 9)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "datastore.npz"
    path.write_bytes(content)
    with pytest.raises(DrafterCorrupt, match="cannot be read"):
        load_datastore(path, 9)


def test_answers_open_as_the_template_says_and_are_thinned_out_evenly() -> None:
    data = [
        AnsweredConversation([1, ask, 7, 8, 20 + ask, 2, 3, 7, 8, 40 + ask], [(4, 6), (9, 10)]) for ask in range(10, 16)
    ]
    texts = datastore_texts(data, [7, 8], 1000)
    assert texts[:3] == [[7, 8, 30, 2], [7, 8, 50], [7, 8, 31, 2]] and len(texts) == 12
    few = datastore_texts(data, [7, 8], 27)
    assert few == texts[::2] and sum(len(text) + 1 for text in few) <= 30
    assert datastore_texts([], [7, 8], 27) == []
