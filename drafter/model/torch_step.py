"""One step of the drafter in PyTorch, for machines with a GPU. optimum's quanto quantises its linear layers.

The weights are the float weights of the drafter's folder, quantised while they are loaded. The embedding and the norms
stay as they are. Cache rows stay on the device: a step takes tokens, positions and a mask to it, and brings the
proposals back. Steps run under `no_grad`, because quanto's int4 weights do not work under `inference_mode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drafter.model.draft_model import DraftModel, StepModule, load_draft_model
from drafter.step import FIRST_ROWS, Correction, Floats, Rows, Step, cache_shapes
from models.config import DrafterError

Bits = Literal[8, 4]


class TorchStep:
    """The step of a draft model as a function. It is a `DraftStep`."""

    independent_rows = False
    """Always False: the libraries choose a kernel, and with it the order of its sums, by the shape of the product, so
    no trial can prove that all shapes agree."""

    def __init__(
        self,
        model: DraftModel,
        device: torch.device,
        bits: Bits | None = 8,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Takes ownership of `model`. `bits` of the linear layers' weights, or None for floats.

        `dtype` of everything else, by default bfloat16 on CUDA and float32 elsewhere.
        """
        self.cache_shapes = cache_shapes(model.config)
        self._device = device
        self._dtype = dtype or (torch.bfloat16 if device.type == "cuda" else torch.float32)
        step = StepModule(model)
        del model.head  # The step has its own copy of the head's rows for the draft vocabulary.
        self._step = step.to(device=device, dtype=self._dtype).eval().requires_grad_(False)
        if bits is not None:
            from models.engines.quanto import quantise  # This takes seconds, and floats do not need it.

            quantise(self._step, bits, head="head", head_bits=8)
        numbers = str(self._dtype).removeprefix("torch.") if bits is None else f"int{bits}"
        shapes = [part.shape for part in Correction.none(model.config)] if model.config.correctable else []
        self._correction = [torch.zeros(shape, device=device, dtype=self._dtype) for shape in shapes]
        self.runtime = f"PyTorch on {device}, {numbers}"

    @classmethod
    def load(cls, folder: Path, device: str | None = None, bits: Bits | None = 8) -> TorchStep:
        """Load the float weights of a drafter's folder to `device`, by default a GPU if there is one.

        Raises `DrafterMissing`, `DrafterCorrupt`, and `DrafterError` for a device that PyTorch cannot use.
        """
        place = _device(device)
        return cls(load_draft_model(folder), place, bits)

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
        ids = (torch.as_tensor(array, device=self._device) for array in (tokens, positions))
        arrays = (mask, *memory, *(array for pair in past for array in pair))
        floats = (torch.as_tensor(array, dtype=self._dtype, device=self._device) for array in arrays)
        best, kept, *new = self._step(*ids, *floats, *self._correction)
        new = new[:-1] if self._correction else new
        return Step(best.float().cpu().numpy(), kept.cpu().numpy(), list(zip(new[::2], new[1::2])))


class TensorSlab:
    """A `RowStore` of tensors on the device that double in size when they are full."""

    def __init__(self, heads: int, size: int, device: torch.device, dtype: torch.dtype) -> None:
        self.keys = torch.zeros(heads, FIRST_ROWS, size, device=device, dtype=dtype)
        self.values = torch.zeros_like(self.keys)

    def write(self, at: int | NDArray[np.int64], rows: Rows) -> None:
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
        """Views of the first `slots` rows, or copies of the listed ones."""
        chosen: Any = slice(slots) if isinstance(slots, int) else torch.from_numpy(slots).to(self.keys.device)
        return self.keys[:, chosen], self.values[:, chosen]

    def nbytes(self, rows: int = 0) -> int:
        held, capacity = self.keys.nbytes + self.values.nbytes, self.keys.shape[1]
        return held if rows <= capacity else held // capacity * 2 * rows

    def _reserve(self, rows: int) -> None:
        heads, capacity, size = self.keys.shape
        if rows > capacity:
            more = self.keys.new_zeros(heads, max(rows, 2 * capacity) - capacity, size)
            self.keys = torch.cat((self.keys, more), dim=1)
            self.values = torch.cat((self.values, more), dim=1)


def _device(name: str | None) -> torch.device:
    """The device of that name, after a trial; by default a GPU if there is one. Raises `DrafterError`."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # AssertionError: PyTorch was built without CUDA.
        reason = str(error).partition("\n")[0]
        raise DrafterError(f"PyTorch cannot use the device {name} ({reason}). Choose another one.") from None
