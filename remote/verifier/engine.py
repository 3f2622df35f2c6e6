"""The target: draft trees in, logits out, one forward a round. Token ids only; no text, no sessions, no HTTP.

A `TargetContext` holds the committed tokens of one conversation and their keys and values, in buffers that grow and are
written, cut and compacted in place. A round has three calls. `TargetContext.assign` sets the committed tokens.
`Engine.verify` runs pending tokens and tree nodes in one forward under a tree mask. `TargetContext.commit` keeps the
accepted rows. If a forward fails half-way, nothing is lost: rows beyond `computed` never count, and the next forward
overwrites them.

Not thread-safe: only one thread at a time may call an engine and its contexts. Forwards run under `no_grad`, because
quanto's int4 weights do not work under `inference_mode`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from drafter.memory import pack_memory, quantise_row
from drafter.model import MemoryEncoder
from drafter.model.cache_argument import cache_argument
from drafter.tree import DraftTree

CPU_CHUNK, GPU_CHUNK = 128, 512
"""Tokens of a prompt in one forward. Fewer are slower in total, more make others wait longer."""
FULL, SLIDING = "full_attention", "sliding_attention"


class EngineError(Exception):
    """The target cannot do what was asked. The message says why.

    EngineError
    ├── UnverifiableTarget   the model's attention cannot take a draft tree
    ├── UnfitDrafter         the memory encoder was made for a target of another shape
    ├── UnknownToken         a token id is outside the target's vocabulary
    └── BrokenTarget         the target returned NaN, or no chance for any token
    """


class UnverifiableTarget(EngineError):
    """The model's attention cannot take a draft tree."""


class UnfitDrafter(EngineError):
    """The memory encoder was made for a target of another shape."""


class UnknownToken(EngineError):
    """A token id is outside the target's vocabulary."""


class BrokenTarget(EngineError):
    """The target returned NaN, or no chance for any token."""


