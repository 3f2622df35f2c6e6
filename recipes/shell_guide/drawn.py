"""Conversations as token ids, as `recipes.shell_guide.draw` wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

Message = tuple[str, str]
"""(role, text)"""


@dataclass(frozen=True)
class Drawn:
    """Conversations one after another."""

    ids: NDArray[np.uint16]
    learn: NDArray[np.bool_]
    """Whether the loss counts the *prediction* of this token."""
    ends: NDArray[np.int64]
    """Where each conversation ends."""

    def conversation(self, number: int) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Its ids, and whether each counts."""
        begin = int(self.ends[number - 1]) if number else 0
        span = slice(begin, int(self.ends[number]))
        return self.ids[span], self.learn[span]


def read_drawn(folder: Path) -> Drawn:
    """All conversations of a folder, in the order in which they were drawn."""
    shards = [np.load(path) for path in sorted(folder.glob("*.npz"))]
    ids = np.concatenate([shard["ids"] for shard in shards])
    learn = np.concatenate([np.unpackbits(shard["learn"])[: len(shard["ids"])] for shard in shards]).astype(bool)
    return Drawn(ids, learn, np.cumsum(np.concatenate([shard["lengths"] for shard in shards]), dtype=np.int64))


def encode(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and for each token whether the loss counts its *prediction*."""
    said = [{"role": role, "content": content} for role, content in messages]
    text, asked = (
        tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=more) for more in (False, True)
    )
    ids, opening = (tokenizer(one, add_special_tokens=False)["input_ids"] for one in (text, asked.removeprefix(text)))
    learn, inside = [], False
    for at, token in enumerate(ids):
        learn.append(inside)
        opened = ids[max(0, at + 1 - len(opening)) : at + 1] == opening
        inside = token != tokenizer.eos_token_id if inside else opened
    return ids, learn
