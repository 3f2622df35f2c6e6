"""The engine for any causal language model of transformers, on a CPU or a GPU.

Rows of all contexts lie one after another in one sequence, so linear layers run over all of them at once. Attention
runs context by context on its own slab: nothing is padded, and no cached row is copied. Forwards run under `no_grad`,
because quanto's int4 weights do not work under `inference_mode`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from models.config import DrafterConfig
from models.engines.engine import Encoder, Engine, Floats, Forward, TargetContext, UnverifiableTarget, slab_rows
from models.engines.target import cache_argument
from models.memory import pack_memory, quantise_row
from models.tree import DraftTree

CPU_CHUNK, GPU_CHUNK = 128, 512
"""Tokens of a prompt in one forward. Fewer are slower overall, more make others wait longer."""
CPU_ROWS, GPU_ROWS = 128, 1024
"""Rows of a forward that many contexts share."""
FULL, SLIDING = "full_attention", "sliding_attention"
PACKED = "outrider_packed"
"""The name of `packed_attention` in transformers."""


class TargetSlab:
    """Keys and values of one layer, (1, heads, capacity, size). Only the first `length` rows count.

    Layers with a sliding window keep every row too: a rewind may need any of them, and the mask hides them.
    """

    def __init__(self) -> None:
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def capacity(self) -> int:
        return 0 if self.keys is None else self.keys.shape[-2]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append rows and return views of all rows."""
        start, self.length = self.length, self.length + keys.shape[-2]
        if self.keys is None or self.values is None:
            self.keys, self.values = keys[..., :0, :], values[..., :0, :]
        if self.length > self.capacity:
            capacity = slab_rows(self.length)
            self.keys, self.values = (_grown(rows, start, capacity) for rows in (self.keys, self.values))
        self.keys[..., start : self.length, :] = keys
        self.values[..., start : self.length, :] = values
        return self.keys[..., : self.length, :], self.values[..., : self.length, :]

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Move `rows`, indices at or after `start`, to `start`, and cut everything after them."""
        self.length = start + len(rows)
        if self.keys is not None and self.values is not None and len(rows):
            index = torch.tensor(rows, dtype=torch.long, device=self.keys.device)
            self.keys[..., start : self.length, :] = self.keys.index_select(-2, index)
            self.values[..., start : self.length, :] = self.values.index_select(-2, index)


def _grown(rows: Tensor, length: int, capacity: int) -> Tensor:
    grown = rows.new_empty((*rows.shape[:-2], capacity, rows.shape[-1]))
    grown[..., :length, :] = rows[..., :length, :]
    return grown


class TorchContext(TargetContext):
    """A conversation whose keys and values are tensors."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.slabs = [TargetSlab() for _ in range(layers)]

    @property
    def capacity(self) -> int:
        return max((slab.capacity for slab in list(self.slabs)), default=0)

    @torch.no_grad()
    def _keep(self, start: int, rows: Sequence[int]) -> None:
        for slab in self.slabs:
            slab.keep(start, rows)

    @torch.no_grad()
    def _copy(self, other: TargetContext, count: int) -> bool:
        assert isinstance(other, TorchContext)
        for slab, from_ in zip(self.slabs, other.slabs):
            assert from_.keys is not None and from_.values is not None
            slab.length = 0
            slab.append(from_.keys[..., :count, :], from_.values[..., :count, :])
        return True

    def _free(self) -> None:
        self.slabs[:] = [TargetSlab() for _ in self.slabs]


class PackedRows(NamedTuple):
    """The keys or values of several contexts, (1, heads, rows, size) each, and how many new rows each context has."""

    new: list[int]
    views: tuple[Tensor, ...]


class BatchLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer of the slabs of several contexts, as transformers' modelling code sees it.

    `rows`: how many rows each context has in the forward. With `packed`, `update` returns what `packed_attention`
    takes; otherwise there is one context.
    """

    is_sliding = False

    def __init__(self, slabs: Sequence[TargetSlab], rows: Sequence[int], packed: bool) -> None:
        super().__init__()
        self._slabs, self._rows, self._packed = slabs, list(rows), packed
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        pass

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Append rows and return all rows. transformers' modelling code calls it."""
        if not self._packed:
            return self._slabs[0].append(key_states, value_states)
        parts = zip(self._slabs, torch.split(key_states, self._rows, -2), torch.split(value_states, self._rows, -2))
        keys, values = zip(*(slab.append(*part) for slab, *part in parts))
        return PackedRows(self._rows, keys), PackedRows(self._rows, values)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._slabs[0].length + query_length, 0

    def get_seq_length(self) -> int:
        return self._slabs[0].length

    def get_max_length(self) -> int:
        return -1


def packed_attention(
    module: torch.nn.Module, query: Tensor, key: Any, value: Any, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention of several contexts whose rows follow one another: transformers' SDPA, context by context.

    `query` (1, heads, rows, size). `attention_mask` (1, 1, rows, most keys), in which the keys of each context begin at
    0. Without `PackedRows` it is plain attention.
    """
    if not isinstance(key, PackedRows):
        result: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return result
    mixed, start = [], 0
    for count, keys, values in zip(key.new, key.views, value.views):
        part = slice(start, start + count)
        mask = None if attention_mask is None else attention_mask[..., part, : keys.shape[-2]]
        mixed.append(sdpa_attention_forward(module, query[..., part, :], keys, values, mask, **options)[0])
        start += count
    return torch.cat(mixed, dim=1), None


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, sdpa_mask)


class TorchEncoder(Encoder, Protocol):
    """The half of a drafter that runs with the target: turns its keys and values into memory."""

    config: DrafterConfig

    def to(self, device: torch.device) -> Self: ...

    def __call__(self, keys_values: Tensor, positions: Tensor) -> list[tuple[Tensor, Tensor]]:
        """`keys_values` (S, L, 2*Hk*d) of S tokens at `positions` (S,): keys and values (S, heads, size) of each row of
        memory."""
        ...


class TorchEngine(Engine):
    """A model of transformers.

    The constructor verifies a small tree in two ways, as a tree and path by path. A model that would silently misread
    the tree is refused. Raises `UnverifiableTarget`, `UnfitDrafter`, `BrokenTarget`.
    """

    def __init__(
        self, model: PreTrainedModel, encoder: TorchEncoder | None = None, *, chunk: int | None = None
    ) -> None:
        self.model = model.eval()
        self.device: torch.device = model.device
        self.encoder: TorchEncoder | None = None
        self.vocabulary: int = model.get_input_embeddings().num_embeddings
        on_cpu = self.device.type == "cpu"
        self.chunk = chunk or (CPU_CHUNK if on_cpu else GPU_CHUNK)
        self.row_budget = CPU_ROWS if on_cpu else GPU_ROWS
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
        self._packed = config._attn_implementation == "sdpa"
        """Whether attention is packed; otherwise it is the model's own, and contexts run one after another."""
        self.bytes_per_token = self._self_check(name)
        if encoder is not None:
            self.remember_with(encoder)

    @property
    def description(self) -> str:
        parameters = list(self.model.parameters())
        held = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
        count = sum(parameter.numel() for parameter in parameters)
        kind = str(self.model.dtype).removeprefix("torch.")
        return f"PyTorch, {count / 1e6:,.1f} million parameters, {kind}, {held / 1e6:,.0f} MB, on {self.device}"

    def remember_with(self, encoder: Encoder) -> None:
        super().remember_with(cast("TorchEncoder", encoder).to(self.device))

    def context(self) -> TorchContext:
        return TorchContext(self._layers)

    def _use_threads(self, count: int) -> None:
        torch.set_num_threads(count)

    def free_bytes(self) -> int:
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else super().free_bytes()

    @torch.no_grad()
    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        if not self._packed and len(requests) > 1:
            return [self._run([request])[0] for request in requests]
        contexts = [request.context for request in requests]
        assert all(isinstance(context, TorchContext) for context in contexts)
        rows = [request.rows for request in requests]
        for request in requests:
            for slab in request.context.slabs:  # type: ignore[attr-defined]
                slab.length = request.start
        slabs = zip(*(context.slabs for context in contexts))  # type: ignore[attr-defined]
        cache = Cache(layers=[BatchLayer(layer, rows, self._packed) for layer in slabs])
        wanted, start = list[int](), 0
        for request in requests:
            wanted += range(start + request.rows - request.wanted, start + request.rows)
            start += request.rows
        positions = [torch.from_numpy(request.positions) for request in requests]
        output = self.model(
            input_ids=torch.tensor([[token for request in requests for token in request.tokens]], device=self.device),
            position_ids=torch.cat(positions)[None].to(self.device),
            attention_mask=self._masks(requests, positions),
            **cache_argument(self.model, cache),
            use_cache=True,
            logits_to_keep=torch.tensor(wanted or [0], device=self.device),
        )
        logits: Floats = output.logits[0, : len(wanted), : self.vocabulary].float().cpu().numpy()
        return np.split(logits, np.cumsum([request.wanted for request in requests[:-1]]))

    def _masks(self, requests: Sequence[Forward], positions: Sequence[Tensor]) -> Tensor | dict[str, Tensor]:
        """The 4-D mask of each kind of layer. transformers takes a mapping if there are several kinds.

        Each request has its own rows; its keys begin at 0.
        """
        rows = sum(request.rows for request in requests)
        keys = max(request.start + request.rows for request in requests)
        masks = {kind: torch.zeros(rows, keys, dtype=torch.bool) for kind in self._kinds}
        start = 0
        for request, at in zip(requests, positions):
            mask = torch.from_numpy(request.visible())
            part = slice(start, start + request.rows), slice(0, mask.shape[1])
            if FULL in masks:
                masks[FULL][part] = mask
            if SLIDING in masks:
                # In a tree, a key's distance follows from its position, not from its row.
                places = torch.cat((torch.from_numpy(request.before), at))
                masks[SLIDING][part] = mask & (at[:, None] - places < self._window)
            start += request.rows
        ready = {kind: mask[None, None].to(self.device) for kind, mask in masks.items()}
        if self.model.config._attn_implementation == "eager":
            lowest = torch.finfo(self.model.dtype).min
            ready = {kind: torch.where(mask, 0.0, lowest).to(self.model.dtype) for kind, mask in ready.items()}
        return ready if len(ready) > 1 else next(iter(ready.values()))

    @torch.no_grad()
    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        assert self.encoder is not None and isinstance(context, TorchContext)
        layers = []
        for slab in context.slabs:
            assert slab.keys is not None and slab.values is not None
            pair = torch.stack((slab.keys[0, :, start:end], slab.values[0, :, start:end]), dim=1)
            layers.append(pair.flatten(0, 1).transpose(0, 1))
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
            with torch.no_grad():
                paths = torch.tensor([prompt + left, prompt + right], device=self.device)
                plain = self.model(input_ids=paths, use_cache=False).logits.float().cpu()
            if self._packed:
                self.model.set_attn_implementation(PACKED)
            logits = torch.from_numpy(self.verify(context, tree))
        except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, KeyError) as error:
            raise UnverifiableTarget(f"{name} cannot verify a draft tree: {error}") from error
        expected = torch.stack((plain[0, 2], plain[0, 3], plain[1, 3], plain[0, 4], plain[1, 4]))
        tolerance = 0.002 if self.model.dtype == torch.float32 else 0.1
        if (logits - expected).abs().max() > tolerance * expected.abs().max():
            raise UnverifiableTarget(f"{name} reads a draft tree differently from its paths, so it cannot verify one.")
        pairs = [
            (slab.keys, slab.values) for slab in context.slabs if slab.keys is not None and slab.values is not None
        ]
        found = {(len(pairs), keys.shape[1], keys.shape[3]) for pair in pairs for keys in pair}
        self.key_shape = found.pop() if len(found) == 1 else (len(pairs), 0, 0)
        return sum(rows.element_size() * rows[0, :, 0].numel() for pair in pairs for rows in pair)
