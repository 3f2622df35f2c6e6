"""Draw the conversations that the target learns from, as token ids. It can be resumed.

    python -m recipes.shell_guide.draw --pages PAGES.jsonl --index pages.db --tokenizer runs/base
        --conversations 200000 --out runs/drawn

Searching the pages for each question takes ten times as long as a GPU takes to learn from it, so it is done before.
Each file of the folder holds 1,000 conversations; those that are there already are not drawn again. Names have marks
(`models/guide/names.py`) if the tokenizer has them. `--ordinary`: the base's answers to ordinary talk
(`recipes.shell_guide.base_answers`). Every tenth conversation is one of these, without examples.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from drafter.progress import stage
from models.guide.recipe import has_marks
from recipes.shell_guide.drawn import Message, encode
from recipes.shell_guide.mixture import Mixture

SHARD = 1_000
"""Conversations in a file."""
ORDINARY = 10
"""Of so many conversations, one is ordinary talk."""


class Source(Protocol):
    """A source of conversations, by number."""

    def draw(self, index: int) -> list[Message]:
        """Conversation number `index`."""


def draw_shard(
    mixture: Source,
    tokenizer: PreTrainedTokenizerBase,
    ordinary: Sequence[Sequence[Message]],
    out: Path,
    number: int,
    size: int = SHARD,
) -> None:
    """Write file `number` of the folder `out`, with `size` conversations."""
    ids: list[int] = []
    learn: list[bool] = []
    lengths = []
    for index in range(number * size, (number + 1) * size):
        if ordinary and index % ORDINARY == 0:
            messages = ordinary[index // ORDINARY % len(ordinary)]
        else:
            messages = mixture.draw(index)
        read, counts = encode(tokenizer, messages)
        ids += read
        learn += counts
        lengths.append(len(read))
    partial_file = out / f"{number:05}.partial"
    with partial_file.open("wb") as file:
        np.savez_compressed(file, ids=np.array(ids, np.uint16), learn=np.packbits(learn), lengths=np.array(lengths))
    os.replace(partial_file, out / f"{number:05}.npz")


_drawing: Callable[[int], None]
"""The state of a pool process."""


def _draw(number: int) -> None:
    _drawing(number)


def _open_source(pages: Path, index: Path, tokenizer: Path, seed: int, ordinary: Path | None, out: Path) -> None:
    global _drawing
    lines = ordinary.read_text(encoding="utf-8").splitlines() if ordinary else []
    talk = [[(role, text) for role, text in json.loads(line)] for line in lines]
    encoder = AutoTokenizer.from_pretrained(tokenizer)
    mixture = Mixture(pages, index, seed, marks=has_marks(tokenizer))
    _drawing = partial(draw_shard, mixture, encoder, talk, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True, help="what recipes.shell_guide.index wrote")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--ordinary", type=Path, help="JSON lines, each a list of (role, text)")
    parser.add_argument("--conversations", type=int, default=200 * SHARD)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    shards = range(-(-arguments.conversations // SHARD))
    missing = [number for number in shards if not (arguments.out / f"{number:05}.npz").exists()]
    given = (arguments.pages, arguments.index, arguments.tokenizer, arguments.seed, arguments.ordinary, arguments.out)
    with (
        stage("drawing", len(shards), len(shards) - len(missing)) as progress,
        ProcessPoolExecutor(None, get_context("spawn"), _open_source, given) as pool,
    ):
        for done in as_completed([pool.submit(_draw, number) for number in missing]):
            done.result()
            progress.advance()


if __name__ == "__main__":
    main()
