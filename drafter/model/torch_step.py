"""One step of the drafter in PyTorch, for machines with a GPU; its linear layers are quantised by optimum's quanto.

The weights are the artefact's floats, quantised while they are loaded; the embedding and the norms stay as they are.
Cache rows live on the device: a step takes tokens, positions and a mask up, and brings the proposals down. Steps run
under `no_grad`, not under `inference_mode`, in which quanto's int4 weights cannot be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from drafter.config import FLOAT, DrafterError
from drafter.model.draft_model import DraftModel, StepModule, load_draft_model
from drafter.step import Floats, Rows, Step, cache_shapes

Bits = Literal[8, 4]


class TorchStep:
    """The step of a draft model as a function: a `DraftStep`."""

    independent_rows = False
    """The libraries choose a product's kernel, and so the order of its sums, by its shape: no trial vouches for all."""

    def __init__(
        self,
        model: DraftModel,
        device: torch.device,
        bits: Bits | None = 8,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Takes `model` over. `bits` of the linear layers' weights, None: floats.

        `dtype` of all else; None: bfloat16 on CUDA, else float32.
        """
        self.cache_shapes = cache_shapes(model.config)
        self._device = device
        self._dtype = dtype or (torch.bfloat16 if device.type == "cuda" else torch.float32)
        step = StepModule(model)
        del model.head  # Its rows of the draft vocabulary are the step's own.
        self._step = step.to(device=device, dtype=self._dtype).eval().requires_grad_(False)
        if bits is not None:
            _quantise(self._step, bits)
        numbers = str(self._dtype).removeprefix("torch.") if bits is None else f"int{bits}"
        self.runtime = f"PyTorch on {device}, {numbers}"

    @classmethod
    def load(cls, folder: Path, device: str | None = None, bits: Bits | None = 8) -> TorchStep:
        """The float weights of an artefact folder on `device`; None: a GPU where there is one, else the CPU.

        Raises `DrafterMissing`, `DrafterCorrupt`, and `DrafterError` for a device that PyTorch cannot use.
        """
        place = _device(device)
        return cls(load_draft_model(folder, folder / FLOAT), place, bits)

    def slab(self, heads: int, size: int) -> TensorSlab:
        return TensorSlab(heads, size, self._device, self._dtype)

    @torch.no_grad()
    def __call__(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        mask: Floats,
        past: Sequence[Rows],
        memory: Rows,
    ) -> Step:
        """Run M tokens; see `DraftStep`."""
        ids = (torch.as_tensor(array, device=self._device) for array in (tokens, positions))
        arrays = (mask, *memory, *(array for pair in past for array in pair))
        floats = (torch.as_tensor(array, dtype=self._dtype, device=self._device) for array in arrays)
        best, kept, *new = self._step(*ids, *floats)
        return Step(best.float().cpu().numpy(), kept.cpu().numpy(), list(zip(new[::2], new[1::2])))


class TensorSlab:
    """Keys and values of consecutive rows, in tensors on the device that double when they are full."""

    def __init__(self, heads: int, size: int, device: torch.device, dtype: torch.dtype, capacity: int = 256) -> None:
        self.keys = torch.zeros(heads, capacity, size, device=device, dtype=dtype)
        self.values = torch.zeros_like(self.keys)

    def write(self, at: int | NDArray[np.int64], rows: Rows) -> None:
        """Put `rows`, tensors or numpy's arrays, at the slots from `at` on, or at the slots listed in it."""
        keys, values = (torch.as_tensor(part, dtype=self.keys.dtype, device=self.keys.device) for part in rows)
        if not keys.shape[1]:
            return
        if isinstance(at, int):
            end, slots = at + keys.shape[1], slice(at, at + keys.shape[1])
            self._reserve(end)
            self.keys[:, slots], self.values[:, slots] = keys, values
        else:
            self._reserve(int(at.max()) + 1)
            chosen = torch.from_numpy(at).to(self.keys.device)
            self.keys[:, chosen], self.values[:, chosen] = keys, values

    def rows(self, slots: int | NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Views of the first `slots` rows, or copies of those listed."""
        chosen: Any = slice(slots) if isinstance(slots, int) else torch.from_numpy(slots).to(self.keys.device)
        return self.keys[:, chosen], self.values[:, chosen]

    def nbytes(self, rows: int = 0) -> int:
        """Bytes allocated, or those that would be after a write up to `rows`."""
        held, capacity = self.keys.nbytes + self.values.nbytes, self.keys.shape[1]
        return held if rows <= capacity else held // capacity * 2 * rows

    def _reserve(self, rows: int) -> None:
        heads, capacity, size = self.keys.shape
        if rows > capacity:
            more = self.keys.new_zeros(heads, max(rows, 2 * capacity) - capacity, size)
            self.keys = torch.cat((self.keys, more), dim=1)
            self.values = torch.cat((self.values, more), dim=1)


def _device(name: str | None) -> torch.device:
    """The device of that name, tried; None: a GPU where there is one. Raises `DrafterError`."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # The second where PyTorch was built without CUDA.
        reason = _first_line(error)
        raise DrafterError(f"PyTorch cannot use the device {name} ({reason}). Choose another one.") from None


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _quantise(step: nn.Module, bits: Bits) -> None:
    """Weights of the linear layers to int8 or int4, in place. The head is int8 in both: it chooses the tokens."""
    from optimum.quanto import freeze, qint4, qint8, quantize  # Takes seconds, which floats need not pay.

    from drafter.model.quanto import need_no_compiler

    need_no_compiler()
    quantize(step, weights=qint8, include="head")
    quantize(step, weights=qint8 if bits == 8 else qint4, exclude="head")
    freeze(step)
