"""The engine for models that cannot read a draft tree, with a state (Mamba) or with distances for positions (Bloom).

Each context has the model's own cache and runs alone, so there are no batches. A state cannot be truncated: if a
conversation changes, it is computed again from its first token. Drafts save nothing here, because each node is a
separate forward, so this engine takes at most one node.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from models.engines.engine import STATE_TOKENS, Engine, Floats, Forward, TargetContext, UnverifiableTarget
from models.engines.target import cache_argument
from models.tree import DraftTree

CHUNK = 1024
"""Tokens of a prompt in one forward."""
CHECKED = 12
"""Tokens with which a model is checked."""


class SequentialContext(TargetContext):
    """A conversation, and the model's cache after the first `held` tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: DynamicCache | None = None
        self.held = 0
        self.nodes: list[DynamicCache] = []
        """The cache after each node of the last forward."""

    @property
    def capacity(self) -> int:
        return self.held

    def assign(self, base: int, tokens: Sequence[int]) -> None:
        super().assign(base, tokens)
        if self.held != self.computed:  # So that the tokens are read anew in chunks, and not in one call.
            self._free()
            self.computed = 0
            self.rewinds += 1

    def _keep(self, start: int, rows: Sequence[int]) -> None:
        if rows:
            self.cache, self.held = self.nodes[rows[-1] - start], start + len(rows)
        self.nodes = []

    def _copy(self, other: TargetContext, count: int) -> bool:
        assert isinstance(other, SequentialContext)
        if other.held != count:  # A state covers all its tokens, and cannot be truncated.
            return False
        self.cache, self.held = copy.deepcopy(other.cache), count
        return True

    def _free(self) -> None:
        self.cache, self.held, self.nodes = None, 0, []


class SequentialEngine(Engine):
    """A model of transformers, token by token.

    The constructor compares a few tokens with and without a cache, and refuses a model whose cache changes its answers.
    Raises `UnverifiableTarget`, `BrokenTarget`.
    """

    row_budget = 1
    most_nodes = 1

    def __init__(self, model: PreTrainedModel, *, chunk: int = CHUNK) -> None:
        self.model, self.chunk = model.eval(), chunk
        self.device: torch.device = model.device
        self.vocabulary: int = model.get_input_embeddings().num_embeddings
        self._continues = False
        """Whether several tokens may follow the cached ones; in some models only one may."""
        self.bytes_per_token = self._self_check(type(model).__name__)

    @property
    def description(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters()) / 1e6
        kind = str(self.model.dtype).removeprefix("torch.")
        return f"PyTorch, {count:,.1f} million parameters, {kind}, on {self.device}, token by token, without drafts"

    def context(self) -> SequentialContext:
        return SequentialContext()

    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        raise AssertionError("there is no encoder")

    def _use_threads(self, count: int) -> None:
        torch.set_num_threads(count)

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else super().free_bytes()

    @torch.no_grad()
    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        return [self._one(request) for request in requests]

    def _one(self, request: Forward) -> Floats:
        context = request.context
        assert isinstance(context, SequentialContext)
        end, cache, held = context.computed + request.pending, context.cache, context.held
        if cache is None or held > context.computed:
            cache, held = DynamicCache(config=self.model.config), 0
        rows = list[Tensor]()
        if request.pending:
            context.cache, context.held = None, 0  # If it fails, some layers have the tokens and others do not.
            rows = [self._fed(cache, context.tokens[held:end], begins=held == 0)]
        context.cache, context.held = cache, end
        if not request.wanted or request.tree is None:
            return np.empty((0, self.vocabulary), np.float32)
        del context.nodes[request.since :]
        for node in range(request.since, len(request.tree)):
            token, parent = int(request.tree.tokens[node]), int(request.tree.parents[node])
            tried = copy.deepcopy(cache if parent < 0 else context.nodes[parent])
            rows.append(self._fed(tried, [token], begins=False))
            context.nodes.append(tried)
        logits: Floats = torch.stack(rows).float().cpu().numpy()
        return logits

    def _fed(self, cache: DynamicCache, tokens: Sequence[int], *, begins: bool) -> Tensor:
        """Run tokens after those in the cache; returns the logits (V,) after the last one."""
        first, size = self.chunk if begins else 0, self.chunk if self._continues else 1
        parts = [tokens[:first], *(tokens[at : at + size] for at in range(first, len(tokens), size))]
        logits: Tensor | None = None
        for part in filter(None, parts):
            output: Any = self.model(
                input_ids=torch.tensor([part], device=self.device),
                **cache_argument(self.model, cache),
                use_cache=True,
                logits_to_keep=1,
            )
            logits = output.logits[0, -1, : self.vocabulary]
        assert logits is not None
        return logits

    @torch.no_grad()
    def _self_check(self, name: str) -> int:
        """Compare ways to compute the same logits, and return the bytes that count per token."""
        tokens = [(7 * at + 3) % self.vocabulary for at in range(CHECKED)]
        half = CHECKED // 2
        try:
            whole = self.model(input_ids=torch.tensor([tokens], device=self.device), use_cache=False).logits[0].float()
            tolerance = (0.002 if self.model.dtype == torch.float32 else 0.1) * float(whole.abs().max())

            def apart(cache: DynamicCache) -> float:
                self._fed(cache, tokens[:half], begins=True)
                last = self._fed(cache, tokens[half:], begins=False)
                return float((last.float() - whole[-1, : self.vocabulary]).abs().max())

            stepped = DynamicCache(config=self.model.config)
            if not apart(stepped) <= tolerance:
                raise UnverifiableTarget(f"{name} answers differently with a cache, so it cannot be served.")
            self._continues = True
            try:
                self._continues = apart(DynamicCache(config=self.model.config)) <= tolerance
            except (TypeError, ValueError, RuntimeError, IndexError):
                self._continues = False
            context = self.context()
            context.assign(0, tokens[:half])
            self.verify(context, DraftTree.chain(tokens[half : half + 1]))
        except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, KeyError) as error:
            raise UnverifiableTarget(f"{name} cannot go on from a cache: {error}") from error
        grown = _bytes(stepped)
        self._fed(stepped, tokens[:half] * 2, begins=False)
        row = (_bytes(stepped) - grown) // (2 * half)
        state = max(0, grown - row * CHECKED)
        return max(1, row + state // STATE_TOKENS)


def tensors(value: object) -> Iterator[Tensor]:
    """All tensors in lists and mappings, however deep."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)


def _bytes(cache: DynamicCache) -> int:
    held = {part.data_ptr(): part for layer in cache.layers for part in tensors(vars(layer))}
    return sum(part.numel() * part.element_size() for part in held.values())
