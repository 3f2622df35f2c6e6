"""Add vectors to an index of pages, for questions in other words than its own (`models/guide/vectors.py`).

    python -m recipes.shell_guide.vectors --encoder ENCODER --pages PAGES --index runs/pages.db

`ENCODER` is a sentence encoder of BERT's architecture, as a folder: all-MiniLM-L6-v2 (Apache-2.0). Each word piece of
its vocabulary is encoded alone; the main components of these vectors, weighted by how rare a piece is, are where the
training starts (Model2Vec, Tulkens and van Dongen 2024; weights of Arora et al. 2017). It draws pairs of wordings of
one example together, and pushes the wordings of other examples and pages away (InfoNCE, van den Oord et al. 2018). The
questions that the pair is measured on are not among the wordings.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch.nn import EmbeddingBag
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, AutoTokenizer

from models.guide.pages import Pages
from models.guide.vectors import UNKNOWN, nameless, tokenizer
from models.guide.words import terms
from recipes.shell_guide.conversations import EVERYDAY, evaluation_questions
from recipes.shell_guide.everyday import read_everyday
from recipes.shell_guide.grammar.intents import read_intents
from recipes.shell_guide.index import Row, all_rows, filled, read_raw

DIMENSIONS = 128
STEPS, RATE = 400, 2e-3
PAIRS = 1024
"""Pairs of wordings in a step; as many tasks of any page are pushed away."""
TEMPERATURE = 0.05
RARE = 1e-3
"""Share of all pieces at which a piece has half its weight."""


def pieces_of(encoder: Path) -> tuple[list[str], np.ndarray]:
    """The ASCII pieces of an encoder's vocabulary, and what it makes of each alone: float32 [pieces, hidden]."""
    read = AutoTokenizer.from_pretrained(encoder)
    vocabulary = {piece: place for piece, place in read.get_vocab().items() if piece.isascii()}
    pieces = sorted((piece for piece in vocabulary if piece == UNKNOWN or piece[0] != "["), key=vocabulary.__getitem__)
    pieces += ["["] if "[" in vocabulary else []
    model = AutoModel.from_pretrained(encoder).eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(pieces), PAIRS):
            ids = torch.tensor([vocabulary[piece] for piece in pieces[start : start + PAIRS]])
            around = (torch.full_like(ids, read.cls_token_id), ids, torch.full_like(ids, read.sep_token_id))
            found.append(model(input_ids=torch.stack(around, 1)).last_hidden_state.mean(1).numpy())
    return pieces, np.concatenate(found)


def wordings_of(rows: Iterable[Row], pages: Pages, words: Container[str]) -> list[list[str]]:
    """The wordings of each example without names, as the index counts them: one for each set of terms."""

    @cache
    def read(text: str) -> str:
        text = filled(text)
        return nameless(text, pages.named(text), words)

    return [list({tuple(dict.fromkeys(terms(one))): read(one) for one in row.wordings}.values()) for row in rows]


class Table(EmbeddingBag):
    """The vectors of pieces: float32 [pieces, dimensions]. `vocabulary`: its pieces, in the order of the rows."""

    def __init__(self, vocabulary: list[str], start: np.ndarray) -> None:
        super().__init__(*start.shape, mode="mean", _weight=torch.tensor(start, dtype=torch.float32))
        self._tokenizer = tokenizer(vocabulary)
        self._ids: dict[str, list[int]] = {}
        self._unknown = vocabulary.index(UNKNOWN)

    def ids(self, text: str) -> list[int]:
        if text not in self._ids:
            self._ids[text] = self._tokenizer.encode(text).ids or [self._unknown]
        return self._ids[text]

    def of(self, texts: Iterable[str]) -> torch.Tensor:
        """The unit vectors of texts: [texts, dimensions]."""
        found = [self.ids(text) for text in texts]
        starts = np.cumsum([0, *(len(one) for one in found[:-1])])
        return normalize(self(torch.tensor([one for ids in found for one in ids]), torch.from_numpy(starts)), dim=1)


