"""One conversation of EAGLE-2: its tokens, the cache rows of its layers, and features of verified tokens.

A row is *exact* if it was made from a verified token's feature, or needs none. Rows of tokens that are not verified yet
are made one after another, each from the preceding output. Once features arrive, these rows are recomputed from them,
as EAGLE does after each round. Rows of drafted nodes last for one draft. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.eagle2 import TargetLayers
from drafter.model import KeysValues
from drafter.search import Pace, Proposals, grow
from models.engines.engine import TargetContext
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote.verifier.making.measure import Tell


class EagleContext:
    """The state that drafting one conversation needs."""

    def __init__(self, model: TargetLayers) -> None:
        self.tokens: list[int] = []
        self._model = model
        weight = model.embedding.weight
        # Row j is the input of token j's row: the feature of token j - 1, and zero for the first one.
        self._previous = weight.new_zeros(1, model.config.hidden)
        self._past = model.empty_past()
        self._exact = 0
        self._out = weight.new_zeros(model.config.hidden)
        """Output of the last cached row."""

    def commit(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        self.tokens += tokens

    def remember(self, start: int, features: Tensor) -> None:
        """Store encoded features (n, H) of the tokens from `start` on, which must be the first token without one.

        Raises `ValueError` for features of other tokens.
        """
        if start != self.remembered or start + len(features) > len(self.tokens):
            wanted = f"{self.remembered} to {len(self.tokens)}"
            raise ValueError(f"features of tokens {start} to {start + len(features)}; the next are {wanted}")
        self._previous = torch.cat((self._previous, features.to(self._previous)))

    @property
    def remembered(self) -> int:
        """How many tokens have features here."""
        return len(self._previous) - 1

    @torch.no_grad()
    def draft(self, pace: Pace) -> DraftTree:
        """A tree of the likeliest continuations of the last token. Commits nothing."""
        if not self.tokens:
            raise ValueError("nothing to continue: no token is committed")
        self._catch_up()
        length, past = len(self.tokens), self._past
        most = max(0, pace.breadth * (pace.depth - 1))
        # The last row is the root's, so that index -1 finds it: its feature if that arrived, or else its output; it
        # sees no node.
        outs = self._out.new_zeros(most + 1, len(self._out))
        outs[-1] = self._previous[length] if self.remembered == length else self._out
        sees = torch.zeros(most + 1, most, dtype=torch.bool)
        count = 0

        def expand(new: NDArray[np.int64], above: NDArray[np.int64]) -> Proposals:
            nonlocal past, count
            parents = torch.from_numpy(above)
            rows = torch.arange(count, count + len(new))
            count += len(new)
            sees[rows] = sees[parents]
            sees[rows, rows] = True
            mask = torch.cat((sees.new_ones(len(new), length), sees[rows, :count]), dim=-1)
            positions = length - 1 + sees[rows].sum(dim=-1)
            tokens = torch.from_numpy(new)
            out, added = self._model(tokens, positions, outs[parents], past, mask)
            outs[rows] = out
            past = _appended(past, added)
            return self._proposals(out, pace.breadth)

        return grow(self._proposals(self._out[None], pace.breadth), expand, pace)

    def _catch_up(self) -> None:
        """Make the rows of all committed tokens: those that can be exact in one step, the others one by one."""
        self._make_exact()
        for token in range(self._cached, len(self.tokens)):
            self._run(token + 1, self._out[None])

    def _make_exact(self) -> None:
        end = len(self.tokens)
        if self._model.config.features:
            end = min(end, len(self._previous))
        if end > self._exact:
            self._past = [(keys[:, : self._exact], values[:, : self._exact]) for keys, values in self._past]
            self._run(end, self._previous[self._exact : end])
            self._exact = end

    @property
    def _cached(self) -> int:
        return int(self._past[0][0].shape[-2])

    def _run(self, end: int, previous: Tensor) -> None:
        """Make the rows of the tokens from the first uncached one to `end`."""
        start = self._cached
        tokens = torch.tensor(self.tokens[start:end])
        if not self._model.config.features:
            previous = self._out.expand(len(tokens), -1)  # Not used.
        mask = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        positions = torch.arange(start, end)
        out, added = self._model(tokens, positions, previous, self._past, mask)
        self._past, self._out = _appended(self._past, added), out[-1]

    def _proposals(self, out: Tensor, top: int) -> Proposals:
        logits = self._model.logits(out).float()
        best, tokens = torch.log_softmax(logits, dim=-1).topk(min(top, logits.shape[-1]), dim=-1)
        return best.cpu().numpy(), tokens.cpu().numpy()


@contextmanager
def feature_telling(engine: TorchEngine, model: TargetLayers, draft: EagleContext) -> Iterator[Tell]:
    """Feed a conversation the target's features of verified tokens after each round, as they cross the wire.

    A forward of the target has one sequence: pending tokens, then the nodes of a draft tree.
    """
    seen: list[Tensor] = []

    def tell(context: TargetContext, tree: DraftTree, accepted: tuple[int, ...]) -> None:
        rows = torch.cat(seen)
        seen.clear()
        pending = len(rows) - len(tree)
        verified = rows[[*range(pending), *(pending + node for node in accepted)]]
        if model.config.features:
            draft.remember(draft.remembered, model.wire(verified.float()))

    hook = engine.model.model.register_forward_hook(lambda _, inputs, out: seen.append(out.last_hidden_state[0]))
    try:
        yield tell
    finally:
        hook.remove()


def _appended(past: Sequence[KeysValues], added: Sequence[KeysValues]) -> list[KeysValues]:
    return [
        (torch.cat((keys, more_keys), dim=-2), torch.cat((values, more_values), dim=-2))
        for (keys, values), (more_keys, more_values) in zip(past, added)
    ]