class TargetSlab(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer, (1, heads, capacity, size). Only the first `length` rows count.

    Layers with a sliding window keep every row too: a rewind may need any of them, and the mask hides them.
    """

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values = key_states[..., :0, :], value_states[..., :0, :]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append rows and return views of all rows. transformers' modelling code calls it."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, self.length = self.length, self.length + key_states.shape[-2]
        if self.length > self.keys.shape[-2]:
            capacity = slab_rows(self.length)
            self.keys, self.values = (_grown(rows, start, capacity) for rows in (self.keys, self.values))
        self.keys[..., start : self.length, :] = key_states
        self.values[..., start : self.length, :] = value_states
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]

    def keep(self, start: int, rows: Tensor) -> None:
        """Move `rows`, indices at or after `start`, to `start`, and cut everything behind them."""
        self.length = start + len(rows)
        if self.is_initialized and len(rows):
            self.keys[..., start : self.length, :] = self.keys.index_select(-2, rows)
            self.values[..., start : self.length, :] = self.values.index_select(-2, rows)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


def slab_rows(length: int) -> int:
    """Most rows of a slab that grew to `length`: half as many more, so that it is rarely copied."""
    return max(64, length + length // 2)


def _grown(rows: Tensor, length: int, capacity: int) -> Tensor:
    grown = rows.new_empty((*rows.shape[:-2], capacity, rows.shape[-1]))
    grown[..., :length, :] = rows[..., :length, :]
    return grown


class TargetContext:
    """The committed tokens of one conversation, and the keys and values of the first `computed` of them."""

    def __init__(self, layers: int) -> None:
        self.tokens: list[int] = []
        self.computed = 0
        self.rewinds = 0
        """How often computed rows were given up. Readers compare it to know whether earlier rows are still there."""
        self.slabs = [TargetSlab() for _ in range(layers)]
        self.cache = Cache(layers=self.slabs)

    @property
    def capacity(self) -> int:
        """Rows that the slab has allocated, used or not."""
        return max((slab.keys.shape[-2] for slab in list(self.slabs) if slab.is_initialized), default=0)

    def assign(self, base: int, tokens: Sequence[int]) -> None:
        """Set the committed tokens to the first `base` ones, then `tokens`. The rows of unchanged tokens are kept."""
        agreed = base
        for old, new in zip(self.tokens[base:], tokens):
            if old != new:
                break
            agreed += 1
        if agreed < self.computed:
            self.rewinds += 1
        self.tokens[base:] = tokens
        # The last token is the root. Its logits are wanted, so it is computed again.
        self.computed = max(0, min(self.computed, agreed, len(self.tokens) - 1))

    @torch.no_grad()
    def commit(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> list[int]:
        """Keep the accepted nodes' rows of the last `verify`, append their tokens and the bonus, and return these."""
        new = [int(tree.tokens[node]) for node in accepted] + ([] if bonus is None else [bonus])
        rows = [self.computed + node for node in accepted]
        if self.slabs[0].is_initialized:
            index = torch.tensor(rows, dtype=torch.long, device=self.slabs[0].keys.device)
            for slab in self.slabs:
                slab.keep(self.computed, index)
        self.computed += len(rows)
        self.tokens += new
        return new

    def release(self) -> None:
        """Forget everything and free the slab."""
        self.rewinds += 1
        self.tokens, self.computed, self.slabs[:] = [], 0, [TargetSlab() for _ in self.slabs]


class Engine:
    """A causal language model of transformers that verifies draft trees, with its drafter's memory encoder if any.

    The constructor verifies a small tree in two ways, as a tree and path by path. So a model that would silently read
    the tree wrongly is refused. Raises `UnverifiableTarget`, `UnfitDrafter`, `BrokenTarget`.
    """

    def __init__(
        self, model: PreTrainedModel, encoder: MemoryEncoder | None = None, *, chunk: int | None = None
    ) -> None:
        self.model = model.eval()
        self.device: torch.device = model.device
        self.encoder = None if encoder is None else encoder.to(self.device)
        self.vocabulary: int = model.get_input_embeddings().num_embeddings
        self.chunk = chunk or (CPU_CHUNK if self.device.type == "cpu" else GPU_CHUNK)
        """Most pending tokens in one forward. It bounds the mask, the activations, and how long others wait."""
        config = model.config.get_text_config()
        self._layers: int = config.num_hidden_layers
        self._window: int = (getattr(config, "use_sliding_window", True) and getattr(config, "sliding_window", 0)) or 0
        kinds = getattr(config, "layer_types", None) or [SLIDING if self._window else FULL]
        self._kinds = sorted(set(kinds))
        name = type(model).__name__
        if not set(self._kinds) <= {FULL, SLIDING}:
            raise UnverifiableTarget(f"{name} has {', '.join(self._kinds)} layers; draft trees need plain attention.")
        if missing := {"position_ids", "logits_to_keep"} - set(inspect.signature(model.forward).parameters):
            raise UnverifiableTarget(f"{name} takes no {' and no '.join(sorted(missing))}: it cannot verify trees.")
        self.bytes_per_token = self._self_check(name)

    def context(self) -> TargetContext:
        return TargetContext(self._layers)

    def check(self, tokens: Sequence[int] | np.ndarray) -> None:
        """Raise `UnknownToken` for an id outside the vocabulary."""
        if len(tokens) and not 0 <= (worst := int(max(tokens))) < self.vocabulary:
            raise UnknownToken(f"token {worst} is outside the target's vocabulary of {self.vocabulary}")

    @torch.no_grad()
    def read(self, context: TargetContext) -> bool:
        """Compute one chunk of the committed tokens and return True, if there is more than one chunk to compute.

        Raises `UnknownToken`.
        """
        if len(context.tokens) - context.computed <= self.chunk:
            return False
        chunk = context.tokens[context.computed :][: self.chunk]
        self.check(chunk)
        self._forward(context, chunk, DraftTree.empty())
        return True

    @torch.no_grad()
    def verify(self, context: TargetContext, tree: DraftTree) -> Tensor:
        """The logits after the root and after each node, (1 + n, V) float32.

        It also computes all committed tokens that are not computed yet; there is at least one. Raises `UnknownToken`,
        `BrokenTarget`.
        """
        while self.read(context):
            pass
        self.check(context.tokens[context.computed :])
        self.check(tree.tokens)
        logits = self._forward(context, context.tokens[context.computed :], tree)
        # A comparison with NaN is false, and the maximum of a row with NaN is NaN.
        if not (logits.max(-1).values > -torch.inf).all():
            what = "NaN" if logits.isnan().any() else "no chance for any token"
            raise BrokenTarget(
                f"The target returned {what}: its weights are damaged, or its number format is too narrow."
            )
        return logits

    def _forward(self, context: TargetContext, pending: Sequence[int], tree: DraftTree) -> Tensor:
        past, committed = context.computed, context.computed + len(pending)
        for slab in context.slabs:
            slab.length = past
        positions = torch.cat([torch.arange(committed), committed - 1 + torch.from_numpy(tree.depths())])
        mask = torch.ones(len(positions) - past, len(positions), dtype=torch.bool).tril(past)
        mask[len(pending) :, committed:] = torch.from_numpy(tree.ancestors())
        output = self.model(
            input_ids=torch.tensor([[*pending, *tree.tokens.tolist()]], device=self.device),
            position_ids=positions[None, past:].to(self.device),
            attention_mask=self._masks(mask, positions),
            **cache_argument(self.model, context.cache),
            use_cache=True,
            logits_to_keep=torch.arange(len(pending) - 1, len(mask), device=self.device),
        )
        context.computed = committed
        logits: Tensor = output.logits[0, :, : self.vocabulary].float()
        return logits

    def _masks(self, mask: Tensor, positions: Tensor) -> Tensor | dict[str, Tensor]:
        """The 4-D mask of each kind of layer. transformers takes a mapping if there are several kinds."""
        masks = {FULL: mask}
        if SLIDING in self._kinds:
            # In a tree, the row of a key says nothing about its distance. Its position does.
            masks[SLIDING] = mask & (positions[-len(mask) :, None] - positions < self._window)
        ready = {kind: masks[kind][None, None].to(self.device) for kind in self._kinds}
        if self.model.config._attn_implementation == "eager":
            lowest = torch.finfo(self.model.dtype).min
            ready = {kind: torch.where(mask, 0.0, lowest).to(self.model.dtype) for kind, mask in ready.items()}
        return ready if len(ready) > 1 else next(iter(ready.values()))

    @torch.no_grad()
    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        """The packed memory of the computed tokens `start .. end`. Only with an encoder."""
        assert self.encoder is not None
        layers = [
            torch.stack((slab.keys[0, :, start:end], slab.values[0, :, start:end]), dim=1).flatten(0, 1).transpose(0, 1)
            for slab in context.slabs
        ]
        keys_values = torch.stack(layers, dim=1).flatten(2).float()
        rows = self.encoder(keys_values, torch.arange(start, end, device=self.device))
        bits = self.encoder.config.memory_bits
        return pack_memory(
            [quantise_row(keys.cpu().numpy(), values.cpu().numpy(), bits) for keys, values in rows], bits
        )

    def _self_check(self, name: str) -> int:
        """Verify a small tree in two ways, and return the bytes of one token's keys and values."""
        prompt, left, right = ([token % self.vocabulary for token in part] for part in ([7, 3, 5], [2, 9], [4, 1]))
        tree = DraftTree(np.array([left[0], right[0], left[1], right[1]]), np.array([-1, -1, 0, 1]))
        context = self.context()
        context.assign(0, prompt)
        try:
            logits = self.verify(context, tree)
            with torch.no_grad():
                paths = torch.tensor([prompt + left, prompt + right], device=self.device)
                plain = self.model(input_ids=paths, use_cache=False).logits.float()
        except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, KeyError) as error:
            raise UnverifiableTarget(f"{name} cannot verify a draft tree: {error}") from error
        expected = torch.stack((plain[0, 2], plain[0, 3], plain[1, 3], plain[0, 4], plain[1, 4]))
        tolerance = 0.002 if self.model.dtype == torch.float32 else 0.1
        if (logits - expected).abs().max() > tolerance * expected.abs().max():
            raise UnverifiableTarget(f"{name} reads a draft tree differently from its paths, so it cannot verify one.")
        slabs = [slab for slab in context.slabs if slab.is_initialized]
        shape = {(slab.keys.shape[1], slab.keys.shape[3], slab.values.shape[3]) for slab in slabs}
        if self.encoder is not None:
            made = self.encoder.config
            heads, size = made.target_kv_heads, made.target_head_size
            if made.target_layers != len(slabs) or len(slabs) != self._layers or shape != {(heads, size, size)}:
                found = ", ".join(f"{h} x {d}" for h, d, _ in sorted(shape))
                raise UnfitDrafter(
                    f"The drafter was made for {made.target}, {made.target_layers} layers of {heads} x {size} keys; "
                    f"this {name} has {self._layers} of {found}. Serve its own target, or leave the drafter out."
                )
        return sum(rows.element_size() * rows[0, :, 0].numel() for slab in slabs for rows in (slab.keys, slab.values))