def start(vocabulary: list[str], encoded: np.ndarray, texts: Iterable[str], dimensions: int) -> np.ndarray:
    """The main components of what the encoder makes of pieces, times the weights of pieces in these texts."""
    counts = np.ones(len(vocabulary))
    for read in tokenizer(vocabulary).encode_batch(list(texts)):
        np.add.at(counts, read.ids, 1)
    centred = encoded - encoded.mean(0)
    _, _, axes = np.linalg.svd(centred.T @ centred)
    found = centred @ axes[:dimensions].T * (RARE / (RARE + counts / counts.sum()))[:, None]
    return np.asarray(found / np.linalg.norm(found, axis=1).mean())


def train(table: Table, wordings: list[list[str]], steps: int, pairs: int = PAIRS) -> None:
    """Train a table on pairs of wordings of one example."""
    rng = random.Random(5)
    first = {texts[0]: number for number, texts in enumerate(wordings)}
    several = [number for number, texts in enumerate(wordings) if len(texts) > 1]
    optimiser = torch.optim.Adam(table.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for step in range(1, steps + 1):
        drawn = [several[rng.randrange(len(several))] for _ in range(pairs)]
        one, other = zip(*(rng.sample(wordings[number], 2) for number in drawn))
        away = [wordings[rng.randrange(len(wordings))][0] for _ in range(pairs)]
        logits = table.of(one) @ table.of([*other, *away]).T / TEMPERATURE
        tasks = torch.tensor([first[wordings[number][0]] for number in drawn])
        same = (tasks[:, None] == tasks).fill_diagonal_(False)
        logits[:, :pairs] = logits[:, :pairs].masked_fill(same, -torch.inf)
        loss = cross_entropy(logits, torch.arange(pairs))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == steps:
            print(f"step {step} of {steps}: {loss.item():.3f} nats", flush=True)


def packed(rows: np.ndarray) -> tuple[bytes, bytes]:
    """Rows as int8, and the factor of each as float16."""
    scales = (np.maximum(np.abs(rows).max(1), 1e-4) / 127).astype("<f2")
    whole = np.rint(rows / scales[:, None].astype(np.float32)).clip(-127, 127)
    return whole.astype(np.int8).tobytes(), scales.tobytes()


@torch.inference_mode()
def write(index: Path, vocabulary: list[str], table: Table, wordings: list[list[str]]) -> None:
    """Write the vectors into an index, replacing those that it has."""
    vectors, _ = packed(np.concatenate([table.of(texts).numpy() for texts in wordings]))
    pieces, scales = packed(table.weight.numpy())
    counts = bytes(map(len, wordings))
    values = {"pieces": "\n".join(vocabulary), "table": pieces, "scales": scales, "wordings": vectors, "counts": counts}
    connection = sqlite3.connect(index)
    with connection:
        connection.execute("DELETE FROM vectors")
        connection.executemany("INSERT INTO vectors VALUES (?, ?)", values.items())
    connection.execute("VACUUM")
    connection.close()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, required=True, help="the folder of a sentence encoder")
    parser.add_argument("--pages", type=Path, required=True, help="tldr pages as JSON lines")
    parser.add_argument("--index", type=Path, required=True, help="the index of these pages, which gets the vectors")
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args(arguments)
    vocabulary, encoded = pieces_of(options.encoder)
    needs = read_everyday(EVERYDAY, evaluation_questions())
    rows = all_rows(read_raw(options.pages), needs, read_intents())
    pages = Pages.open(options.index)
    if len(rows) != pages.count:
        parser.error(f"{options.index} has {pages.count} examples, and these pages give {len(rows)}: write it anew")
    wordings = wordings_of(rows, pages, frozenset(vocabulary))
    texts = {text for one in wordings for text in one}
    table = Table(vocabulary, start(vocabulary, encoded, texts, DIMENSIONS))
    train(table, wordings, options.steps)
    write(options.index, vocabulary, table, wordings)
    print(f"{options.index}: {options.index.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
