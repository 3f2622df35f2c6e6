"""One conversation of a block drafter: its tokens, the rows of its layers, memory, and the trees it makes in one call.

A tree is grown from the block's marginals best-first, by the sum of log-probabilities, as DDTree (arXiv 2604.12989)
does. What the Markov head adds depends on the token before, so each node has distributions of its own; these are small
products, not calls. All nodes that may be in the tree are expanded, so no tree of so many nodes is likelier by the
drafter's own chances. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.baseline_drafters.block import BlockModel
from drafter.model import KeysValues
from drafter.search import Acceptance, Pace, Proposals, grow
from models.memory import MemoryRow, dequantise
from models.tree import DraftTree


class BlockDrafter:
    """A block model in the role of `drafter.runtime.Drafter`, for measurements."""

    def __init__(self, model: BlockModel) -> None:
        self.model = model.eval().requires_grad_(False)
        self.config = model.config.drafter
        self.memory_layers = self.config.memory_layers

    def context(self) -> BlockContext:
        """An empty conversation."""
        return BlockContext(self.model)


class BlockContext:
    """The state that drafting one conversation needs."""

    def __init__(self, model: BlockModel) -> None:
        self.tokens: list[int] = []
        self.calls = 0
        """Calls of the model so far."""
        self._model = model
        shapes = model.config.drafter
        weight = model.embedding.weight

        def empty(heads: int, size: int) -> KeysValues:
            return (weight.new_zeros(heads, 0, size),) * 2

        own = shapes.target_kv_heads, shapes.target_head_size
        self._past = [empty(*own) for _ in range(len(model.first_layers) + 1)]
        self._memory = [empty(*layer) for layer in shapes.memory_layers]
        self._states = weight.new_zeros(0, shapes.hidden)
        """States of the cached tokens, after the first layers."""

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        self.tokens += tokens

    def remember(self, start: int, rows: Sequence[MemoryRow]) -> None:
        """Take memory of the tokens from `start` on, the first ones without any.

        Raises `ValueError` for memory of other tokens.
        """
        count = len(rows[0].keys)
        if start != self.remembered or start + count > len(self.tokens):
            wanted = f"{self.remembered} to {len(self.tokens)}"
            raise ValueError(f"memory of tokens {start} to {start + count}; the next are {wanted}")
        for at, row in enumerate(rows):
            sides = dequantise(row.keys, row.key_scales), dequantise(row.values, row.value_scales)
            new = tuple(torch.from_numpy(side).transpose(0, 1).to(self._states) for side in sides)
            self._memory[at] = _appended(self._memory[at], new)

    @property
    def remembered(self) -> int:
        """How many tokens have their memory here."""
        return int(self._memory[0][0].shape[-2])

    @torch.no_grad()
    def draft(self, pace: Pace, acceptance: Acceptance | None = None) -> DraftTree:
        """A tree of the likeliest continuations of the last token, at most a block deep. Commits nothing.

        A breadth of 1 gives a chain. Any other breadth is as good as the best: `nodes` decides.
        """
        if not self.tokens:
            raise ValueError("nothing to continue: no token is committed")
        logits, model = self._guess(), self._model
        pace = replace(pace, depth=min(pace.depth, len(logits)), breadth=1 if pace.breadth == 1 else pace.nodes)
        depths = np.zeros(1, np.int64)  # The last entry stands for the root.

        def expand(new: NDArray[np.int64], above: NDArray[np.int64]) -> Proposals:
            nonlocal depths
            below = depths[above] + 1
            depths = np.concatenate((depths[:-1], below, depths[-1:]))
            rows = logits[torch.from_numpy(below)]
            if model.markov is not None:
                rows = rows + model.markov(torch.from_numpy(new).to(rows.device))
            return _proposals(rows, pace.breadth)

        return grow(_proposals(logits[:1], pace.breadth), expand, pace, acceptance)

    def _guess(self) -> Tensor:
        """The block's marginal logits, after the rows of new tokens."""
        self.calls += 1
        model, start, end = self._model, self._cached, len(self.tokens)
        if end > start:
            tokens = torch.tensor(self.tokens[start:], device=self._states.device)
            mask = torch.ones(end - start, end, dtype=torch.bool, device=tokens.device).tril(start)
            positions = torch.arange(start, end, device=tokens.device)
            states, rows = model.read(tokens, positions, self._past, mask)
            self._past = [_appended(old, new) for old, new in zip(self._past, rows, strict=True)]
            self._states = torch.cat((self._states, states))
        first = min(self.remembered, end - 1)  # The last token is always in the block.
        near, *memory = ((keys[:, :first], values[:, :first]) for keys, values in (self._past[-1], *self._memory))
        return model.guess(self._states[first:], first, near, memory)

    @property
    def _cached(self) -> int:
        return int(self._past[0][0].shape[-2])


def _appended(old: KeysValues, new: Sequence[Tensor]) -> KeysValues:
    keys, values = (torch.cat(pair, dim=-2) for pair in zip(old, new, strict=True))
    return keys, values


def _proposals(logits: Tensor, top: int) -> Proposals:
    best, ids = torch.log_softmax(logits.float(), dim=-1).topk(min(top, logits.shape[-1]), dim=-1)
    return best.cpu().numpy(), ids.cpu().numpy()
