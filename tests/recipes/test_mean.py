"""The mean of checkpoints is that of their weights, and keeps their numbers."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from recipes.shell_guide.mean import WEIGHTS, mean


def checkpoint(folder: Path, *values: float) -> Path:
    folder.mkdir()
    save_file({"weight": torch.tensor(values, dtype=torch.bfloat16)}, folder / WEIGHTS)
    return folder


def test_it_is_the_mean_of_all(tmp_path: Path) -> None:
    parts = [checkpoint(tmp_path / str(value), value, 1.0) for value in (1.0, 2.0, 6.0)]
    found = mean(parts)["weight"]
    assert found.tolist() == [3.0, 1.0] and found.dtype == torch.bfloat16
